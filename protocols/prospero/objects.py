"""Objects of a Prospero server: their names and routes, and the tokens, attributes and links that name them.

An object is named by a URL (protocol page 1), a link, a FORWARDED line or an access method (8.5). Each object
also has a URL; the policy checks this URL before any request. The name of an object is opaque and not
normalized.

In a message, a host is a name or a dotted address, directly followed by a decimal port in parentheses.
Without a port, the default for the purpose of the host applies (1.2). Host names are case-insensitive.
Servers write them in capitals; this module stores them in lower case.
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


# Lines and tokens of a Prospero message: parsing, and quoting for output.
#
# A single quote switches quoting on and off anywhere in a token. Inside quotes, two quotes stand for one
# quote, and every other byte is literal, line ends and NUL included. So a message is read in one pass from
# the first byte to the last, never line by line. Section 5 of the protocol page.

#: The maximum number of tokens in a line. Real lines have less than a hundredth of it. Without a limit, a
#: reply of only one-letter tokens would fill memory.
MOST_TOKENS = 4096

_QUOTE = ord("'")
_NEEDS_QUOTES = re.compile(rb"[ \t\n\r\f\v/'+,]")
_GAP = re.compile(rb"[ \t\r\n]*")
_TOKEN = re.compile(rb"[^ \t']+(?:'[^']*'[^ \t']*)*|(?:'[^']*'[^ \t']*)+")
# For a repeated group, the regex engine uses 84 bytes per repetition, and a file in one token may consist of
# quotes only. So `_TOKEN` is for lines with few quotes; the next two patterns match only a limited number of
# repetitions at a time.
_FEW_QUOTES = 1024
_PART = re.compile(rb"[^'\r\n]*(?:'[^']*'[^'\r\n]*){0,512}")
_QUOTED_OR_BLANKS = re.compile(rb"(?:'[^']*'){1,512}|[ \t]+")
#: If a message contains this text, a lenient server assumes the oldest kind of client (6.1); and the quoted
#: form with the same meaning.
_OLDEST, _SAME = b"VERSION 1", b"VERSIO'N' 1"


def quote(token: bytes) -> bytes:
    """Quote a token, from the first byte that must be quoted.

    Raises:
        Refused: the token holds NUL, which old servers interpret as the end of the packet (S02, command
            injection).
    """
    if b"\0" in token:
        raise Refused("S02", "byte 00 would end the request")
    if not token:
        return b"''"
    found = _NEEDS_QUOTES.search(token)
    start = found.start() if found else len(token)
    # the next token could begin with a 1, which would form `VERSION 1`
    if found is None and token.endswith(b"VERSION"):
        start = 0
    bare, rest = token[:start], token[start:]
    quoted = b"'%s'" % rest.replace(b"'", b"''") if rest else b""
    return bare + quoted.replace(_OLDEST, _SAME)


class TokenLine(NamedTuple):
    """The tokens of a line, at least one, and the raw line from the first token to its end."""

    tokens: tuple[bytes, ...]
    raw: bytes


def read_lines(text: bytes) -> Iterator[TokenLine]:
    """Yield the lines of a message that have tokens.

    Raises:
        ProtocolError: a quote is never closed.
        LimitExceeded: a line has more than `MOST_TOKENS` tokens.
    """
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
    """Return the end of the match at `start`; the patterns match the empty string too."""
    found = pattern.match(text, start)
    assert found is not None
    return found.end()


def _split(raw: bytes) -> list[bytes]:
    """Return the tokens of a line as written."""
    few = raw.count(b"'") <= _FEW_QUOTES
    tokens = _TOKEN.findall(raw) if few else list(islice(_among_quotes(raw), MOST_TOKENS + 1))
    if len(tokens) > MOST_TOKENS:
        raise LimitExceeded("line", f"a line of the reply has more than {MOST_TOKENS} tokens")
    return tokens


def _among_quotes(raw: bytes) -> Iterator[bytes]:
    """Yield the tokens of a line as written, for a line with many quotes."""
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
    """Remove the quotes of a token.

    Split at quotes, every other piece is inside quotes. An empty piece between two quoted pieces is a quote
    inside quotes.
    """
    pieces = token.split(b"'")
    pieces[2:-1:2] = [piece or b"'" for piece in pieces[2:-1:2]]
    return b"".join(pieces)


def read_text(token: bytes) -> str:
    """Decode a token for display: UTF-8 if it is valid, otherwise ISO 8859-1."""
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
    """A host, and the port if it was given."""

    host: str
    port: int | None = None

    def authority(self, default_port: int) -> str:
        """Return `//host:port` for a URL.

        Raises:
            InvalidUrl: the host or the port is invalid in a URL.
        """
        return f"//{build_host(self.host)}{build_port(self.port, default_port)}"


def parse_place(token: bytes) -> ServerAddress:
    """Parse a host token; `authority` checks whether the host is valid.

    Raises:
        InvalidUrl: the token does not name a host.
    """
    found = _HOST.fullmatch(token)
    if found is None:
        raise InvalidUrl("bad-host", 0, f"bad-host: {read_text(token)!r} does not name a host")
    return ServerAddress(found[1].decode("latin-1").lower(), None if found[2] is None else int(found[2]))


class RequestObject(NamedTuple):
    """An object to request.

    `version` 0 is the current version. `selections` are SELECT lines without their keyword. `via` is the
    object whose reply named this object; None for the object of the URL.
    """

    host: str
    port: int
    hsoname: bytes
    hsoname_type: bytes = USUAL_TYPE
    version: int = 0
    selections: tuple[tuple[bytes, ...], ...] = ()
    via: RequestObject | None = None

    @property
    def place(self) -> ServerAddress:
        """Return the host and port, as in a host token."""
        return ServerAddress(self.host, None if self.port == DEFAULT_PORT else self.port)

    @property
    def server(self) -> tuple[str, int]:
        return self.host, self.port

    @property
    def identity(self) -> tuple[str, int, bytes]:
        """Return the identity of the object; two objects with equal identities are the same object."""
        return self.host, self.port, self.hsoname

    @property
    def route(self) -> tuple[str, ...]:
        """Return the URLs that led from the requested object to this one; empty for the requested object."""
        return () if self.via is None else (*self.via.route, self.url)

    @property
    def url(self) -> BuiltUrl:
        """Return the URL of the object.

        Raises:
            InvalidUrl: the host is invalid in a URL.
        """
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
        # 8.5 requires encoded quotes, although a URL may contain them
        return BuiltUrl(build(url).replace("'", "%27"))


def target_of(url: ProsperoUrl) -> RequestObject:
    """Return the object of a URL, by its name and fields (1.1).

    Raises:
        Declined: the host type is not INTERNET-D, or the version is not a number, so no request is possible.
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
        raise Declined(f"the object version {read_text(value)!r} is not a number", code="OBJECT-VERSION")
    return int(value)


