"""What a request is about: an object of a server, by its names, and what led there.

A URL names one (protocol page 1); so does a link, a FORWARDED line or an access method (8.5). Each is
also a URL, by which it is judged before anything is sent. The name is opaque: nothing is normalised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from protocols.errors import Declined
from protocols.prospero.place import Place
from protocols.prospero.url import Field, ProsperoUrl, build

DEFAULT_PORT = 1525
USUAL_TYPE = b"ASCII"

_BLANKS = re.compile(rb"[ \t]+")
_VERSION = re.compile(rb"[0-9]{1,10}")
_VERSION_NAMES = (b"OBJECT-VERSION", b"VERSION")


class Target(NamedTuple):
    """`version` 0 is the current one. `selections` are SELECT lines without their keyword. `via` is the
    target whose answer named this one, None for that of the URL asked."""

    host: str
    port: int
    hsoname: bytes
    hsoname_type: bytes = USUAL_TYPE
    version: int = 0
    selections: tuple[tuple[bytes, ...], ...] = ()
    via: Target | None = None

    @property
    def place(self) -> Place:
        """Where it is, as a host token would say it."""
        return Place(self.host, None if self.port == DEFAULT_PORT else self.port)

    @property
    def identity(self) -> tuple[str, int, bytes]:
        """Two targets with the same one are one object."""
        return self.host, self.port, self.hsoname

    @property
    def url(self) -> str:
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
        return build(url).replace("'", "%27")  # 8.5 has quotes encoded, although any URL may hold them


def target_of(url: ProsperoUrl) -> Target:
    """What a URL asks for, by its name and fields (1.1).

    Raises `Declined` for a host type that is not the Internet's, and for a version that is no number:
    nothing can be asked then.
    """
    fields = [(name.upper(), value) for name, value in url.fields if value is not None]
    host_type = _first(fields, (b"HOST-TYPE",))
    if host_type is not None and host_type.upper() != b"INTERNET-D":
        raise Declined(f"a host of type {host_type!r} cannot be reached", code="HOST-TYPE")
    return Target(
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
        raise Declined(f"the object version {value!r} is no number", code="OBJECT-VERSION")
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
