"""From the place and name in an access method to the URL of the object, one function a method.

Every part is data that a server sent: it is encoded octet by octet, and raises `InvalidUrl`, with the
reason, where a URL of that scheme has no room for it. Section 8.2 of the protocol page.
"""

from __future__ import annotations

import re

from protocols.errors import InvalidUrl
from protocols.location import Kind
from protocols.prospero.target import ServerAddress, parse_place
from protocols.prospero.token import read_text
from protocols.syntax import RESERVED, UNRESERVED, encode
from protocols.values import NamedTuple

_FTP_DATA = "?:@&="
_FTP_TYPES = {b"BINARY": "i", b"TEXT": "a", b"DIRECTORY": "d"}
_GOPHER_TYPES = {b"TEXT": "0", b"BINARY": "9"}
_GOPHER_KINDS = {"1": Kind.DIRECTORY, "7": Kind.SEARCH, **dict.fromkeys("28T", Kind.SERVICE)}
_ENDS_FTP_COMMAND = re.compile(rb"[\0\r\n]")
_ENDS_GOPHER_FIELD = re.compile(rb"[\0\t\r\n]")
_WAIS_GATEWAY = b"WAIS-GW"
_WAIS_SEARCH = ";:@&="
_WAIS_WRITTEN = re.compile(rb"%[0-9A-Fa-f]{2}|.", re.DOTALL)
_WAIS_AS_IT_IS = frozenset((UNRESERVED + RESERVED).encode("ascii"))


class AccessName(NamedTuple):
    """What a value names, its gaps filled: `host` and `hsoname` as tokens; no argument is None."""

    host: bytes
    hsoname: bytes
    argument: bytes | None

    @property
    def place(self) -> ServerAddress:
        return parse_place(self.host)


class MappedUrl(NamedTuple):
    """Where a value leads. `is_text` where it says so; `message` is what a person is to be told."""

    url: str
    kind: Kind = Kind.DOCUMENT
    is_text: bool = False
    message: str | None = None


def map_anonymous_ftp(named: AccessName) -> MappedUrl:
    """AFTP: the name counts from the root that the anonymous user sees; one leading slash means nothing."""
    return _map_ftp(named, "")


def map_ftp(named: AccessName) -> MappedUrl:
    """FTP: a leading slash is part of the name, for it does not count from the login directory."""
    return _map_ftp(named, "%2F" if named.hsoname.startswith(b"/") else "")


def _map_ftp(named: AccessName, root: str) -> MappedUrl:
    if _ENDS_FTP_COMMAND.search(named.hsoname):
        raise InvalidUrl("bad-char", 0, "NUL, CR or LF in a file name")
    parts = named.hsoname.removeprefix(b"/").split(b"/")
    path = root + "/".join(encode(part, _FTP_DATA) for part in parts)
    letter = _FTP_TYPES.get(named.argument or b"")
    typecode = f";type={letter}" if letter else ""
    kind = Kind.DIRECTORY if letter == "d" else Kind.DOCUMENT
    return MappedUrl(f"ftp:{named.place.authority(21)}/{path}{typecode}", kind, letter == "a")


def map_gopher(named: AccessName) -> MappedUrl:
    """GOPHER: the whole name is the selector, its own type character included."""
    selector = named.hsoname
    if _ENDS_GOPHER_FIELD.search(selector):
        raise InvalidUrl("selector-control", 0, "NUL, TAB, CR or LF in a selector")
    character = _gopher_type(named)
    if not "\x21" <= character <= "\x7e":
        raise InvalidUrl("bad-gophertype", 0, f"{character!r} is no gopher type")
    what = encode(character.encode("ascii") + selector, RESERVED)
    kind = _GOPHER_KINDS.get(character, Kind.DOCUMENT)
    return MappedUrl(f"gopher:{named.place.authority(70)}/{what}", kind, character == "0")


def _gopher_type(named: AccessName) -> str:
    argument = named.argument or b""
    if len(argument) == 1:
        return argument.decode("latin-1")
    return _GOPHER_TYPES.get(argument) or named.hsoname[:1].decode("latin-1") or "1"


def map_telnet(named: AccessName) -> MappedUrl:
    """TELNET: only a place; the argument is words for the person there, never a user name."""
    message = None if named.argument is None else read_text(named.argument)
    return MappedUrl(f"telnet:{named.place.authority(23)}/", Kind.SERVICE, message=message)


def map_wais(named: AccessName) -> MappedUrl:
    """WAIS: `WAIS-GW/host(port)/type/database/document` or `…/QUERY/database[/words]`. The host in the
    name is that of the WAIS server; the one beside it names the Prospero server."""
    mark, *parts = named.hsoname.split(b"/", 4)
    if mark != _WAIS_GATEWAY or len(parts) < 3:
        raise InvalidUrl("missing-path", 0, "an opaque locator, which lacks what a wais URL needs")
    host, what, database, *rest = parts
    start = f"wais:{parse_place(host).authority(210)}/"
    if what == b"QUERY":
        search = f"?{encode(rest[0], _WAIS_SEARCH)}" if rest else ""
        return MappedUrl(f"{start}{encode(database)}{search}", Kind.SEARCH)
    if not rest:
        raise InvalidUrl("missing-path", 0, "no document behind the database")
    return MappedUrl(
        f"{start}{encode(database)}/{encode(what)}/{_document(rest[0])}", is_text=what == b"TEXT"
    )


def _document(written: bytes) -> str:
    """A document's id, which is encoded already; whatever in it is not is encoded now."""
    return "".join(
        piece.decode("ascii") if len(piece) == 3 or piece[0] in _WAIS_AS_IT_IS else f"%{piece[0]:02X}"
        for piece in _WAIS_WRITTEN.findall(written)
    )
