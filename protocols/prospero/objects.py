"""Objects of a Prospero server: their names and routes, and the tokens, attributes and links that name them.

A URL names one (protocol page 1); so does a link, a FORWARDED line or an access method (8.5). Each is also a
URL, by which it is judged before anything is sent. The name is opaque: nothing is normalized.

A host inside a message is a name or a dotted address, with a decimal port in parentheses straight behind it;
no port means the default for the purpose of the host (1.2). Names are compared without regard to case, and
servers print them in capitals: here they are lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from protocols.authority import build_host, build_port
from protocols.errors import Declined, InvalidUrl, LimitExceeded, ProtocolError, Refused
from protocols.location import BuiltUrl
from protocols.prospero.url import Field, ProsperoUrl, build

if TYPE_CHECKING:
    from datetime import datetime


# Lines and tokens of a Prospero message: reading, and quoting for output.
#
# A single quote switches quoting on and off anywhere in a token; inside, two of them are one, and every other
# byte stands for itself, line ends and NUL included. So a message is read in one pass from its first byte to
# its last, never line by line. Section 5 of the protocol page.

#: Tokens of one line. No line has a hundredth of that; a reply of blanks and letters would fill memory.
MOST_TOKENS = 4096

_QUOTE = ord("'")
_NEEDS_QUOTES = re.compile(rb"[ \t\n\r\f\v/'+,]")
_GAP = re.compile(rb"[ \t\r\n]*")
_TOKEN = re.compile(rb"[^ \t']+(?:'[^']*'[^ \t']*)*|(?:'[^']*'[^ \t']*)+")
# A group that repeats keeps 84 octets a turn, and a file in one token may be nothing but quotes: `_TOKEN`
# is for a line of few, the next two patterns take so many turns at a time.
_FEW_QUOTES = 1024
_PART = re.compile(rb"[^'\r\n]*(?:'[^']*'[^'\r\n]*){0,512}")
_QUOTED_OR_BLANKS = re.compile(rb"(?:'[^']*'){1,512}|[ \t]+")
#: What makes a kind server believe that the client is of the oldest sort (6.1), and the same in quotes.
_OLDEST, _SAME = b"VERSION 1", b"VERSIO'N' 1"


def quote(token: bytes) -> bytes:
    """A token as it is written: quoted from the first octet on that needs it.

    Raises `Refused` (S02) for NUL, which old servers take for the end of the packet.
    """
    if b"\0" in token:
        raise Refused("S02", "octet 00 would end the request")
    if not token:
        return b"''"
    found = _NEEDS_QUOTES.search(token)
    start = found.start() if found else len(token)
    if found is None and token.endswith(b"VERSION"):  # the next token could begin with a 1
        start = 0
    bare, rest = token[:start], token[start:]
    quoted = b"'%s'" % rest.replace(b"'", b"''") if rest else b""
    return bare + quoted.replace(_OLDEST, _SAME)


class TokenLine(NamedTuple):
    """The tokens of one line, never none, and the line as it stood from the first of them to its end."""

    tokens: tuple[bytes, ...]
    raw: bytes


def read_lines(text: bytes) -> Iterator[TokenLine]:
    """The lines of a message that have tokens. Raises `ProtocolError` for a quote that is never closed,
    and `LimitExceeded` for a line of more than `MOST_TOKENS`."""
    start = _end(_GAP, text, 0)
    while start < len(text):
        end = _line_end(text, start)
        raw = text[start:end]
        yield TokenLine(tuple(_unquote(token) if b"'" in token else token for token in _split(raw)), raw)
        start = _end(_GAP, text, end)


def _line_end(text: bytes, start: int) -> int:
    while True:
        end = _end(_PART, text, start)
        if text[end : end + 1] != b"'":
            return end
        if end == start:
            raise ProtocolError("the reply ends inside quotes")
        start = end


def _end(pattern: re.Pattern[bytes], text: bytes, start: int) -> int:
    """Where what matches from `start` on ends; the patterns match nothing too."""
    found = pattern.match(text, start)
    assert found is not None
    return found.end()


def _split(raw: bytes) -> list[bytes]:
    """The tokens of a line as they are written."""
    few = raw.count(b"'") <= _FEW_QUOTES
    tokens = _TOKEN.findall(raw) if few else list(islice(_among_quotes(raw), MOST_TOKENS + 1))
    if len(tokens) > MOST_TOKENS:
        raise LimitExceeded("line", f"a line of the reply has more than {MOST_TOKENS} tokens")
    return tokens


def _among_quotes(raw: bytes) -> Iterator[bytes]:
    """The same, piece by piece."""
    start = 0
    for found in _QUOTED_OR_BLANKS.finditer(raw):
        if raw[found.start()] == _QUOTE:
            continue
        if start < found.start():
            yield raw[start : found.start()]
        start = found.end()
    if start < len(raw):
        yield raw[start:]


def _unquote(token: bytes) -> bytes:
    """Every other piece is inside quotes; nothing between two of those is a quote inside quotes."""
    pieces = token.split(b"'")
    pieces[2:-1:2] = [piece or b"'" for piece in pieces[2:-1:2]]
    return b"".join(pieces)


def read_text(token: bytes) -> str:
    """A token for a person: UTF-8 where it is valid, else ISO 8859-1."""
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError:
        return token.decode("latin-1")


DEFAULT_PORT = 1525
USUAL_TYPE = b"ASCII"

_BLANKS = re.compile(rb"[ \t]+")
_VERSION = re.compile(rb"[0-9]{1,10}")
_VERSION_NAMES = (b"OBJECT-VERSION", b"VERSION")
_HOST = re.compile(rb"([^()]+)(?:\(([0-9]{1,5})\))?")


class ServerAddress(NamedTuple):
    """A host, and the port that was said with it."""

    host: str
    port: int | None = None

    def authority(self, default_port: int) -> str:
        """`//host:port` for a URL; raises `InvalidUrl` for a host or port that no URL can have."""
        return f"//{build_host(self.host)}{build_port(self.port, default_port)}"


def parse_place(token: bytes) -> ServerAddress:
    """Raises `InvalidUrl` for what names no host; whether the host can be one is seen in `authority`."""
    found = _HOST.fullmatch(token)
    if found is None:
        raise InvalidUrl("bad-host", 0, f"bad-host: {read_text(token)!r} names no host")
    return ServerAddress(found[1].decode("latin-1").lower(), None if found[2] is None else int(found[2]))


class RequestObject(NamedTuple):
    """`version` 0 is the current one. `selections` are SELECT lines without their keyword. `via` is the
    target whose answer named this one, None for that of the URL asked."""

    host: str
    port: int
    hsoname: bytes
    hsoname_type: bytes = USUAL_TYPE
    version: int = 0
    selections: tuple[tuple[bytes, ...], ...] = ()
    via: RequestObject | None = None

    @property
    def place(self) -> ServerAddress:
        """Where it is, as a host token would say it."""
        return ServerAddress(self.host, None if self.port == DEFAULT_PORT else self.port)

    @property
    def server(self) -> tuple[str, int]:
        return self.host, self.port

    @property
    def identity(self) -> tuple[str, int, bytes]:
        """Two targets with the same one are one object."""
        return self.host, self.port, self.hsoname

    @property
    def route(self) -> tuple[str, ...]:
        """The URLs that led from the one asked to this one; none for that one."""
        return () if self.via is None else (*self.via.route, self.url)

    @property
    def url(self) -> BuiltUrl:
        """The URL of the object. Raises `InvalidUrl` where the host can be in none."""
        fields: list[Field] = []
        if self.version:
            fields.append((b"OBJECT-VERSION", b"%d" % self.version))
        if self.hsoname_type != USUAL_TYPE:
            fields.append((b"HSONAME-TYPE", self.hsoname_type))
        url = ProsperoUrl(
            scheme="prospero",
            host=self.host,
            port=self.port,
            default_port=DEFAULT_PORT,
            hsoname=self.hsoname,
            fields=tuple(fields),
        )
        # 8.5 has quotes encoded, although any URL may hold them
        return BuiltUrl(build(url).replace("'", "%27"))


def target_of(url: ProsperoUrl) -> RequestObject:
    """What a URL asks for, by its name and fields (1.1).

    Raises `Declined` for a host type that is not the Internet's, and for a version that is no number:
    nothing can be asked then.
    """
    fields = [(name.upper(), value) for name, value in url.fields if value is not None]
    host_type = _find_first(fields, (b"HOST-TYPE",))
    if host_type is not None and host_type.upper() != b"INTERNET-D":
        raise Declined(f"a host of type {read_text(host_type)!r} cannot be reached", code="HOST-TYPE")
    return RequestObject(
        host=url.host,
        port=url.effective_port,
        hsoname=url.hsoname,
        hsoname_type=_find_first(fields, (b"HSONAME-TYPE",)) or USUAL_TYPE,
        version=_version(_find_first(fields, _VERSION_NAMES)),
        selections=tuple(_selections(fields)),
    )


def _find_first(fields: list[tuple[bytes, bytes]], names: tuple[bytes, ...]) -> bytes | None:
    return next((value for name, value in fields if name in names), None)


def _version(value: bytes | None) -> int:
    if not value:
        return 0
    if not _VERSION.fullmatch(value):
        raise Declined(f"the object version {read_text(value)!r} is no number", code="OBJECT-VERSION")
    return int(value)


def _selections(fields: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, ...]]:
    """What narrows the request (6.5): every identifier, a type and words, and of any other name the first
    field, its value one token."""
    done = {b"", b"HOST-TYPE", b"HSONAME-TYPE", *_VERSION_NAMES}
    for name, value in fields:
        if name == b"ID":
            yield b"OBJECT", b"FIELD", name, b"SEQUENCE", *_BLANKS.split(value.strip(b" \t"))
        elif name not in done:
            yield b"OBJECT", b"FIELD", name, b"SEQUENCE", value
            done.add(name)


def read_version(token: bytes) -> int:
    """The object version in a reply; what is no number means the current one."""
    return int(token) if _VERSION.fullmatch(token) else 0


# Attributes of objects and links (protocol page 7.2), and the few whose values are interpreted here. A line
# is one value; several lines of one name are several values, in the server's order of preference.

_SEQUENCES = (b"SEQUENCE", b"ASCII")
_TYPES = (*_SEQUENCES, b"LINK", b"FILTER")
#: Fields whose values are no sequences, and the tokens that such a value has at least.
_TYPED_FIELDS = {
    (b"CLOSURE", b"LINK"): 7,
    (b"FORWARDING-POINTER", b"LINK"): 7,
    (b"FILTER", b"FILTER"): 4,
}

_SIZE = re.compile(rb"([0-9]{1,15})(?: bytes?)?", re.IGNORECASE)
_TIME = re.compile(rb"[0-9]{14}Z")


class Attribute(NamedTuple):
    """One value of an attribute. `applies` says of what: OBJECT, CACHED, REPLACEMENT, ADDITIONAL, LINK.
    `values` are the tokens behind the value's type."""

    applies: bytes
    name: bytes
    value_type: bytes
    values: tuple[bytes, ...]


