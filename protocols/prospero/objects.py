"""Objects of a Prospero server, and the parsing of message tokens, attributes and links.

A URL (protocol page 1), a link, a FORWARDED line or an access method (8.5) can name an object. Each object
has a URL, which the network policy checks before any request. The name of an object is an opaque string and
is not normalized.

In a message, a host is a host name or a dotted IPv4 address. A decimal port in parentheses may follow the
host directly. Without a port, the default port of Prospero is used (protocol page 1.2). Host names are
case-insensitive. Servers send host names in upper case, and this module stores host names in lower case
(canonical form).
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
from protocols.text import decode_text

if TYPE_CHECKING:
    from datetime import datetime


# Lines and tokens of a Prospero message: parsing, and quoting for output.
#
# A single quote starts or ends quoting at any position in a token (protocol page, section 5). Inside quotes,
# two quotes represent one quote. Every other byte is literal, including line ends and NUL. Therefore a
# message cannot be split at line ends before the quotes are parsed.

#: The maximum number of tokens in a line. Real lines have less than 1 % of this number. The limit prevents
#: memory exhaustion by a reply of one-letter tokens.
MAX_TOKENS = 4096

_QUOTE = ord("'")
_NEEDS_QUOTES = re.compile(rb"[ \t\n\r\f\v/'+,]")
_GAP = re.compile(rb"[ \t\r\n]*")
_TOKEN = re.compile(rb"[^ \t']+(?:'[^']*'[^ \t']*)*|(?:'[^']*'[^ \t']*)+")
# The maximum number of quotes in a line for the pattern `_TOKEN`. The regular expression engine uses 84 bytes
# for each repetition of a group. A token can be a complete file, and may consist only of quotes (memory
# exhaustion). For lines with more quotes, two other patterns limit the number of repetitions.
_FEW_QUOTES = 1024
_PART = re.compile(rb"[^'\r\n]*(?:'[^']*'[^'\r\n]*){0,512}")
_QUOTED_OR_BLANKS = re.compile(rb"(?:'[^']*'){1,512}|[ \t]+")
#: A lenient server interprets a message with the text `VERSION 1` as a message of the oldest clients
#: (protocol page 6.1). The second value is an equivalent quoted text, which these servers do not recognize.
_VERSION_1, _VERSION_1_QUOTED = b"VERSION 1", b"VERSIO'N' 1"


def quote(token: bytes) -> bytes:
    """Quote a token, starting at the first byte that must be quoted.

    Raises:
        Refused: the token contains NUL, which old servers interpret as the end of the packet (S02, command
            injection).
    """
    if b"\0" in token:
        raise Refused("S02", "byte 00 would end the request")
    if not token:
        return b"''"
    match = _NEEDS_QUOTES.search(token)
    start = match.start() if match else len(token)
    # If the next token begins with 1, the two tokens would form the text `VERSION 1`.
    if match is None and token.endswith(b"VERSION"):
        start = 0
    bare, rest = token[:start], token[start:]
    quoted = b"'%s'" % rest.replace(b"'", b"''") if rest else b""
    return bare + quoted.replace(_VERSION_1, _VERSION_1_QUOTED)


class TokenLine(NamedTuple):
    """The tokens of a line (at least one), and the raw line without leading blanks."""

    tokens: tuple[bytes, ...]
    raw: bytes


def read_lines(text: bytes) -> Iterator[TokenLine]:
    """Yield the lines of a message, except blank lines.

    Raises:
        ProtocolError: a quote is not closed.
        LimitExceeded: a line has more than `MAX_TOKENS` tokens.
    """
    start = _match_end(_GAP, text, 0)
    while start < len(text):
        end = _find_line_end(text, start)
        raw = text[start:end]
        yield TokenLine(tuple(_unquote(token) if b"'" in token else token for token in _split(raw)), raw)
        start = _match_end(_GAP, text, end)


def _find_line_end(text: bytes, start: int) -> int:
    while True:
        end = _match_end(_PART, text, start)
        if text[end : end + 1] != b"'":
            return end
        if end == start:
            raise ProtocolError("the reply ends inside quotes")
        start = end


def _match_end(pattern: re.Pattern[bytes], text: bytes, start: int) -> int:
    """Return the end of the match at `start`. A match exists, because each pattern matches an empty text."""
    match = pattern.match(text, start)
    assert match is not None
    return match.end()


def _split(raw: bytes) -> list[bytes]:
    """Split a line into tokens, without removing quotes."""
    has_few_quotes = raw.count(b"'") <= _FEW_QUOTES
    tokens = _TOKEN.findall(raw) if has_few_quotes else list(islice(_split_at_blanks(raw), MAX_TOKENS + 1))
    if len(tokens) > MAX_TOKENS:
        raise LimitExceeded("line", f"a line of the reply has more than {MAX_TOKENS} tokens")
    return tokens


def _split_at_blanks(raw: bytes) -> Iterator[bytes]:
    """Split a line with many quotes into tokens, without removing quotes."""
    start = 0
    for match in _QUOTED_OR_BLANKS.finditer(raw):
        if raw[match.start()] == _QUOTE:
            continue
        if start < match.start():
            yield raw[start : match.start()]
        start = match.end()
    if start < len(raw):
        yield raw[start:]


def _unquote(token: bytes) -> bytes:
    """Remove the quotes of a token.

    If the token is split at the quotes, every second segment is quoted text. An empty segment between two
    quoted segments represents a literal quote.
    """
    pieces = token.split(b"'")
    pieces[2:-1:2] = [piece or b"'" for piece in pieces[2:-1:2]]
    return b"".join(pieces)


DEFAULT_PORT = 1525
DEFAULT_TYPE = b"ASCII"

_BLANKS = re.compile(rb"[ \t]+")
_VERSION = re.compile(rb"[0-9]{1,10}")
_VERSION_NAMES = (b"OBJECT-VERSION", b"VERSION")
_HOST = re.compile(rb"([^()]+)(?:\(([0-9]{1,5})\))?")


class ServerAddress(NamedTuple):
    """A host and an optional port."""

    host: str
    port: int | None = None

    def authority(self, default_port: int) -> str:
        """Return `//host:port` for a URL.

        Raises:
            InvalidUrl: the host or the port cannot be represented in a URL.
        """
        return f"//{build_host(self.host)}{build_port(self.port, default_port)}"


def parse_place(token: bytes) -> ServerAddress:
    """Parse a host token. The host is validated later, by the method `authority`.

    Raises:
        InvalidUrl: the token does not have the syntax of a host.
    """
    match = _HOST.fullmatch(token)
    if match is None:
        raise InvalidUrl("bad-host", 0, f"bad-host: {decode_text(token)!r} does not name a host")
    return ServerAddress(match[1].decode("latin-1").lower(), None if match[2] is None else int(match[2]))


class RequestObject(NamedTuple):
    """An object to request.

    Attributes:
        version: The version of the object. The number 0 means the current version.
        selections: The arguments of the SELECT commands in the request.
        via: The object whose reply named this object. None for the object of the URL.
    """

    host: str
    port: int
    hsoname: bytes
    hsoname_type: bytes = DEFAULT_TYPE
    version: int = 0
    selections: tuple[tuple[bytes, ...], ...] = ()
    via: RequestObject | None = None

    @property
    def place(self) -> ServerAddress:
        """Return the host and port of the object's server."""
        return ServerAddress(self.host, None if self.port == DEFAULT_PORT else self.port)

    @property
    def server(self) -> tuple[str, int]:
        return self.host, self.port

    @property
    def identity(self) -> tuple[str, int, bytes]:
        """Return the identity of the object. Objects with equal identities are the same object."""
        return self.host, self.port, self.hsoname

    @property
    def route(self) -> tuple[str, ...]:
        """Return the chain of URLs that led to this object, which is empty for the user's own URL."""
        return () if self.via is None else (*self.via.route, self.url)

    @property
    def url(self) -> BuiltUrl:
        """Return the URL of the object.

        Raises:
            InvalidUrl: the host cannot be represented in a URL.
        """
        fields: list[Field] = []
        if self.version:
            fields.append((b"OBJECT-VERSION", b"%d" % self.version))
        if self.hsoname_type != DEFAULT_TYPE:
            fields.append((b"HSONAME-TYPE", self.hsoname_type))
        url = ProsperoUrl(
            scheme="prospero",
            host=self.host,
            port=self.port,
            default_port=DEFAULT_PORT,
            hsoname=self.hsoname,
            fields=tuple(fields),
        )
        # Quotes are valid in a URL, but protocol page 8.5 requires that quotes are percent-encoded.
        return BuiltUrl(build(url).replace("'", "%27"))


