"""Every error of ours leaves as one that httpx promises."""

from __future__ import annotations

import httpx
import pytest

import resolver
from resolver import ResolveError
from resolver.adapters.httpx_transport import RequestRefused, translated


def every_class(root: type[ResolveError] = ResolveError) -> list[type[ResolveError]]:
    return [root, *(each for child in root.__subclasses__() for each in every_class(child))]


SPECIAL: dict[type[ResolveError], ResolveError] = {
    resolver.InvalidUrl: resolver.InvalidUrl("bad-host", 7, "no host"),
    resolver.UnsupportedScheme: resolver.UnsupportedScheme("x", "no handler"),
    resolver.Refused: resolver.Refused("S04", "no port", flag="--allow-port 25", position=3, url="http://h/"),
    resolver.LimitExceeded: resolver.LimitExceeded("body", "too much"),
    resolver.Truncated: resolver.Truncated("too little", received=1),
}


@pytest.mark.parametrize(
    "ours",
    [each for each in every_class() if each.__module__ == "protocols.errors"],
    ids=lambda each: each.__name__,
)
def test_every_error_is_one_of_httpx(ours: type[ResolveError]) -> None:
    error = SPECIAL.get(ours) or ours("some words")
    theirs = translated(error, httpx.ReadTimeout)
    assert isinstance(theirs, httpx.TransportError)
    assert str(theirs) == (str(error) if ours is resolver.Refused else error.message)


@pytest.mark.parametrize(
    ("error", "theirs"),
    [
        (resolver.TimedOut("x"), httpx.PoolTimeout),
        (resolver.Unreachable("x"), httpx.ConnectError),
        (resolver.TlsError("x"), httpx.ConnectError),
        (resolver.Disconnected("x"), httpx.ReadError),
        (resolver.ProtocolError("x"), httpx.RemoteProtocolError),
        (resolver.LimitExceeded("line", "x"), httpx.RemoteProtocolError),
        (resolver.Truncated("x", received=1), httpx.RemoteProtocolError),
        (resolver.InvalidUrl("empty", 0, "x"), httpx.UnsupportedProtocol),
        (resolver.UnsupportedScheme("x", "x"), httpx.UnsupportedProtocol),
        (resolver.NotConfigured("x"), httpx.LocalProtocolError),
        (resolver.Refused("S04", "x"), RequestRefused),
        (resolver.Declined("x"), httpx.TransportError),
    ],
)
def test_which_one(error: ResolveError, theirs: type[Exception]) -> None:
    assert type(translated(error, httpx.PoolTimeout)) is theirs


def test_a_refusal_is_both() -> None:
    refused = RequestRefused(resolver.Refused("S10", "S10: no", flag="f", position=3, url="http://h/"))
    assert isinstance(refused, resolver.Refused)
    assert isinstance(refused, httpx.TransportError)
    assert (refused.rule, refused.flag, refused.position, refused.url) == ("S10", "f", 3, "http://h/")
    assert (refused.exit_code, refused.message, str(refused)) == (15, "S10: no", "http://h/: S10: no")
    refused.request = httpx.Request("GET", "http://h/")
    assert refused.request.method == "GET"
