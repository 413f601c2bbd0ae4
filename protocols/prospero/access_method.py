"""The access methods of a prospero object, and their URLs (protocol page, section 8).

An ACCESS-METHOD value has at least five tokens. The first token is the method. Four tokens name a host and an
object on this host. An empty token is replaced by the corresponding token of the link or of the requested
object. If the client cannot use an access method, `AccessMethod.unusable` gives the reason. The client never
follows an access method that names a local file of the client's machine, because the server is untrusted
(rule S10, redirects).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from protocols.errors import InvalidUrl
from protocols.location import JsonValue, Kind
from protocols.prospero.objects import (
    INTERNET,
    Attribute,
    ObjectPointer,
    RequestObject,
    ServerAddress,
    list_values,
    parse_place,
)
from protocols.syntax import RESERVED, UNRESERVED, encode
from protocols.text import decode_text

# The conversion of an access method to a URL (protocol page, section 8.2). Each method has one function.
#
# Host and name are untrusted input from a server, so every byte is percent-encoded if necessary.

_FTP_DATA = "?:@&="
_FTP_TYPES = {b"BINARY": "i", b"TEXT": "a", b"DIRECTORY": "d"}
_GOPHER_TYPES = {b"TEXT": "0", b"BINARY": "9"}
_GOPHER_KINDS = {"1": Kind.DIRECTORY, "7": Kind.SEARCH, **dict.fromkeys("28T", Kind.SERVICE)}
_ENDS_FTP_COMMAND = re.compile(rb"[\0\r\n]")
_ENDS_GOPHER_FIELD = re.compile(rb"[\0\t\r\n]")
_WAIS_GATEWAY = b"WAIS-GW"
_WAIS_SEARCH = ";:@&="
_WAIS_WRITTEN = re.compile(rb"%[0-9A-Fa-f]{2}|.", re.DOTALL)
_WAIS_LITERAL = frozenset((UNRESERVED + RESERVED).encode("ascii"))


class AccessName(NamedTuple):
    """The host and the object name of an access method, after empty tokens were replaced.

    `argument` is the optional sixth token of the value.
    """

    host: bytes
    hsoname: bytes
    argument: bytes | None

    @property
    def place(self) -> ServerAddress:
        return parse_place(self.host)


class MappedUrl(NamedTuple):
    """The URL of an access method.

    `is_text` is set if the method declares that the object is text. `message` is displayed to the user.
    """

    url: str
    kind: Kind = Kind.DOCUMENT
    is_text: bool = False
    message: str | None = None


def map_anonymous_ftp(name: AccessName) -> MappedUrl:
    """Map AFTP. The name is relative to the root of the anonymous user, and a leading slash is ignored."""
    return _map_ftp(name, "")


def map_ftp(name: AccessName) -> MappedUrl:
    """Map FTP. A leading slash is part of the name, because the name is an absolute path."""
    return _map_ftp(name, "%2F" if name.hsoname.startswith(b"/") else "")


def _map_ftp(name: AccessName, root: str) -> MappedUrl:
    if _ENDS_FTP_COMMAND.search(name.hsoname):
        raise InvalidUrl("bad-char", 0, "NUL, CR or LF in a file name")
    parts = name.hsoname.removeprefix(b"/").split(b"/")
    path = root + "/".join(encode(part, _FTP_DATA) for part in parts)
    letter = _FTP_TYPES.get(name.argument or b"")
    typecode = f";type={letter}" if letter else ""
    kind = Kind.DIRECTORY if letter == "d" else Kind.DOCUMENT
    return MappedUrl(f"ftp:{name.place.authority(21)}/{path}{typecode}", kind, letter == "a")


def map_gopher(name: AccessName) -> MappedUrl:
    """Map GOPHER. The complete name, including the type character, is the selector."""
    selector = name.hsoname
    if _ENDS_GOPHER_FIELD.search(selector):
        raise InvalidUrl("selector-control", 0, "NUL, TAB, CR or LF in a selector")
    character = _gopher_type(name)
    if not "\x21" <= character <= "\x7e":
        raise InvalidUrl("bad-gophertype", 0, f"{character!r} is not a gopher type")
    path = encode(character.encode("ascii") + selector, RESERVED)
    kind = _GOPHER_KINDS.get(character, Kind.DOCUMENT)
    return MappedUrl(f"gopher:{name.place.authority(70)}/{path}", kind, character == "0")


def _gopher_type(name: AccessName) -> str:
    argument = name.argument or b""
    if len(argument) == 1:
        return argument.decode("latin-1")
    return _GOPHER_TYPES.get(argument) or name.hsoname[:1].decode("latin-1") or "1"


def map_telnet(name: AccessName) -> MappedUrl:
    """Convert TELNET to a URL of host and port. The argument is a message for the user, not a user name."""
    message = None if name.argument is None else decode_text(name.argument)
    return MappedUrl(f"telnet:{name.place.authority(23)}/", Kind.SERVICE, message=message)


def map_wais(name: AccessName) -> MappedUrl:
    """Map WAIS. The name is `WAIS-GW/host(port)/type/database/document` or `…/QUERY/database[/words]`.

    The host in the name is the WAIS server. The host token of the value is the Prospero server, and is
    ignored.
    """
    mark, *parts = name.hsoname.split(b"/", 4)
    if mark != _WAIS_GATEWAY or len(parts) < 3:
        raise InvalidUrl("missing-path", 0, "an opaque locator without the parts of a wais URL")
    host, wtype, database, *rest = parts
    start = f"wais:{parse_place(host).authority(210)}/"
    if wtype == b"QUERY":
        search = f"?{encode(rest[0], _WAIS_SEARCH)}" if rest else ""
        return MappedUrl(f"{start}{encode(database)}{search}", Kind.SEARCH)
    if not rest:
        raise InvalidUrl("missing-path", 0, "no document after the database")
    return MappedUrl(
        f"{start}{encode(database)}/{encode(wtype)}/{_encode_document(rest[0])}", is_text=wtype == b"TEXT"
    )


def _encode_document(written: bytes) -> str:
    """Percent-encode the characters of a document id that are not encoded yet."""
    return "".join(
        piece.decode("ascii") if len(piece) == 3 or piece[0] in _WAIS_LITERAL else f"%{piece[0]:02X}"
        for piece in _WAIS_WRITTEN.findall(written)
    )


_MIN_TOKENS = 5
_NO_URL = "no URL scheme has this method"

_MAPPINGS: dict[bytes, Callable[[AccessName], MappedUrl]] = {
    b"AFTP": map_anonymous_ftp,
    b"FTP": map_ftp,
    b"GOPHER": map_gopher,
    b"TELNET": map_telnet,
    b"WAIS": map_wais,
}
_CONTENTS = b"PROSPERO-CONTENTS"
_LOCAL = b"LOCAL"
_WITHOUT_URL = (b"AFS", b"NFS", b"RCP", b"TN3270")


class AccessMethod(NamedTuple):
    """An access method of an object.

    Attributes:
        tokens: The tokens of the value, as received.
        mapped_url: The URL of the object, for a method of another protocol.
        target: The object whose contents a Prospero server returns (PROSPERO-CONTENTS).
        unusable: The reason why the method cannot be used, if both `mapped_url` and `target` are absent.
    """

    name: bytes
    tokens: tuple[bytes, ...]
    mapped_url: MappedUrl | None = None
    target: RequestObject | None = None
    unusable: str = ""

    @property
    def url(self) -> str | None:
        return None if self.mapped_url is None else self.mapped_url.url

    @property
    def is_session(self) -> bool:
        """Return whether the method is a service for the user, which the client does not follow."""
        return self.name == b"TELNET" and self.mapped_url is not None

    @property
    def is_local(self) -> bool:
        """Return whether the method names a local file of the client's machine."""
        return self.name == _LOCAL

    @property
    def description(self) -> str:
        """Return the tokens for display, with the reason why the method cannot be used."""
        text = " ".join(decode_text(token) or "''" for token in self.tokens)
        return f"{text} ({self.unusable})" if self.unusable else text

    def as_json(self) -> dict[str, JsonValue]:
        return {
            "method": decode_text(self.name),
            "url": self.url,
            "tokens": [token.decode("latin-1") for token in self.tokens],
            "unusable": self.unusable or None,
        }