def parse_attribute(tokens: tuple[bytes, ...]) -> Attribute | None:
    """The tokens behind ATTRIBUTE; None where there are too few, or no type where one has to be."""
    if len(tokens) < 3:
        return None
    applies, namespace, name, *rest = tokens
    if namespace == b"FIELD":
        value_type = _field_type(name, rest)
        values = rest[1:] if value_type else rest
        return Attribute(applies, name, value_type or b"SEQUENCE", tuple(values))
    if not rest or rest[0] not in _TYPES:
        return None
    return Attribute(applies, name, rest[0], tuple(rest[1:]))


def _field_type(name: bytes, rest: list[bytes]) -> bytes | None:
    """The type in front of a field's value. Servers leave it out for the fields they know, not always."""
    first = rest[0] if rest else b""
    if first in _SEQUENCES:
        return first
    least = _TYPED_FIELDS.get((name, first))
    return first if least is not None and len(rest) > least else None


def values_of(attributes: Iterable[Attribute], name: bytes) -> list[tuple[bytes, ...]]:
    """All values of the object's attribute `name`, best first. What is kept with a link counts instead of
    the object's own, beside them, or where there are none."""
    found = [attribute for attribute in attributes if attribute.name == name]
    by_kind = {kind: [each.values for each in found if each.applies == kind] for kind in _KINDS}
    own = by_kind[b"REPLACEMENT"] or by_kind[b"OBJECT"] or by_kind[b"CACHED"]
    return own + by_kind[b"ADDITIONAL"]


