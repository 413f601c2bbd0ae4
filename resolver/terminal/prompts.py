"""The pattern of a prompt that a telnet session waits for; each search has a timeout.

The pattern is from the user, but the searched bytes are from an untrusted server. An attacker can choose
bytes for which a regular expression backtracks without end (ReDoS). The regex engine of the extra `telnet`
has a timeout. A literal pattern does not need the extra.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.util import find_spec
from typing import Any

from protocols.errors import NotConfigured, missing_libraries

#: The timeout of one search, in seconds.
_SEARCH_TIMEOUT = 0.5

#: Characters with a special meaning in a regular expression. A pattern without them is a literal.
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
            raise NotConfigured(f"{_show_pattern(pattern)} is not a regular expression: {error}") from error
        self._pattern = pattern

    def __str__(self) -> str:
        return _show_pattern(self._pattern)

    def end_in(self, window: bytes) -> int | None:
        try:
            match = self._compiled.search(window, timeout=_SEARCH_TIMEOUT)
        except TimeoutError as error:
            words = f"{self} takes too long to search: more than {_SEARCH_TIMEOUT:g} s in {len(window)} bytes"
            raise NotConfigured(words) from error
        return None if match is None else int(match.end())


def prompt(pattern: bytes) -> _Literal | _Pattern:
    r"""Return a prompt for `Transcript`, which a telnet session waits for.

    Args:
        pattern: a regular expression in the syntax of the module `regex`, as bytes. An empty pattern matches
            immediately.

    Raises:
        NotConfigured: the pattern is not a valid regular expression, or the pattern is not a literal and the
            extra `telnet` is missing.

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
        raise NotConfigured(f"a pattern with special characters needs {needed}")
    return importlib.import_module("regex")
