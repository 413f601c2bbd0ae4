"""The names that the files of one run get: two of its URLs never write one file (S14).

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

from resolver.policy import numbered
from resolver.retrieval.aside import Aside


class Names:
    """Paths below one directory that the URLs of a run have. `is_free` says more of a path than that none has
    it yet: may this URL have it?"""

    def __init__(self, is_free: Callable[[str, str], bool]) -> None:
        self._is_free = is_free
        self._files = Aside()
        self._directories = Aside()
        self._last = Aside()

    def reserve(self, wanted: str, url: str) -> str:
        """The path itself, or the first numbered one that is free."""
        directory, _, name = wanted.rpartition("/")
        place = self._directory(directory)
        path = join(place, name)
        for number in itertools.count(self._last.get(path) + 1):
            found = join(place, numbered(name, number))
            if self._is_new(found) and self._is_free(found, url):
                if number > 1:
                    self._last.put(path, number)
                self._files.put(found, 1)
                return found
        raise AssertionError("numbers end")

    def reserve_again(self, paths: Sequence[str]) -> list[bool]:
        """Paths that were given by an earlier run, for who then had them: which of them nobody else has."""
        place, fits = "", list[bool]()
        for path in paths:
            directory = path.rpartition("/")[0]
            if directory != place:
                place = self._directory(directory)
            fits.append(directory == place and not self._directories.get(path))
        taken = iter(self._files.put_new([path for path, fit in zip(paths, fits, strict=True) if fit]))
        return [fit and next(taken) for fit in fits]

    def hold(self, path: str) -> bool:
        """Let nobody have this path any more, which is wanted as it is and no other one. False where somebody
        has it, or a file is in its way."""
        found = normpath(path)
        above = [found[:at] for at, octet in enumerate(found) if octet == "/" and at]
        if not self._is_new(found) or any(self._files.get(each) for each in above):
            return False
        for each in above:
            self._directories.put(each, 1)
        self._files.put(found, 1)
        return True

    def _is_new(self, path: str) -> bool:
        return not self._files.get(path) and not self._directories.get(path)

    def _directory(self, wanted: str) -> str:
        """A directory of that path; numbered where a file of the run has the name of one."""
        place = ""
        for part in wanted.split("/") if wanted else ():
            names = (join(place, numbered(part, number)) for number in itertools.count(1))
            place = next(name for name in names if not self._files.get(name))
            if not self._directories.get(place):
                self._directories.put(place, 1)
        return place


class Claim:
    """What one URL of a run has to say to the names of its files; `number` is its place in the list."""

    def __init__(self, names: Names, number: int) -> None:
        self._names = names
        self._had: dict[str, str] = {}
        self.number = number

    @property
    def first(self) -> str | None:
        """The path that it has, as far as that is known."""
        return next(iter(self._had.values()), None)

    def hold(self, path: str) -> bool:
        """See `Names`."""
        return self._names.hold(path)

    def take(self, wanted: str, url: str) -> str:
        """The path that this URL has instead of the one it wants, or that one; always the same. `url` is the
        URL, redacted."""
        if wanted not in self._had:
            self._had[wanted] = self._names.reserve(wanted, url)
        return self._had[wanted]