def _selections(fields: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, ...]]:
    """Yield the selections of the request (6.5).

    Every field named ID is used, as a type and tokens. Of the fields with any other name only the first is
    used, with its value as one token.
    """
    done = {b"", b"HOST-TYPE", b"HSONAME-TYPE", *_VERSION_NAMES}
    for name, value in fields:
        if name == b"ID":
            yield b"OBJECT", b"FIELD", name, b"SEQUENCE", *_BLANKS.split(value.strip(b" \t"))
        elif name not in done:
            yield b"OBJECT", b"FIELD", name, b"SEQUENCE", value
            done.add(name)


def read_version(token: bytes) -> int:
    """Parse the object version in a reply; a token that is not a number means the current version."""
    return int(token) if _VERSION.fullmatch(token) else 0


# Attributes of objects and links (protocol page 7.2), and the values that are interpreted here. A line has
# one value. Several lines with the same name are several values, in the server's order of preference.

_SEQUENCES = (b"SEQUENCE", b"ASCII")
_TYPES = (*_SEQUENCES, b"LINK", b"FILTER")
#: Fields whose values are not sequences, and the minimum number of tokens of such a value.
_TYPED_FIELDS = {
    (b"CLOSURE", b"LINK"): 7,
    (b"FORWARDING-POINTER", b"LINK"): 7,
    (b"FILTER", b"FILTER"): 4,
}

_SIZE = re.compile(rb"([0-9]{1,15})(?: bytes?)?", re.IGNORECASE)
_TIME = re.compile(rb"[0-9]{14}Z")


class Attribute(NamedTuple):
    """A value of an attribute.

    `applies` is its scope: OBJECT, CACHED, REPLACEMENT, ADDITIONAL, LINK. `values` are the tokens after the
    value's type.
    """

    applies: bytes
    name: bytes
    value_type: bytes
    values: tuple[bytes, ...]


def parse_attribute(tokens: tuple[bytes, ...]) -> Attribute | None:
    """Parse the tokens after ATTRIBUTE; None if there are too few, or if a required type is missing."""
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
    """Return the type before a field's value; servers usually omit the type for known fields."""
    first = rest[0] if rest else b""
    if first in _SEQUENCES:
        return first
    least = _TYPED_FIELDS.get((name, first))
    return first if least is not None and len(rest) > least else None


def values_of(attributes: Iterable[Attribute], name: bytes) -> list[tuple[bytes, ...]]:
    """Return all values of the object's attribute `name`, best first.

    A value that is stored with a link can replace the object's own values (REPLACEMENT) or be added to them
    (ADDITIONAL), also if there are none.
    """
    found = [attribute for attribute in attributes if attribute.name == name]
    by_kind = {kind: [each.values for each in found if each.applies == kind] for kind in _KINDS}
    own = by_kind[b"REPLACEMENT"] or by_kind[b"OBJECT"] or by_kind[b"CACHED"]
    return own + by_kind[b"ADDITIONAL"]


_KINDS = (b"OBJECT", b"CACHED", b"REPLACEMENT", b"ADDITIONAL")


