"""A scheme as a row of the contract: a server of it, URLs, and what they must give.

`{at}` in a URL is the address and port of the row's server, `{folder}` the path of a folder here.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

import trio

from protocols.contract import Kind, Options
from protocols.errors import Declined, NotFound

#: A password that is in no sentence.
SECRET = "xyzzy"


class MockServer(Protocol):
    """A mock server that is running. `heard` are the octets of each connection."""

    port: int

    @property
    def heard(self) -> Sequence[bytes | bytearray]: ...


Start: TypeAlias = Callable[[trio.Nursery, ssl.SSLContext], Awaitable[MockServer]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row. `document` has `content`; `listing` has entries of these `names`, whose URLs can be fetched
    but for those in `barred`; those in `asking` have to be told something first. `missing` raises `error`.
    `login` is a URL with a password, which is `secret` and, as it goes over the wire, `spoken`.

    `later` are octets that a plan cannot know: as they are shown, and as they are sent. `farewell` is said
    when the session is closed. Where the server leads the dialogue another way than a willing one would, the
    URL is in `otherwise`. `furnish` puts the files there that are in `{folder}`.

    `by_setting`: a URL names no server, and a setting does. `drawn`: numbers of it are drawn at random, and
    no event has the octets of a plan. `any_port`: the policy has nothing against a port that is not the
    scheme's. `saved` is the name that `document` is saved under, where its URL gives one."""

    name: str
    start: Start | None = None
    tls: bool = False
    document: str
    content: bytes
    kind: Kind = Kind.DOCUMENT
    listing: str | None = None
    listing_kind: Kind = Kind.DIRECTORY
    names: tuple[str, ...] = ()
    barred: frozenset[str] = frozenset()
    asking: frozenset[str] = frozenset()
    missing: str | None = None
    error: type[Declined] = NotFound
    login: str | None = None
    secret: str = SECRET
    spoken: bytes = SECRET.encode()
    later: tuple[tuple[bytes, bytes], ...] = ()
    farewell: bytes = b""
    otherwise: frozenset[str] = frozenset()
    options: Options = field(default_factory=Options)
    furnish: Callable[[Path], None] | None = None
    by_setting: bool = False
    drawn: bool = False
    any_port: bool = False
    saved: str | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def scheme(self) -> str:
        return self.document.partition(":")[0]
