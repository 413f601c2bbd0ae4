"""Patterns for newsgroup names (RFC 3977 4.2, as far as RFC 5538 has them in URLs).

`*` is any run of octets, `?` any one, everything else itself; the whole name must match. Matching takes
time proportional to pattern times name at worst, whatever either of them is.
"""

from __future__ import annotations

_STAR = ord("*")
_ANY = ord("?")


def matches(pattern: bytes, name: bytes) -> bool:
    """Does the whole name match?"""
    at = index = 0
    star, resumed = -1, 0
    while index < len(name):
        if at < len(pattern) and pattern[at] == _STAR:
            star, resumed = at, index
            at += 1
        elif at < len(pattern) and pattern[at] in (_ANY, name[index]):
            at += 1
            index += 1
        elif star >= 0:  # the last star takes one octet more
            resumed += 1
            at, index = star + 1, resumed
        else:
            return False
    return pattern[at:].strip(b"*") == b""