def make_target(url: ProsperoUrl) -> RequestObject:
    """Return the object that a URL names (1.1).

    Raises:
        Declined: the object cannot be requested, because the host type is not INTERNET-D or the version is
            not a number.
    """
    fields = [(name.upper(), value) for name, value in url.fields if value is not None]
    host_type = _find_first(fields, (b"HOST-TYPE",))
    if host_type is not None and host_type.upper() != b"INTERNET-D":
        raise Declined(f"a host of type {decode_text(host_type)!r} cannot be reached", code="HOST-TYPE")
    return RequestObject(
        host=url.host,
        port=url.effective_port,
        hsoname=url.hsoname,
        hsoname_type=_find_first(fields, (b"HSONAME-TYPE",)) or DEFAULT_TYPE,
        version=_parse_version(_find_first(fields, _VERSION_NAMES)),
        selections=tuple(_selections(fields)),
    )


def _find_first(fields: list[tuple[bytes, bytes]], names: tuple[bytes, ...]) -> bytes | None:
    return next((value for name, value in fields if name in names), None)


def _parse_version(value: bytes | None) -> int:
    if not value:
        return 0
    if not _VERSION.fullmatch(value):
        raise Declined(f"the object version {decode_text(value)!r} is not a number", code="OBJECT-VERSION")
    return int(value)


