"""What a server asks of who wants an object: the challenges of a 401 (RFC 9110 11.2, 11.6.1).

One field may hold several challenges and several fields may come, so they are read by the grammar and never
looked for by a name. What comes behind something that is no challenge is left unread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from protocols.values import NamedTuple

_TOKEN = r"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_GAP = re.compile(r"[ \t,]*")
_SCHEME = re.compile(rf"({_TOKEN})(?:[ \t]+|(?=,)|\Z)")
_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_END = r"(?=[ \t]*(?:,|\Z))"
_PARAMETER = re.compile(rf"({_TOKEN})[ \t]*=[ \t]*(?:{_QUOTED}|({_TOKEN})){_END}", re.DOTALL)
_TOKEN68 = re.compile(rf"[-._~+/0-9A-Za-z]+=*{_END}")
_QUOTED_PAIR = re.compile(r"\\(.)", re.DOTALL)

#: Challenges that are looked at: a server has a few, a hostile one has thousands.
_MOST = 32


class Challenge(NamedTuple):
    """`scheme` and the names of `parameters` are in lower case; values are unquoted. One that is said twice
    counts as it was said first."""

    scheme: str
    parameters: Mapping[str, str]


def parse_challenges(fields: Iterable[str]) -> list[Challenge]:
    """Those of all fields, in their order."""
    found: list[Challenge] = []
    for field in fields:
        found += _challenges_of(field)
    return found[:_MOST]


def _challenges_of(field: str) -> list[Challenge]:
    found: list[Challenge] = []
    for scheme, name, value in _words_of(field):
        if scheme is not None:
            found.append(Challenge(scheme, {}))
            if len(found) > _MOST:
                break
        elif found:
            held = found[-1].parameters
            assert isinstance(held, dict)
            held.setdefault(name, value)
    return found


def _words_of(field: str) -> Iterator[tuple[str | None, str, str]]:
    """A scheme, or the name and value of a parameter, one after the other."""
    at = _end_of(_GAP.match(field))
    while at < len(field):
        if (parameter := _PARAMETER.match(field, at)) is not None:
            quoted, plain = parameter[2], parameter[3]
            value = plain if quoted is None else _QUOTED_PAIR.sub(r"\1", quoted)
            yield None, parameter[1].lower(), value
            at = parameter.end()
        elif (scheme := _SCHEME.match(field, at)) is not None:
            yield scheme[1].lower(), "", ""
            at = scheme.end()
            is_alone = scheme[0] == scheme[1] or _PARAMETER.match(field, at) is not None
            if not is_alone and (token := _TOKEN68.match(field, at)) is not None:
                at = token.end()
        else:
            return
        at = _end_of(_GAP.match(field, at))


def _end_of(found: re.Match[str] | None) -> int:
    assert found is not None
    return found.end()