def list_access_methods(
    attributes: Iterable[Attribute], default: ObjectPointer, via: RequestObject
) -> list[AccessMethod]:
    """Return the access methods of an object in order of preference.

    Values with too few tokens and unknown methods are skipped.

    Args:
        attributes: the attributes of the object.
        default: the tokens that replace empty tokens.
        via: the object whose reply contained the attributes.
    """
    methods = (_access_method(tokens, default, via) for tokens in list_values(attributes, b"ACCESS-METHOD"))
    return [method for method in methods if method is not None]


def _access_method(
    tokens: tuple[bytes, ...], default: ObjectPointer, via: RequestObject
) -> AccessMethod | None:
    if len(tokens) < _MIN_TOKENS:
        return None
    method = tokens[0]
    pointer = _fill_defaults(tokens, default)
    if method == _LOCAL:
        return AccessMethod(method, tokens, unusable=_explain_local_path(pointer.hsoname))
    if method in _WITHOUT_URL:
        return AccessMethod(method, tokens, unusable=_NO_URL)
    try:
        if method == _CONTENTS:
            return AccessMethod(method, tokens, target=_find_contents(pointer, via))
        if method in _MAPPINGS:
            return AccessMethod(method, tokens, mapped_url=_map_url(method, pointer, tokens[_MIN_TOKENS:]))
    except InvalidUrl as error:
        return AccessMethod(method, tokens, unusable=error.message)
    return None


