"""Hatchling's way to the files: made anew for each wheel, so that none is ever stale."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)  # what is built is not installed yet
        from manual.__main__ import write

        self._folder = tempfile.TemporaryDirectory()
        for place, path in write(Path(self._folder.name)).items():
            build_data["shared_data"][str(path)] = place

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._folder.cleanup()
