"""Source descriptions: what a database says of itself (wais page, section 10).

`(:source :key value …)`, keys told without regard to case; unknown ones stay among the rest. Octets become
text by guess: no charset is named.
"""

from __future__ import annotations

from collections.abc import Mapping

from protocols.authority import build_host, build_port
from protocols.errors import InvalidUrl, ProtocolError
from protocols.location import JsonValue
from protocols.syntax import encode
from protocols.values import dataclass
from protocols.wais.lists import Structure, Symbol, Value, as_json, parse_list
from protocols.wais.text import plain_text

DEFAULT_PORT = 210


@dataclass(frozen=True, slots=True)
class SourceDescription:
    """A database and where it is. `members` are all that was said, the named ones too."""

    version: int | None
    ip_name: str | None
    ip_address: str | None
    tcp_port: int
    database_name: str
    cost: float | None
    cost_unit: str | None
    maintainer: str | None
    keywords: tuple[str, ...]
    description: str | None
    members: Mapping[str, Value]

    @property
    def url(self) -> str | None:
        """Where the database is; None where the place it names is none."""
        host = self.ip_name or self.ip_address or ""
        try:
            place = build_host(host.lower()) + build_port(self.tcp_port, DEFAULT_PORT)
        except InvalidUrl:
            return None
        return f"wais://{place}/{encode(self.database_name.encode())}"

    def as_json(self) -> dict[str, JsonValue]:
        return {**{name: as_json(value) for name, value in self.members.items()}, "url": self.url}


def parse_source_description(octets: bytes) -> SourceDescription:
    """Raises `ProtocolError` for anything but one `(:source …)` that names a database and its host."""
    found = parse_list(plain_text(octets))
    if not isinstance(found, Structure) or found.name != "source":
        raise ProtocolError("a source description that is no (:source …)")
    members = found.members
    name, address = _string(members, "ip-name"), _string(members, "ip-address")
    database = _string(members, "database-name")
    if database is None or (name is None and address is None):
        raise ProtocolError("a source description that names no database, or no host of it")
    return SourceDescription(
        version=_integer(members, "version"),
        ip_name=name,
        ip_address=address,
        tcp_port=_port(members),
        database_name=database,
        cost=_decimal(members, "cost"),
        cost_unit=_symbol(members, "cost-unit"),
        maintainer=_string(members, "maintainer"),
        keywords=_words(members.get("keyword-list")),
        description=_string(members, "description"),
        members=members,
    )


def _string(members: Mapping[str, Value], key: str) -> str | None:
    value = members.get(key)
    return value if isinstance(value, str) and value else None


def _integer(members: Mapping[str, Value], key: str) -> int | None:
    value = members.get(key)
    return value if isinstance(value, int) else None


def _decimal(members: Mapping[str, Value], key: str) -> float | None:
    value = members.get(key)
    return float(value) if isinstance(value, int | float) else None


def _symbol(members: Mapping[str, Value], key: str) -> str | None:
    value = members.get(key)
    return value.name if isinstance(value, Symbol) else None


def _port(members: Mapping[str, Value]) -> int:
    port = members.get("tcp-port", DEFAULT_PORT)
    if not isinstance(port, int):
        raise ProtocolError("a source description with a port that is no number")
    if not 1 <= port <= 65_535:
        raise ProtocolError(f"a source description with a port that is none: {port}")
    return port


def _words(value: Value | None) -> tuple[str, ...]:
    items = value if isinstance(value, tuple) else ()
    return tuple(str(item) for item in items if isinstance(item, str | int | float))
