"""How an object can be had: the values of ACCESS-METHOD, in the server's order of preference.

A value is at least five tokens: a method, and four that name a place and an object there; an empty one
of these stands for the corresponding token of the link, or of the object asked for. What cannot be used
says why; what is on the client's own machine, by the server's word alone, is never followed (rule S10).
Section 8 of the protocol page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from protocols.errors import InvalidUrl
from protocols.location import JsonValue, Kind
from protocols.prospero.attribute import Attribute, values_of
from protocols.prospero.link import INTERNET, ObjectPointer
from protocols.prospero.mapping import (
    AccessName,
    MappedUrl,
    map_anonymous_ftp,
    map_ftp,
    map_gopher,
    map_telnet,
    map_wais,
)
from protocols.prospero.target import RequestObject
from protocols.prospero.token import read_text
from protocols.values import NamedTuple

_FEWEST = 5
_NO_URL = "no URL can say this"

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
    """One value. `lead` is the URL that it comes to, `target` what a Prospero server gives the contents
    of; with neither, `unusable` says why. `tokens` are the value as it came."""

    name: bytes
    tokens: tuple[bytes, ...]
    lead: MappedUrl | None = None
    target: RequestObject | None = None
    unusable: str = ""

    @property
    def url(self) -> str | None:
        return None if self.lead is None else self.lead.url

    @property
    def is_session(self) -> bool:
        """A service to be announced to a person, which nothing follows."""
        return self.name == b"TELNET" and self.lead is not None

    @property
    def is_local(self) -> bool:
        """Is it a file of this machine, by the server's word?"""
        return self.name == _LOCAL

    @property
    def described(self) -> str:
        """The value for a person, and why it cannot be used."""
        said = " ".join(read_text(token) or "''" for token in self.tokens)
        return f"{said} ({self.unusable})" if self.unusable else said

    def as_json(self) -> dict[str, JsonValue]:
        return {
            "method": read_text(self.name),
            "url": self.url,
            "tokens": [token.decode("latin-1") for token in self.tokens],
            "unusable": self.unusable or None,
        }


def access_methods_of(
    attributes: Iterable[Attribute], default: ObjectPointer, via: RequestObject
) -> list[AccessMethod]:
    """The ways to an object, best first. Values that are too short, and unknown methods, are left out.

    `default` fills the gaps; `via` is the target whose answer had the attributes.
    """
    methods = (_access_method(tokens, default, via) for tokens in values_of(attributes, b"ACCESS-METHOD"))
    return [method for method in methods if method is not None]


def _access_method(
    tokens: tuple[bytes, ...], default: ObjectPointer, via: RequestObject
) -> AccessMethod | None:
    if len(tokens) < _FEWEST:
        return None
    method = tokens[0]
    pointer = _fill(tokens, default)
    if method == _LOCAL:
        return AccessMethod(method, tokens, unusable=_local(pointer.hsoname))
    if method in _WITHOUT_URL:
        return AccessMethod(method, tokens, unusable=_NO_URL)
    try:
        if method == _CONTENTS:
            return AccessMethod(method, tokens, target=_contents_of(pointer, via))
        if method in _MAPPINGS:
            return AccessMethod(method, tokens, lead=_lead(method, pointer, tokens[_FEWEST:]))
    except InvalidUrl as error:
        return AccessMethod(method, tokens, unusable=error.message)
    return None


def _fill(tokens: tuple[bytes, ...], default: ObjectPointer) -> ObjectPointer:
    """Each of the four has a default of its own; the version goes with the name."""
    _, host_type, host, hsoname_type, hsoname = tokens[:_FEWEST]
    return ObjectPointer(
        host_type or default.host_type,
        host or default.host,
        hsoname_type or default.hsoname_type,
        hsoname or default.hsoname,
        0 if hsoname else default.version,
    )


def _contents_of(pointer: ObjectPointer, via: RequestObject) -> RequestObject:
    """What to ask for contents: the object asked for itself, if it is that one."""
    target = pointer.target(via)
    return via if target.identity == via.identity else target


def _lead(method: bytes, pointer: ObjectPointer, arguments: tuple[bytes, ...]) -> MappedUrl:
    if pointer.host_type.upper() != INTERNET:
        raise InvalidUrl("bad-host", 0, f"a host of type {read_text(pointer.host_type)!r}")
    named = AccessName(pointer.host, pointer.hsoname, arguments[0] if arguments else None)
    return _MAPPINGS[method](named)


def _local(path: bytes) -> str:
    if not path.startswith(b"/"):
        return "no absolute path: it means something to the server alone"
    return "a file of this machine, which no server may name"


def first_url(methods: Iterable[AccessMethod]) -> AccessMethod | None:
    """The first way that has a URL: one to follow if there is any, else a session."""
    leading = [method for method in methods if method.lead is not None]
    return next((method for method in leading if not method.is_session), leading[0] if leading else None)


def kind_of(method: AccessMethod | None) -> Kind:
    """What an object seems to be that is had this way."""
    return Kind.UNKNOWN if method is None or method.lead is None else method.lead.kind