def _fill_defaults(tokens: tuple[bytes, ...], default: ObjectPointer) -> ObjectPointer:
    """Replace empty tokens by the defaults, but the version only together with the object's name."""
    _, host_type, host, hsoname_type, hsoname = tokens[:_MIN_TOKENS]
    return ObjectPointer(
        host_type or default.host_type,
        host or default.host,
        hsoname_type or default.hsoname_type,
        hsoname or default.hsoname,
        0 if hsoname else default.version,
    )


def _find_contents(pointer: ObjectPointer, via: RequestObject) -> RequestObject:
    """Return the object whose contents are requested, which is `via` if the pointer names it."""
    target = pointer.target(via)
    return via if target.identity == via.identity else target


def _map_url(method: bytes, pointer: ObjectPointer, arguments: tuple[bytes, ...]) -> MappedUrl:
    if pointer.host_type.upper() != INTERNET:
        raise InvalidUrl("bad-host", 0, f"a host of type {decode_text(pointer.host_type)!r}")
    name = AccessName(pointer.host, pointer.hsoname, arguments[0] if arguments else None)
    return _MAPPINGS[method](name)


def _explain_local_path(path: bytes) -> str:
    if not path.startswith(b"/"):
        return "not an absolute path: only the server can interpret it"
    return "a file of this machine, which a server must not name"


def find_first_url(methods: Iterable[AccessMethod]) -> AccessMethod | None:
    """Return the first method with a URL that the client can follow, or else the first service."""
    choices = [method for method in methods if method.mapped_url is not None]
    return next((method for method in choices if not method.is_session), choices[0] if choices else None)


def find_kind(method: AccessMethod | None) -> Kind:
    """Return the probable kind of an object with this access method."""
    return Kind.UNKNOWN if method is None or method.mapped_url is None else method.mapped_url.kind
