"""LINK lines (protocol page 7.1): a name in a directory, and the object it stands for."""

from __future__ import annotations

from protocols.errors import InvalidUrl
from protocols.prospero.attribute import Attribute
from protocols.prospero.target import DEFAULT_PORT, RequestObject, ServerAddress, parse_place, read_version
from protocols.prospero.token import read_text
from protocols.values import NamedTuple

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