def _selections(fields: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, ...]]:
    """Yield the arguments of the SELECT commands, one for each URL field (protocol page 6.5).

    Every field with the name ID is used, and the value of the field is split into a type and tokens. Each
    other field has a value of one token. If another field is repeated, only the first occurrence is used.
    """
    used = {b"", b"HOST-TYPE", b"HSONAME-TYPE", *_VERSION_NAMES}
    for name, value in fields:
        if name == b"ID":
            yield b"OBJECT", b"FIELD", name, b"SEQUENCE", *_BLANKS.split(value.strip(b" \t"))
        elif name not in used:
            yield b"OBJECT", b"FIELD", name, b"SEQUENCE", value
            used.add(name)


def read_version(token: bytes) -> int:
    """Parse the version of an object. A token that is not a number means the current version."""
    return int(token) if _VERSION.fullmatch(token) else 0


# Attributes of objects and links (protocol page 7.2). An ATTRIBUTE line has one value. An attribute with
# several values has several lines, in the server's order of preference.

_SEQUENCES = (b"SEQUENCE", b"ASCII")
_TYPES = (*_SEQUENCES, b"LINK", b"FILTER")
#: The types of field values other than SEQUENCE, with the minimum number of tokens in a value of each type.
_TYPED_FIELDS = {
    (b"CLOSURE", b"LINK"): 7,
    (b"FORWARDING-POINTER", b"LINK"): 7,
    (b"FILTER", b"FILTER"): 4,
}

_SIZE = re.compile(rb"([0-9]{1,15})(?: bytes?)?", re.IGNORECASE)
_TIME = re.compile(rb"([0-9]{4})" + rb"([0-9]{2})" * 5 + rb"Z")


class Attribute(NamedTuple):
    """A value of an attribute. An attribute may have several values.

    `applies` is the scope of the value: OBJECT, CACHED, REPLACEMENT, ADDITIONAL or LINK. `values` has the
    tokens that follow the type of the value.
    """

    applies: bytes
    name: bytes
    value_type: bytes
    values: tuple[bytes, ...]


def parse_attribute(tokens: tuple[bytes, ...]) -> Attribute | None:
    """Parse the tokens after ATTRIBUTE, or return None if tokens or a required type are missing."""
    if len(tokens) < 3:
        return None
    applies, namespace, name, *rest = tokens
    if namespace == b"FIELD":
        value_type = _find_value_type(name, rest)
        values = rest[1:] if value_type else rest
        return Attribute(applies, name, value_type or b"SEQUENCE", tuple(values))
    if not rest or rest[0] not in _TYPES:
        return None
    return Attribute(applies, name, rest[0], tuple(rest[1:]))


def _find_value_type(name: bytes, rest: list[bytes]) -> bytes | None:
    """Return the type of a field's value. Servers usually omit the type of a well-known field."""
    first = rest[0] if rest else b""
    if first in _SEQUENCES:
        return first
    min_tokens = _TYPED_FIELDS.get((name, first))
    return first if min_tokens is not None and len(rest) > min_tokens else None


def list_values(attributes: Iterable[Attribute], name: bytes) -> list[tuple[bytes, ...]]:
    """Return all values of an attribute in order of preference.

    A value that is stored with a link replaces the object's own values (REPLACEMENT) or is added to the
    object's own values (ADDITIONAL). If the object itself lacks the attribute, the value of the link is still
    used.
    """
    named = [attribute for attribute in attributes if attribute.name == name]
    by_kind = {kind: [item.values for item in named if item.applies == kind] for kind in _KINDS}
    values = by_kind[b"REPLACEMENT"] or by_kind[b"OBJECT"] or by_kind[b"CACHED"]
    return values + by_kind[b"ADDITIONAL"]


_KINDS = (b"OBJECT", b"CACHED", b"REPLACEMENT", b"ADDITIONAL")


def describe(attributes: Iterable[Attribute]) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of every SEQUENCE attribute, decoded for display."""
    for attribute in attributes:
        if attribute.value_type in _SEQUENCES and attribute.name not in (b"ACCESS-METHOD", b"CONTENTS"):
            yield decode_text(attribute.name), " ".join(map(decode_text, attribute.values))


def find_first_word(attributes: Iterable[Attribute], *names: bytes) -> bytes | None:
    """Return the first token of the first attribute in `names` that has one, including links' attributes."""
    for name in names:
        for attribute in attributes:
            if attribute.name == name and attribute.values:
                return attribute.values[0]
    return None


