"""Every error of ours leaves as one that httpx promises."""

from __future__ import annotations

import httpx
import pytest

from protocols import errors
from protocols.errors import ResolveError
from resolver.http_transport.faults import RequestRefused, translated


def every_class(root: type[ResolveError] = ResolveError) -> list[type[ResolveError]]:
    return [root, *(each for child in root.__subclasses__() for each in every_class(child))]


SPECIAL: dict[type[ResolveError], ResolveError] = {
    errors.InvalidUrl: errors.InvalidUrl("bad-host", 7, "no host"),
    errors.UnsupportedScheme: errors.UnsupportedScheme("x", "no handler"),
    errors.Refused: errors.Refused("S04", "no port", flag="--allow-port 25", position=3, url="http://h/"),
    errors.LimitExceeded: errors.LimitExceeded("body", "too much"),
    errors.Truncated: errors.Truncated("too little", received=1),
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
    assert str(theirs) == (str(error) if ours is errors.Refused else error.message)


@pytest.mark.parametrize(
    ("error", "theirs"),
    [
        (errors.TimedOut("x"), httpx.PoolTimeout),
        (errors.Unreachable("x"), httpx.ConnectError),
        (errors.TlsError("x"), httpx.ConnectError),
        (errors.Disconnected("x"), httpx.ReadError),
        (errors.ProtocolError("x"), httpx.RemoteProtocolError),
        (errors.LimitExceeded("line", "x"), httpx.RemoteProtocolError),
        (errors.Truncated("x", received=1), httpx.RemoteProtocolError),
        (errors.InvalidUrl("empty", 0, "x"), httpx.UnsupportedProtocol),
        (errors.UnsupportedScheme("x", "x"), httpx.UnsupportedProtocol),
        (errors.NotConfigured("x"), httpx.LocalProtocolError),
        (errors.Refused("S04", "x"), RequestRefused),
        (errors.Declined("x"), httpx.TransportError),
    ],
)
def test_which_one(error: ResolveError, theirs: type[Exception]) -> None:
    assert type(translated(error, httpx.PoolTimeout)) is theirs


def test_a_refusal_is_both() -> None:
    refused = RequestRefused(errors.Refused("S10", "S10: no", flag="f", position=3, url="http://h/"))
    assert isinstance(refused, errors.Refused)
    assert isinstance(refused, httpx.TransportError)
    assert (refused.rule, refused.flag, refused.position, refused.url) == ("S10", "f", 3, "http://h/")
    assert (refused.exit_code, refused.message, str(refused)) == (15, "S10: no", "http://h/: S10: no")
    refused.request = httpx.Request("GET", "http://h/")
    assert refused.request.method == "GET"
