"""The sidecar NAME.meta.json with the metadata of the saved file NAME, such as its URL (S21).

A sidecar always describes the current file NAME, even after a killed run or a loss of power. To guarantee
this, a file and its sidecar are saved in this order:

1. The new sidecar is written to a temporary file and synced.
2. The sidecar of the previous file NAME is removed.
3. The file is renamed to NAME.
4. The new sidecar is renamed to its final name.

If a run was killed after step 3, the next run performs step 4. The sidecar contains the size and the digest
of the file. They show whether another program has changed the file later.

Only a sidecar that this package created is replaced or removed. A sidecar of this package is a regular file
of the effective user that begins with `_PREFIX`. If any other file has the name of the sidecar, an error
is raised before a request is sent. A file name from a server never has the suffix of a sidecar
(`policy.filenames`).
"""

from __future__ import annotations

import os
import stat
from contextlib import closing, suppress
from functools import partial

from protocols.errors import LocalError
from resolver.files.atomic import whole_file
from resolver.files.directory import DirectoryHandle
from resolver.policy.files import FIRST_SUFFIX, META_SUFFIX

FORMAT = "url-resolver meta 1"
#: The first bytes of every sidecar. A run that was killed during the write may leave a prefix of these bytes.
_PREFIX = b'{\n  "format": "url-resolver meta '

_MODE = 0o644
_MAX_SIZE = 1_048_576


def read_sidecar(path: str) -> bytes | None:
    """Return this program's sidecar of the file `path`, or None if it is missing or not readable."""
    try:
        with closing(DirectoryHandle(os.path.dirname(path), make=False)) as directory:
            directory.hold()
            octets = directory.read_own(os.path.basename(path) + META_SUFFIX, _is_own_file, _MAX_SIZE)
    except (OSError, LocalError):
        return None
    return octets if octets is not None and octets.startswith(_PREFIX) else None


class Sidecar:
    """The sidecar of the file `name` in an open directory.

    Methods raise `OSError`, or `LocalError` for a file that another program created.
    """

    def __init__(self, name: str, directory: DirectoryHandle) -> None:
        self._directory = directory
        self._name = name + META_SUFFIX
        self._temporary = self._name + FIRST_SUFFIX
        self._prepared: os.stat_result | None = None

    def check(self) -> None:
        """Raise an error if another program created a file with the name of the sidecar."""
        self._exists(self._name)
        self._exists(self._temporary)

    def prepare_rename(self, octets: bytes | None) -> None:
        """Write and sync the new sidecar to a temporary file, and remove the old sidecar, before the rename.

        The old sidecar describes the replaced file, so it is removed even without a new sidecar.
        """
        if octets is not None:
            self._forget(self._temporary)
            fd = self._directory.create(self._temporary, _MODE)
            with whole_file(fd, (octets,), partial(self._directory.forget, self._temporary)) as status:
                self._prepared = status
            self.forget()
        else:
            self.discard_temporary()
            with suppress(OSError, LocalError):  # Another program may own the file.
                self.forget()

    def forget(self) -> None:
        """Remove the sidecar before its file is replaced."""
        if self._forget(self._name):
            self._directory.sync()

    def discard_temporary(self) -> None:
        """Remove the sidecar's temporary file (of this program), because the file is not saved."""
        with suppress(OSError, LocalError):
            self._forget(self._temporary)

    def publish(self) -> None:
        """Rename the temporary sidecar, if it exists, after the caller has renamed the saved file."""
        if self._exists(self._temporary):
            self._directory.sync()
            try:
                self._directory.rename(self._temporary, self._name)
            except FileExistsError as error:
                # If a run was killed between link and unlink, the sidecar has both names.
                status = self._directory.status_of(self._temporary)
                if status is None or not self._directory.has(self._name, status):
                    raise self._directory.make_foreign_error(self._name) from error
                self._directory.forget(self._temporary)

    def _forget(self, name: str) -> bool:
        """Remove a sidecar file, and return whether the file existed."""
        if not self._exists(name):
            return False
        self._directory.forget(name)
        return True

    def _exists(self, name: str) -> bool:
        """Return whether the file exists.

        Raises:
            LocalError: Another program created the file.
        """
        # NFS with root_squash, and FAT mounted with uid=, give a new file another owner.
        if self._prepared is not None and self._directory.has(name, self._prepared):
            return True
        octets = self._directory.read_own(name, _is_own_file, len(_PREFIX))
        if octets is None:
            return False
        if octets != _PREFIX and not (name == self._temporary and _PREFIX.startswith(octets)):
            raise self._directory.make_foreign_error(name)
        return True


def _is_own_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
