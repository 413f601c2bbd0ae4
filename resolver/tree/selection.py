"""Which files of a tree a person wants: by their names, and by their whole URLs. Directories are entered all
the same, for what is in them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fnmatch import translate
from functools import cached_property

from protocols.values import dataclass


@dataclass(frozen=True)
class Selection:
    """Patterns of the shell for names (`*.iso`): of `accept` one has to match, if there are any, and of
    `reject` none may. `pattern` is a regular expression that has to be found in the URL. Case counts.

    Raises `ValueError` for a pattern that is none, when it is made."""

    accept: tuple[str, ...] = ()
    reject: tuple[str, ...] = ()
    pattern: str | None = None

    def __post_init__(self) -> None:
        _ = self._sought

    @property
    def takes_all(self) -> bool:
        """Does it leave nothing out?"""
        return not self.accept and not self.reject and self.pattern is None

    def takes_local(self, name: str, url: str) -> bool:
        """The same of a file here."""
        return self.takes(os.fsencode(name), url)

    def takes(self, name: bytes, url: str) -> bool:
        """Is the file of this name, which is at `url`, wanted?"""
        if self.takes_all:
            return True
        text = name.decode("utf-8", "surrogateescape")
        if self._rejected is not None and self._rejected.match(text):
            return False
        if self._accepted is not None and not self._accepted.match(text):
            return False
        return self._sought is None or self._sought.search(url) is not None

    @cached_property
    def _accepted(self) -> re.Pattern[str] | None:
        return _any_of(self.accept)

    @cached_property
    def _rejected(self) -> re.Pattern[str] | None:
        return _any_of(self.reject)

    @cached_property
    def _sought(self) -> re.Pattern[str] | None:
        if self.pattern is None:
            return None
        try:
            return re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"{self.pattern!r} is no regular expression: {error}") from error


def _any_of(globs: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(translate, globs))) if globs else None