def describe(attributes: Iterable[Attribute]) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of every attribute that is a sequence, for display."""
    for attribute in attributes:
        if attribute.value_type in _SEQUENCES and attribute.name not in (b"ACCESS-METHOD", b"CONTENTS"):
            yield read_text(attribute.name), " ".join(map(read_text, attribute.values))


def find_first_word(attributes: Iterable[Attribute], *names: bytes) -> bytes | None:
    """Return the first token of the first of these attributes that has one, link attributes included."""
    for name in names:
        for attribute in attributes:
            if attribute.name == name and attribute.values:
                return attribute.values[0]
    return None


def read_size(attributes: Iterable[Attribute]) -> int | None:
    """Return the SIZE of the object in bytes: a number and a unit in one token."""
    for values in values_of(attributes, b"SIZE"):
        found = _SIZE.fullmatch(b" ".join(values))
        if found:
            return int(found[1])
    return None


def is_of_directory(attributes: Iterable[Attribute]) -> bool:
    """Return whether UNIX-MODES describes a directory."""
    return any(values[0].startswith(b"d") for values in values_of(attributes, b"UNIX-MODES") if values)


def read_modified(attributes: Iterable[Attribute]) -> datetime | None:
    """Return LAST-MODIFIED, in UTC."""
    return next(filter(None, map(_read_time, values_of(attributes, b"LAST-MODIFIED"))), None)


def _read_time(values: tuple[bytes, ...]) -> datetime | None:
    """Parse `YYYYMMDDhhmmssZ` (7.3); return None for anything else."""
    if len(values) != 1 or not _TIME.fullmatch(values[0]):
        return None
    from datetime import UTC, datetime  # imported lazily: only attributes with a time need it

    try:
        return datetime.strptime(values[0].decode("ascii"), "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


# LINK lines (protocol page 7.1): a name in a directory, and its object.

INTERNET = b"INTERNET-D"

#: The link targets that can be requested from a Prospero server.
_ASKED = ({b"FILE"}, {b"DIRECTORY"}, {b"DIRECTORY", b"FILE"}, {b"OBJECT"})
_FEWEST = 4  # the minimum number of tokens that name an object; the version may be missing
_ENDS_LINE = b"\0\r\n"


class ObjectPointer(NamedTuple):
    """The location of an object: the five tokens that name it in LINK and FORWARDED lines."""

    host_type: bytes
    host: bytes
    hsoname_type: bytes
    hsoname: bytes
    version: int = 0

    @property
    def place(self) -> ServerAddress:
        """Return the host and port.

        Raises:
            InvalidUrl: the host type is not INTERNET-D, or the token is not a host.
        """
        if self.host_type.upper() != INTERNET:
            raise InvalidUrl("bad-host", 0, f"bad-host: a host of type {read_text(self.host_type)!r}")
        return parse_place(self.host)

    def target(self, via: RequestObject) -> RequestObject:
        """Return the object to request; the reply about `via` named it.

        Raises:
            InvalidUrl: no URL can hold the object, or its name cannot be sent in a request.
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
        _ = target.url  # raises if the host is invalid in a URL
        return target


def parse_pointer(tokens: tuple[bytes, ...]) -> ObjectPointer | None:
    """Parse the tokens from the host type on; tokens after the version are ignored."""
    if len(tokens) < _FEWEST:
        return None
    host_type, host, hsoname_type, hsoname, *rest = tokens
    return ObjectPointer(host_type, host, hsoname_type, hsoname, read_version(rest[0]) if rest else 0)


class ProsperoLink(NamedTuple):
    """A link of a directory.

    `ltype` is L, U or I; `target` FILE, DIRECTORY, EXTERNAL, …. `expires` is the time after DEST-EXP. `ids`
    are the tokens of ID lines and attributes. `raw` is the line as received.
    """

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
        """Return whether the target has a filter that the client would have to apply to its links."""
        return any(attribute.name == b"FILTER" for attribute in self.attributes)

    @property
    def targets(self) -> set[bytes]:
        """Return the parts of `target`, which are separated by `+`, as a set."""
        return set(self.target.split(b"+"))

    @property
    def can_be_requested(self) -> bool:
        """Return whether the link's target is an object of a Prospero server."""
        return self.targets in _ASKED


def parse_link(tokens: tuple[bytes, ...], raw: bytes) -> ProsperoLink | None:
    """Parse the tokens after LINK; None if there are too few."""
    pointer = parse_pointer(tokens[3:])
    if pointer is None:
        return None
    expires = tokens[9] if len(tokens) > 9 and tokens[8] == b"DEST-EXP" else None
    ltype, target, name = tokens[:3]
    return ProsperoLink(ltype, target, name, pointer, expires=expires, raw=raw)


def with_belongings(
    link: ProsperoLink, ids: list[tuple[bytes, ...]], attributes: list[Attribute]
) -> ProsperoLink:
    """Return the link with the ID and ATTRIBUTE lines that followed it."""
    named = [attribute.values for attribute in attributes if attribute.name == b"ID"]
    return link._replace(ids=(*ids, *named), attributes=tuple(attributes))


def pointer_to(target: RequestObject) -> ObjectPointer:
    """Return the tokens that name the object; they are the defaults in its access methods."""
    host, port = target.place
    token = host if port is None else f"{host}({port})"
    return ObjectPointer(
        INTERNET, token.encode("latin-1"), target.hsoname_type, target.hsoname, target.version
    )
