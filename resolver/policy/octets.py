"""Octets that a component may not bring along (S02): the ones that would end a command or a field.

The table says it per scheme and component. The URL is judged decoded, before anything is looked up,
and the refusal points at the escape; that is the courtesy. `protocols.wire` refuses the same octets
again when a command is written; that is the guarantee.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from protocols.location import Action, Url
from protocols.syntax import position_of
from resolver.policy.case import Case
from resolver.policy.verdict import Ruling

_LINE_END = frozenset(b"\0\n\r")
_FIELD_END = _LINE_END | frozenset(b"\t")
_CONTROLS = frozenset([*range(0x20), 0x7F])
_NOT_GRAPHIC = frozenset(range(256)) - frozenset(range(0x21, 0x7F))
_NONE: frozenset[int] = frozenset()

_LONGEST_FTP = 4000  # servers answer 500, close, or fall silent above 4 KiB (ftp page, section 11)
_LONGEST_GOPHER = 4096  # a whole request (gopher-plus page, section 15)
_LONGEST_NEWS_LOGIN = 496  # 512 octets a command (RFC 3977 3.1) less `AUTHINFO USER ` and CR LF
_WAIS_LONGEST = {"database": 255, "search": 4000, "wtype": 64, "wpath": 2048}  # wais page, section 14


class Room(NamedTuple):
    """What some components of a scheme have room for; `longest` counts octets of each of them."""

    components: tuple[str, ...]
    refused: frozenset[int] = _NONE
    warned: frozenset[int] = _NONE
    longest: int | None = None


_FTP = (Room(("user", "password", "cwds", "name"), _LINE_END, _CONTROLS, _LONGEST_FTP),)
_GOPHER = (
    Room(("selector", "search"), _FIELD_END, _CONTROLS),
    Room(("gopherplus",), warned=_CONTROLS - _FIELD_END),  # the rest of it is S03's
)
_HTTP = (
    Room(("path", "search"), _NOT_GRAPHIC),
    Room(("user",), _LINE_END | frozenset(b":"), _CONTROLS),  # Basic splits at the first colon (RFC 7617)
    Room(("password",), _LINE_END, _CONTROLS),
)
_NEWS = (
    # The grammar has no room for these either, but a URL need not have come from the parser.
    Room(("group", "message_id"), _NOT_GRAPHIC | frozenset(b"<>")),
    # Servers split at white space (news page, section 7).
    Room(("user", "password"), _LINE_END, _CONTROLS | frozenset(b" "), _LONGEST_NEWS_LOGIN),
)
_PROSPERO = (Room(("hsoname", "fields"), _LINE_END, _CONTROLS),)
_WAIS = (
    Room(("database",), frozenset(b"\0\x1f@"), longest=_WAIS_LONGEST["database"]),
    *(Room((name,), longest=_WAIS_LONGEST[name]) for name in ("search", "wtype", "wpath")),
)
_TELNET = (Room(("user", "password"), warned=_CONTROLS),)

ROOMS: dict[str, tuple[Room, ...]] = {
    "ftp": _FTP,
    "ftps": _FTP,
    "gopher": _GOPHER,
    "gophers": _GOPHER,
    "http": _HTTP,
    "https": _HTTP,
    "news": _NEWS,
    "nntp": _NEWS,
    "nntps": _NEWS,
    "prospero": _PROSPERO,
    "snews": _NEWS,
    "telnet": _TELNET,
    "telnets": _TELNET,
    "wais": _WAIS,
}


def judge_octets(case: Case) -> Iterator[Ruling]:
    """S02. The first place of each sort is told: a hostile URL may have thousands."""
    told: set[str] = set()
    for room in ROOMS.get(case.url.scheme, ()):
        for component in room.components:
            for name, octets in _pieces(component, getattr(case.url, component, None)):
                for sort, judge_piece in (("octet", _judge_content), ("length", _judge_length)):
                    for ruling in judge_piece(case.url, room, name, octets, told):
                        told.add(f"{sort} {ruling.action}")
                        yield ruling
    if case.url.scheme in ("gopher", "gophers"):
        yield from _judge_request_length(case.url)
    if case.url.scheme == "mailto":
        yield from _judge_mail_headers(case.url)


def _pieces(name: str, value: object) -> Iterator[tuple[str, bytes]]:
    """The octets of a component, or of each part of it, with the name of its place."""
    if isinstance(value, bytes):
        yield name, value
    elif isinstance(value, str):
        yield name, value.encode("utf-8", "surrogatepass")
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            if isinstance(item, tuple):  # a Prospero field
                yield from _pieces(f"{name}[{index}].name", item[0])
                yield from _pieces(f"{name}[{index}].value", item[1])
            else:
                yield from _pieces(f"{name}[{index}]", item)


def _judge_content(url: Url, room: Room, name: str, octets: bytes, told: set[str]) -> Iterator[Ruling]:
    present = frozenset(octets)
    if (bad := present & room.refused) and "octet refuse" not in told:
        yield _ruling(url, "refuse", name, octets, bad, "could end a command, a field of it, or a name in it")
    elif not bad and (bad := present & room.warned) and "octet warn" not in told:
        yield _ruling(
            url, "warn", name, octets, bad, "is a control character or a blank that no real name needs"
        )


def _judge_length(url: Url, room: Room, name: str, octets: bytes, told: set[str]) -> Iterator[Ruling]:
    length = _length(name, octets)
    if room.longest is not None and length > room.longest and "length refuse" not in told:
        yield Ruling(
            rule="S02",
            action="refuse",
            detail=f"{name} has {length} octets; more than {room.longest} no server takes",
            position=position_in(url, name, _NONE),
        )


def _length(name: str, octets: bytes) -> int:
    """The number of octets sent. Only wais' `wpath` is kept encoded and sent decoded."""
    return len(octets) - 2 * octets.count(b"%") if name == "wpath" else len(octets)


