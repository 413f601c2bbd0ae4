"""Source descriptions: the server's metadata of a WAIS database (wais page, section 10).

The format is `(:source :key value …)`, with case-insensitive keys. Unknown keys are stored too. The charset
of a description is guessed, because the format does not specify a charset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from protocols.authority import build_host, build_port
from protocols.errors import InvalidUrl, ProtocolError
from protocols.location import JsonValue
from protocols.syntax import encode
from protocols.text import decode_text

# Lisp lists, the syntax of source descriptions (wais page, section 10).
#
# A value is a quoted string, an integer, a decimal, a `:symbol`, an array `#( … )` or a list `( … )`. A
# structure is a list whose first item is a symbol: `(:name :key value …)`. Symbols are case-insensitive.

#: The maximum nesting depth, which prevents a stack overflow in the recursive parser. Real descriptions have
#: a smaller depth.
_MAX_DEPTH = 32

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<open>\#?\() | (?P<close>\)) | "(?P<string>[^"\\]*(?:\\.[^"\\]*)*)"
    | :(?P<symbol>[^\s()"]+) | (?P<atom>[^\s()":][^\s()"]*)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r'\\(["\\])')
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}\.[0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol `:name`; the name is stored in lower case."""

    name: str


@dataclass(frozen=True, slots=True)
class Structure:
    """A structure `(:name :key value …)`.

    Keys are stored in lower case. If a key is repeated, its first value is stored.
    """

    name: str
    members: Mapping[str, Value] = field(default_factory=dict)


Value: TypeAlias = "str | int | float | Symbol | Structure | tuple[Value, ...]"


def parse_list(text: str) -> Value:
    """Parse a text that has exactly one value.

    White space around the value is ignored.

    Raises:
        ProtocolError: The text is not exactly one value.
    """
    tokens = _split_tokens(text)
    value = _parse_value(next(tokens, None), tokens, 0)
    if next(tokens, None) is not None:
        raise ProtocolError("list continues after its end")
    return value


def _split_tokens(text: str) -> Iterator[re.Match[str]]:
    at, end = 0, len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at, end)
        if token is None:
            raise ProtocolError(f"cannot parse the list from character {at} on")
        yield token
        at = token.end()


def _parse_value(token: re.Match[str] | None, tokens: Iterator[re.Match[str]], depth: int) -> Value:
    if token is None or token["close"] is not None or depth > _MAX_DEPTH:
        raise ProtocolError("list has unbalanced brackets, or too many")
    if token["string"] is not None:
        return _ESCAPED.sub(r"\1", token["string"])
    if token["symbol"] is not None:
        return Symbol(token["symbol"].lower())
    if token["atom"] is not None:
        return _parse_atom(token["atom"])
    return _build_structure(tuple(_parse_items(tokens, depth + 1)), token["open"])


def _parse_items(tokens: Iterator[re.Match[str]], depth: int) -> Iterator[Value]:
    while True:
        token = next(tokens, None)
        if token is not None and token["close"] is not None:
            return
        yield _parse_value(token, tokens, depth)


def _build_structure(items: tuple[Value, ...], opening: str) -> Value:
    """Convert items to a structure if the first item is a symbol, or else return the items."""
    if opening != "(" or not items or not isinstance(items[0], Symbol):
        return items
    members: dict[str, Value] = {}
    rest = iter(items[1:])
    for key in rest:
        value = next(rest, None)
        if not isinstance(key, Symbol) or value is None:
            raise ProtocolError(f"list :{items[0].name} has unpaired keys and values")
        members.setdefault(key.name, value)
    return Structure(items[0].name, members)


def _parse_atom(text: str) -> Value:
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def as_json(value: Value) -> JsonValue:
    """Return the value as JSON.

    A symbol becomes the string `:name`. A structure becomes an object whose member `structure` is the name of
    the structure.
    """
    match value:
        case Symbol(name=name):
            return f":{name}"
        case Structure(name=name, members=members):
            return {"structure": name, **{key: as_json(member) for key, member in members.items()}}
        case tuple():
            return [as_json(item) for item in value]
    return value


DEFAULT_PORT = 210


def parse_source_description(octets: bytes) -> dict[str, JsonValue]:
    """Return the members of a source description as JSON, with the `url` of the database or null.

    Raises:
        ProtocolError: The bytes are not exactly one `(:source …)` with the name and host of a database.
    """
    description = parse_list(decode_text(octets))
    if not isinstance(description, Structure) or description.name != "source":
        raise ProtocolError("source description must be a (:source …)")
    members = description.members
    host = _find_string(members, "ip-name") or _find_string(members, "ip-address")
    database = _find_string(members, "database-name")
    if database is None or host is None:
        raise ProtocolError("source description lacks the database or its host")
    url = _build_url(host, _find_port(members), database)
    return {**{name: as_json(value) for name, value in members.items()}, "url": url}


def _find_string(members: Mapping[str, Value], key: str) -> str | None:
    value = members.get(key)
    return value if isinstance(value, str) and value else None


def _find_port(members: Mapping[str, Value]) -> int:
    port = members.get("tcp-port", DEFAULT_PORT)
    if not isinstance(port, int):
        raise ProtocolError("port in source description must be a number")
    if not 1 <= port <= 65_535:
        raise ProtocolError(f"port in source description must be 1 to 65535, got {port}")
    return port


def _build_url(host: str, port: int, database: str) -> str | None:
    try:
        server = build_host(host.lower()) + build_port(port, DEFAULT_PORT)
    except InvalidUrl:
        return None
    return f"wais://{server}/{encode(database.encode())}"
