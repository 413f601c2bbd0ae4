"""Public suffixes, which an extra brings: the names below which anybody can register one (publicsuffix.org).

They say for how many hosts a cookie may be. The list is read when the first server asks for more than one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec


@cache
def installed() -> Callable[[str], str] | None:
    """What gives the public suffix of a name; None where the extra is not installed."""
    return None if find_spec("publicsuffixlist") is None else _suffix_of


def _suffix_of(name: str) -> str:
    return _list()(name) or name


@cache
def _list() -> Callable[[str], str | None]:
    from publicsuffixlist import PublicSuffixList

    suffixes: Callable[[str], str | None] = PublicSuffixList().publicsuffix
    return suffixes
