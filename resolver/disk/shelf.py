"""A directory of files that are written whole, or by those who know how: what a run over a cluster keeps."""

from __future__ import annotations

import os
from contextlib import suppress
from tempfile import TemporaryDirectory

from protocols.errors import LocalError
from resolver.disk.faults import reason, writing_fault
from resolver.disk.replacing import replace


class OutputFiles:
    """Names are paths below it, with `/`. All raise `LocalError`."""

    def __init__(self, path: str) -> None:
        self.directory = os.path.abspath(path)

    def place(self, name: str) -> str:
        """The path of that name, in a directory that is there."""
        path = os.path.join(self.directory, name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        except OSError as error:
            raise writing_fault(error, path) from error
        return path

    def read(self, name: str) -> bytes | None:
        """None where there is none."""
        path = os.path.join(self.directory, name)
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LocalError(f"cannot read {path!r}: {reason(error)}") from error

    def write(self, name: str, octets: bytes) -> None:
        """It is there as a whole, or not at all; what others left of it who were killed goes, for who reads
        the directory reads that, too. Of one name there is one writer at a time."""
        path = self.place(name)
        try:
            replace(path, octets, 0o666)
            directory, base = os.path.split(path)
            for each in os.listdir(directory):
                if each.startswith(f"{base}."):
                    os.unlink(os.path.join(directory, each))
        except OSError as error:
            raise writing_fault(error, path) from error

    def names(self, directory: str) -> list[str]:
        """What is in a directory of it, if there is one."""
        path = os.path.join(self.directory, directory)
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LocalError(f"cannot read {path!r}: {reason(error)}") from error

    def has(self, name: str) -> bool:
        return os.path.exists(os.path.join(self.directory, name))


def passing(directory: str | None = None) -> TemporaryDirectory[str]:
    """A directory for what is sent elsewhere, in that one if need be, which goes with all that is in it."""
    return TemporaryDirectory(prefix="resolve-", dir=directory)


def own(path: str) -> None:
    """It came from elsewhere, and is nobody else's here."""
    os.chmod(path, 0o600)


def forget(path: str) -> None:
    """What has come of it is not all."""
    with suppress(FileNotFoundError):
        os.unlink(path)
