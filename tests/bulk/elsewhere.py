"""An fsspec file system that is not a directory of this machine.

As in object stores, an object appears complete or not at all, and is never changed in place.
`elsewhere:///PATH` is stored at that path. Incomplete uploads, also those of killed senders, have names that
a listing hides.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

SCHEME = "elsewhere"

#: Prefix of the names of incomplete uploads.
_COMING = ".coming-"


def is_coming(path: Path) -> bool:
    return path.name.startswith(_COMING)


class _Objects(LocalFileSystem):
    def put_file(self, lpath: str, rpath: str, callback: Any = None, **more: Any) -> None:
        target = Path(self._strip_protocol(rpath))
        target.parent.mkdir(parents=True, exist_ok=True)
        coming = target.with_name(f"{_COMING}{uuid4().hex}")
        shutil.copyfile(lpath, coming)
        os.replace(coming, target)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **more: Any) -> None:
        target = Path(self._strip_protocol(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        coming = target.with_name(f"{_COMING}{uuid4().hex}")
        coming.write_bytes(value)
        os.replace(coming, target)


class Elsewhere(DirFileSystem):
    protocol = SCHEME

    def __init__(self, **more: Any) -> None:
        super().__init__(path="/", fs=_Objects(skip_instance_cache=True), **more)


fsspec.register_implementation(SCHEME, Elsewhere, clobber=True)
