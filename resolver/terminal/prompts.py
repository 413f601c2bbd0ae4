"""The prompt that a telnet session waits for: a pattern, searched in bounded time.

Octets that a stranger sends are searched with a pattern of the person's own: one that tries very much for
them would hang the search. So the extra `telnet` has an engine that gives up; what is no more than its own
text needs none.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.util import find_spec
from typing import Any

from protocols.errors import NotConfigured, missing_libraries

#: Seconds that one search may take.
_LONGEST_SEARCH = 0.5

#: What makes a pattern more than its own text.
_SPECIAL = frozenset(b"\\.^$*+?{}[]|()")


class _Literal:
    def __init__(self, octets: bytes) -> None:
        self._octets = octets

    def __str__(self) -> str:
        return _show_pattern(self._octets)

    def end_in(self, window: bytes) -> int | None:
        start = window.find(self._octets)
        return None if start < 0 else start + len(self._octets)


class _Pattern:
    def __init__(self, pattern: bytes) -> None:
        engine = _engine()
        try:
            self._compiled = engine.compile(pattern)
        except engine.error as error:
            raise NotConfigured(f"{_show_pattern(pattern)} is no regular expression: {error}") from error
        self._pattern = pattern

    def __str__(self) -> str:
        return _show_pattern(self._pattern)

    def end_in(self, window: bytes) -> int | None:
        try:
            found = self._compiled.search(window, timeout=_LONGEST_SEARCH)
        except TimeoutError as error:
            words = (
                f"{self} takes too long to look for: more than {_LONGEST_SEARCH:g} s in {len(window)} octets"
            )
            raise NotConfigured(words) from error
        return None if found is None else int(found.end())


def prompt(pattern: bytes) -> _Literal | _Pattern:
    r"""What to wait for in a telnet session: a regular expression over octets, for `Transcript`.

    Args:
        pattern: as the module `regex` reads it; an empty one is found at once.

    Raises:
        NotConfigured: it is no regular expression, or more than a text, and the extra `telnet` is missing.

    Examples:
        >>> login = resolver.prompt(b"login: ")
        >>> login.end_in(b"Welcome\nlogin: "), login.end_in(b"Welcome")
        (15, None)
    """
    return _Pattern(pattern) if _SPECIAL & frozenset(pattern) else _Literal(pattern)


def _show_pattern(pattern: bytes) -> str:
    return ascii(pattern.decode("latin-1"))


@cache
def _engine() -> Any:
    if find_spec("regex") is None:
        needed = missing_libraries("telnet")
        raise NotConfigured(f"a pattern that is more than a text needs {needed}")
    return importlib.import_module("regex")
