"""What a request is about: an object of a server, by its names, and what led there.

A URL names one (protocol page 1); so does a link, a FORWARDED line or an access method (8.5). Each is
also a URL, by which it is judged before anything is sent. The name is opaque: nothing is normalised.

A host inside a message is a name or a dotted address, with a decimal port in parentheses straight behind it;
no port means the default of whatever the host is named for (1.2). Names are compared without regard to case,
and servers print them in capitals: here they are lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from protocols.authority import build_host, build_port
from protocols.errors import Declined, InvalidUrl
from protocols.location import BuiltUrl
from protocols.prospero.token import read_text
from protocols.prospero.url import Field, ProsperoUrl, build
from protocols.values import NamedTuple

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
    host_type = _first(fields, (b"HOST-TYPE",))
    if host_type is not None and host_type.upper() != b"INTERNET-D":
        raise Declined(f"a host of type {read_text(host_type)!r} cannot be reached", code="HOST-TYPE")
    return RequestObject(
        host=url.host,
        port=url.effective_port,
        hsoname=url.hsoname,
        hsoname_type=_first(fields, (b"HSONAME-TYPE",)) or USUAL_TYPE,
        version=_version(_first(fields, _VERSION_NAMES)),
        selections=tuple(_selections(fields)),
    )


def _first(fields: list[tuple[bytes, bytes]], names: tuple[bytes, ...]) -> bytes | None:
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
