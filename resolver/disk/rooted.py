"""Below one directory and nowhere else (S12, `file_root`).

A path is walked component by component, each opened relative to the one before and never through a
link; links are read and walked by hand. A link, or a `..`, that would leave the root is refused, also
where it would come back later: so nothing outside can even be found to exist. Directories are held
open on the way, so renaming one cannot move the walk elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Sequence

from protocols.errors import NotConfigured, Refused
from resolver.policy.verdict import refusal

#: Links followed in one walk: what Linux itself follows (path_resolution(7)).
MOST_LINKS = 40

# Search permission is enough to pass through a directory; elsewhere than on Linux it must be readable.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileRoot:
    """The directory, as the person spelt it and as it really is: a path may begin with either."""

    def __init__(self, path: str) -> None:
        spelt = os.fsencode(os.path.abspath(path))
        self._real = os.path.realpath(spelt)
        self._spellings = tuple(_parts(spelling) for spelling in (spelt, self._real))

    def below(self, parts: Sequence[bytes]) -> list[bytes]:
        """What follows the root in an absolute path. `Refused` (S12) if the path does not begin with it."""
        given = [part for part in parts[:-1] if part not in (b"", b".")] + list(parts[-1:])
        for root in self._spellings:
            if given[: len(root)] == root:
                return given[len(root) :]
        raise _outside()

    def open(self) -> int:
        try:
            return os.open(self._real, _PASS)
        except OSError as error:
            raise NotConfigured(f"--file-root {os.fsdecode(self._real)!r}: {error.strerror}") from error


class RootedWalk:
    """A way down from the root. `top` is the directory that it has come to; `close` ends it."""

    def __init__(self, root: FileRoot) -> None:
        self._root = root
        self._held = [root.open()]

    @property
    def top(self) -> int:
        return self._held[-1]

    def go(self, parts: Sequence[bytes]) -> bytes:
        """Walk on. Returns the name in `top` of what the parts lead to, `b"."` for `top` itself: it is
        no link. Raises `OSError` for what is not there and `Refused` for what lies outside."""
        left = deque(parts)
        links = 0
        while left:
            part = left.popleft()
            if part in (b"", b"."):
                continue
            if part == b"..":
                self._up()
                continue
            mode = os.stat(part, dir_fd=self.top, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                links += 1
                left.extendleft(reversed(self._read_link(part, links)))
            elif stat.S_ISDIR(mode):
                self._held.append(os.open(part, _PASS, dir_fd=self.top))
            elif left:
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            else:
                return part
        return b"."

    def copy(self) -> RootedWalk:
        """Another walk, come as far as this one."""
        walk = RootedWalk(self._root)
        walk._held += [os.dup(fd) for fd in self._held[1:]]
        return walk

    def close(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def _up(self) -> None:
        if len(self._held) == 1:
            raise _outside()
        os.close(self._held.pop())

    def _read_link(self, name: bytes, links: int) -> list[bytes]:
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink(name, dir_fd=self.top)
        parts = target.split(b"/")
        if not target.startswith(b"/"):
            return parts
        below = self._root.below(parts)
        while len(self._held) > 1:
            os.close(self._held.pop())
        return below


def _parts(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part]


def _outside() -> Refused:
    return refusal("S12", "the path leads out of the directory that file URLs are confined to (--file-root)")