def _ruling(url: Url, action: Action, name: str, octets: bytes, bad: frozenset[int], reason: str) -> Ruling:
    octet = next(octet for octet in octets if octet in bad)
    position = position_in(url, name, bad)
    where = name if position is None else f"{name}, at position {position} of the URL,"
    return Ruling(
        rule="S02", action=action, detail=f"octet {octet:02X} in {where} {reason}", position=position
    )


def position_in(url: Url, name: str, octets: frozenset[int]) -> int | None:
    """Where in the URL text the first of `octets` stands within the component `name`."""
    place = url.place(name)
    return None if place is None else position_of(url.text, place, octets)


def _judge_mail_headers(url: Url) -> Iterator[Ruling]:
    """Names and values that would end their line in a draft; only the body has several (RFC 6068 5)."""
    headers: tuple[tuple[bytes, bytes], ...] = getattr(url, "headers", ())
    for index, (name, value) in enumerate(headers):
        shown = b"" if name.lower() == b"body" else value
        for where, octets in ((f"headers[{index}].name", name), (f"headers[{index}].value", shown)):
            if bad := _LINE_END.intersection(octets):
                yield _ruling(url, "refuse", where, octets, bad, "would end a header field of the mail")
                return


def _judge_request_length(url: Url) -> Iterator[Ruling]:
    """The first line of a gopher request: selector, search and Gopher+ string share it."""
    parts = [getattr(url, name, None) for name in ("selector", "search", "gopherplus")]
    line = b"\t".join(part for part in parts if isinstance(part, bytes)).partition(b"\r\n")[0]
    if len(line) > _LONGEST_GOPHER:
        yield Ruling(
            rule="S02",
            action="refuse",
            detail=f"the request has {len(line)} octets; more than {_LONGEST_GOPHER} no server takes",
            position=position_in(url, "selector", _NONE),
        )