def read_size(attributes: Iterable[Attribute]) -> int | None:
    """Parse the attribute SIZE (a number and a unit in one token), and return the size in bytes."""
    for values in list_values(attributes, b"SIZE"):
        match = _SIZE.fullmatch(b" ".join(values))
        if match:
            return int(match[1])
    return None


def describes_directory(attributes: Iterable[Attribute]) -> bool:
    """Return whether UNIX-MODES describes a directory."""
    return any(values[0].startswith(b"d") for values in list_values(attributes, b"UNIX-MODES") if values)


def read_modified(attributes: Iterable[Attribute]) -> datetime | None:
    """Return the modification time of the object in UTC, or None if it is missing or invalid."""
    return next(filter(None, map(_read_time, list_values(attributes, b"LAST-MODIFIED"))), None)


def _read_time(values: tuple[bytes, ...]) -> datetime | None:
    """Parse a time `YYYYMMDDhhmmssZ` (7.3), or return None for another format."""
    match = _TIME.fullmatch(values[0]) if len(values) == 1 else None
    if match is None:
        return None
    from protocols.dates import in_utc  # lazy import: few replies contain a time

    return in_utc(match.groups())


# LINK lines (protocol page 7.1). Each line is an entry of a directory, and has a name and an object.

INTERNET = b"INTERNET-D"

#: The types of link targets that can be requested from a Prospero server.
_REQUESTABLE = ({b"FILE"}, {b"DIRECTORY"}, {b"DIRECTORY", b"FILE"}, {b"OBJECT"})
_MIN_TOKENS = 4  # the minimum number of tokens in the name of an object, without the optional version
_ENDS_LINE = b"\0\r\n"


class ObjectPointer(NamedTuple):
    """The location of an object: five tokens of a LINK or FORWARDED line."""

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
            raise InvalidUrl("bad-host", 0, f"bad-host: a host of type {decode_text(self.host_type)!r}")
        return parse_place(self.host)

    def target(self, via: RequestObject) -> RequestObject:
        """Return the object to request. `via` is the object whose reply had this pointer.

        Raises:
            InvalidUrl: the object cannot be represented in a URL, or its name cannot be sent in a request.
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
        _ = target.url  # checks the host: an invalid host raises InvalidUrl
        return target


def parse_pointer(tokens: tuple[bytes, ...]) -> ObjectPointer | None:
    """Parse the tokens from the host type to the version, which name an object, and ignore later ones."""
    if len(tokens) < _MIN_TOKENS:
        return None
    host_type, host, hsoname_type, hsoname, *rest = tokens
    return ObjectPointer(host_type, host, hsoname_type, hsoname, read_version(rest[0]) if rest else 0)


class ProsperoLink(NamedTuple):
    """A link of a directory.

    Attributes:
        ltype: The link type: L (normal), U (union) or I (hidden).
        target: The type of the target: FILE, DIRECTORY, EXTERNAL and others.
        expires: The time after DEST-EXP.
        ids: The tokens of the ID lines and ID attributes that belong to the link.
        raw: The LINK line as received.
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
        """Return whether the link has a filter. The client does not apply filters."""
        return any(attribute.name == b"FILTER" for attribute in self.attributes)

    @property
    def targets(self) -> set[bytes]:
        """Return the types in `target` as a set. Their separator is `+`."""
        return set(self.target.split(b"+"))

    @property
    def can_be_requested(self) -> bool:
        """Return whether the link's target is an object of a Prospero server."""
        return self.targets in _REQUESTABLE


def parse_link(tokens: tuple[bytes, ...], raw: bytes) -> ProsperoLink | None:
    """Parse the tokens after LINK, and return None if tokens are missing."""
    pointer = parse_pointer(tokens[3:])
    if pointer is None:
        return None
    expires = tokens[9] if len(tokens) > 9 and tokens[8] == b"DEST-EXP" else None
    ltype, target, name = tokens[:3]
    return ProsperoLink(ltype, target, name, pointer, expires=expires, raw=raw)


def complete_link(
    link: ProsperoLink, ids: list[tuple[bytes, ...]], attributes: list[Attribute]
) -> ProsperoLink:
    """Return the link with the data of the ID and ATTRIBUTE lines that follow it."""
    named = [attribute.values for attribute in attributes if attribute.name == b"ID"]
    return link._replace(ids=(*ids, *named), attributes=tuple(attributes))


def pointer_to(target: RequestObject) -> ObjectPointer:
    """Return the tokens that name the object: the defaults for those of its access methods."""
    host, port = target.place
    token = host if port is None else f"{host}({port})"
    return ObjectPointer(
        INTERNET, token.encode("latin-1"), target.hsoname_type, target.hsoname, target.version
    )
