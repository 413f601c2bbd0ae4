"""The names that the files of one run get: two of its URLs never write one file, on any file system (S14).
Names that are one where letters have no case are one here, as they are in a tree.

A name belongs to the first URL of the list that asks for it, whatever becomes of that; the next ones get it
numbered, `name.2`. So which file is of which URL can be told from the list alone, and another run of the same
list finds the same names. Only who wants a new name for each run (`--exists rename`) has the disk asked, too.

Names are remembered by `aside`: with very many of them one may be taken for another, which has a number then
that it need not have had, and has it in each run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from os.path import join, normpath

from resolver.policy import name_key, numbered
from resolver.retrieval.aside import SpillMap

#: Whose a key is: that of a URL whose name was made, or of those that wanted theirs as they are.
_NAMED, _HELD = 1, 2


class NameReservations:
    """Paths below one directory that the URLs of a run have. `is_free` says more of a path than that none has
    it yet: may this URL have it?"""

    def __init__(self, is_free: Callable[[str, str], bool]) -> None:
        self._is_free = is_free
        self._files = SpillMap()
        self._directories = SpillMap()
        self._last = SpillMap()
        self._held = SpillMap()  # as they are; all others by their keys

    def reserve(self, wanted: str, url: str) -> str:
        """The path itself, or the first numbered one that is free."""
        directory, _, name = wanted.rpartition("/")
        place = self._directory(directory)
        path = join(place, name)
        key = name_key(path)
        for number in itertools.count(self._last.get(key) + 1):
            found = join(place, numbered(name, number))
            if self._is_new(found) and self._is_free(found, url):
                if number > 1:
                    self._last.put(key, number)
                self._files.put(name_key(found), _NAMED)
                return found
        raise AssertionError("numbers end")

    def reserve_again(self, paths: Sequence[str]) -> list[bool]:
        """Paths that were given by an earlier run, for who then had them: which of them nobody else has."""
        place, fits = "", list[bool]()
        for path in paths:
            directory = path.rpartition("/")[0]
            if directory != place:
                place = self._directory(directory)
            fits.append(directory == place and not self._directories.get(name_key(path)))
        taken = iter(
            self._files.put_new([name_key(path) for path, fit in zip(paths, fits, strict=True) if fit])
        )
        return [fit and next(taken) for fit in fits]

    def hold(self, path: str) -> bool:
        """Let nobody have this path any more, which is wanted as it is and no other one. False where somebody
        has it, or a file is in its way."""
        found = normpath(path)
        key = name_key(found)
        above = [key[:at] for at, octet in enumerate(key) if octet == "/" and at]
        if self._held.get(found) or self._files.get(key) == _NAMED or self._directories.get(key):
            return False
        if any(self._files.get(each) for each in above):
            return False
        for each in above:
            self._directories.put(each, 1)
        self._files.put(key, _HELD)
        self._held.put(found, 1)
        return True

    def _is_new(self, path: str) -> bool:
        key = name_key(path)
        return not self._files.get(key) and not self._directories.get(key)

    def _directory(self, wanted: str) -> str:
        """A directory of that path; numbered where a file of the run has the name of one."""
        place = ""
        for part in wanted.split("/") if wanted else ():
            names = (join(place, numbered(part, number)) for number in itertools.count(1))
            place = next(name for name in names if not self._files.get(name_key(name)))
            if not self._directories.get(key := name_key(place)):
                self._directories.put(key, 1)
        return place


class NameReservation:
    """What one URL of a run has to say to the names of its files; `number` is its place in the list."""

    def __init__(self, names: NameReservations, number: int) -> None:
        self._names = names
        self._had: dict[str, str] = {}
        self.number = number

    @property
    def first(self) -> str | None:
        """The path that it has, as far as that is known."""
        return next(iter(self._had.values()), None)

    def hold(self, path: str) -> bool:
        """See `NameReservations`."""
        return self._names.hold(path)

    def take(self, wanted: str, url: str) -> str:
        """The path that this URL has instead of the one it wants, or that one; always the same. `url` is the
        URL, redacted."""
        if wanted not in self._had:
            self._had[wanted] = self._names.reserve(wanted, url)
        return self._had[wanted]
