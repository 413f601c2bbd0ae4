"""A Hatchling build hook that generates the files for each wheel, so that they are never stale."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)  # the package under construction is not installed yet
        from manual.__main__ import write

        self._folder = tempfile.TemporaryDirectory()
        for place, path in write(Path(self._folder.name)).items():
            build_data["shared_data"][str(path)] = place

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._folder.cleanup()