_KINDS = (b"OBJECT", b"CACHED", b"REPLACEMENT", b"ADDITIONAL")


def describe(attributes: Iterable[Attribute]) -> Iterator[tuple[str, str]]:
    """Name and value of every attribute that is a sequence, for a person."""
    for attribute in attributes:
        if attribute.value_type in _SEQUENCES and attribute.name not in (b"ACCESS-METHOD", b"CONTENTS"):
            yield read_text(attribute.name), " ".join(map(read_text, attribute.values))


def find_first_word(attributes: Iterable[Attribute], *names: bytes) -> bytes | None:
    """The first token of the first of these attributes that has one, the link's own counted too."""
    for name in names:
        for attribute in attributes:
            if attribute.name == name and attribute.values:
                return attribute.values[0]
    return None


def read_size(attributes: Iterable[Attribute]) -> int | None:
    """SIZE: octets of the object, as a number and a unit in one token."""
    for values in values_of(attributes, b"SIZE"):
        found = _SIZE.fullmatch(b" ".join(values))
        if found:
            return int(found[1])
    return None


def is_of_directory(attributes: Iterable[Attribute]) -> bool:
    """UNIX-MODES: do they say that the object is a directory?"""
    return any(values[0].startswith(b"d") for values in values_of(attributes, b"UNIX-MODES") if values)


def read_modified(attributes: Iterable[Attribute]) -> datetime | None:
    """LAST-MODIFIED, in UTC."""
    return next(filter(None, map(_read_time, values_of(attributes, b"LAST-MODIFIED"))), None)


