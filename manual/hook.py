"""Hatchling build hooks that generate files and metadata of the wheel at build time."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class ManualHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)  # the package is not installed during the build
        from manual.__main__ import write
        from manual.metadata import sbom

        self._folder = tempfile.TemporaryDirectory()
        for place, path in write(Path(self._folder.name)).items():
            build_data["shared_data"][str(path)] = place
        core = self.metadata.core
        path = Path(self._folder.name, f"{core.name}.cdx.json")
        path.write_text(sbom(core.name, self.metadata.version, core.dependencies), encoding="utf-8")
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._folder.cleanup()


class DescriptionHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        from manual.metadata import long_description

        repository = metadata.get("urls", {}).get("Repository")
        base = repository and f"{repository}/blob/v{metadata['version']}/"
        text = long_description(Path(self.root, "README.md").read_text(encoding="utf-8"), base)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