def _read_time(values: tuple[bytes, ...]) -> datetime | None:
    """`YYYYMMDDhhmmssZ` (7.3); None for anything else."""
    if len(values) != 1 or not _TIME.fullmatch(values[0]):
        return None
    from datetime import UTC, datetime  # as above

    try:
        return datetime.strptime(values[0].decode("ascii"), "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


# LINK lines (protocol page 7.1): a name in a directory, and its object.

INTERNET = b"INTERNET-D"

#: What a link may stand for that a Prospero server can be asked about.
_ASKED = ({b"FILE"}, {b"DIRECTORY"}, {b"DIRECTORY", b"FILE"}, {b"OBJECT"})
_FEWEST = 4  # tokens that name an object; the version may be missing
_ENDS_LINE = b"\0\r\n"


class ObjectPointer(NamedTuple):
    """Where an object is: the five tokens that name it in LINK and FORWARDED lines."""

    host_type: bytes
    host: bytes
    hsoname_type: bytes
    hsoname: bytes
    version: int = 0

    @property
    def place(self) -> ServerAddress:
        """Raises `InvalidUrl` for a host that is not the Internet's, or is none."""
        if self.host_type.upper() != INTERNET:
            raise InvalidUrl("bad-host", 0, f"bad-host: a host of type {read_text(self.host_type)!r}")
        return parse_place(self.host)

    def target(self, via: RequestObject) -> RequestObject:
        """The object as something to ask for, named in the answer of `via`.

        Raises `InvalidUrl` where it can be in no URL, or where the name holds what no request can.
        """
        place = self.place
        if any(octet in self.hsoname + self.hsoname_type for octet in _ENDS_LINE):
            raise InvalidUrl("bad-char", 0, "bad-char: NUL, CR or LF in the name of an object")
        target = RequestObject(
            host=place.host,
            port=DEFAULT_PORT if place.port is None else place.port,
            hsoname=self.hsoname,
            hsoname_type=self.hsoname_type,
            version=self.version,
            via=via,
        )
        _ = target.url  # raises for a host that no URL can have
        return target


def parse_pointer(tokens: tuple[bytes, ...]) -> ObjectPointer | None:
    """The tokens from the host type on; what follows the version counts for nothing."""
    if len(tokens) < _FEWEST:
        return None
    host_type, host, hsoname_type, hsoname, *rest = tokens
    return ObjectPointer(host_type, host, hsoname_type, hsoname, read_version(rest[0]) if rest else 0)


class ProsperoLink(NamedTuple):
    """`ltype` is L, U or I; `target` FILE, DIRECTORY, EXTERNAL, …. `expires` is the time behind DEST-EXP.
    `ids` are the words of ID lines and attributes. `raw` is the line as it came."""

    ltype: bytes
    target: bytes
    name: bytes
    pointer: ObjectPointer
    expires: bytes | None = None
    ids: tuple[tuple[bytes, ...], ...] = ()
    attributes: tuple[Attribute, ...] = ()
    raw: bytes = b""

    @property
    def is_union(self) -> bool:
        return self.ltype == b"U"

    @property
    def is_hidden(self) -> bool:
        return self.ltype == b"I"

    @property
    def has_filter(self) -> bool:
        """Would a client have to leave out some of what it leads to?"""
        return any(attribute.name == b"FILTER" for attribute in self.attributes)

    @property
    def targets(self) -> set[bytes]:
        """The words of `target`, in no order."""
        return set(self.target.split(b"+"))

    @property
    def can_be_requested(self) -> bool:
        """Does it stand for an object of a Prospero server?"""
        return self.targets in _ASKED


def parse_link(tokens: tuple[bytes, ...], raw: bytes) -> ProsperoLink | None:
    """The tokens behind LINK; None where there are too few."""
    pointer = parse_pointer(tokens[3:])
    if pointer is None:
        return None
    expires = tokens[9] if len(tokens) > 9 and tokens[8] == b"DEST-EXP" else None
    ltype, target, name = tokens[:3]
    return ProsperoLink(ltype, target, name, pointer, expires=expires, raw=raw)


def with_belongings(
    link: ProsperoLink, ids: list[tuple[bytes, ...]], attributes: list[Attribute]
) -> ProsperoLink:
    """The link with the ID and ATTRIBUTE lines that followed it."""
    named = [attribute.values for attribute in attributes if attribute.name == b"ID"]
    return link._replace(ids=(*ids, *named), attributes=tuple(attributes))


def pointer_to(target: RequestObject) -> ObjectPointer:
    """The tokens that a server would name the target by: what fills the gaps of an access method of the
    object asked for."""
    host, port = target.place
    token = host if port is None else f"{host}({port})"
    return ObjectPointer(
        INTERNET, token.encode("latin-1"), target.hsoname_type, target.hsoname, target.version
    )
