"""Tests of proxy tunnels against recordings of tinyproxy, Squid and Dante made with curl.

Each recording is received complete and byte by byte. The client sends less than curl: no User-Agent and no
Proxy-Connection to an HTTP proxy, no GSSAPI to a SOCKS5 proxy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from fixtures.recordings import FOLDER
from protocols import socks
from protocols.http import tunnel
from protocols.http.auth import HttpProxyAuth
from protocols.step import Dialogue, RandomBytes, Step
from resolver import AccessDenied, Credentials, LoginRequired, ResolveError, Unreachable
from resolver.testing import PeerOutput, Player, ScriptedPeer

_ACCESS = FOLDER / "access"
_PROXY = "http://127.0.0.1:3128"


@dataclass
class TunnelOutcome:
    """The outcome of a dialogue: its result or error class, the bytes sent and the bytes left unread."""

    result: object
    said: list[bytes]
    left: bytes


def _exchanges(name: str) -> list[tuple[str, bytes]]:
    record = json.loads((_ACCESS / f"{name}.json").read_text())
    return [(each["dir"], bytes.fromhex(each["hex"])) for each in record["exchanges"]]


class _Proxy(ScriptedPeer):
    """A proxy that answers each request complete or in pieces of `size`, then closes."""

    def __init__(self, answers: Iterable[bytes], size: int | None) -> None:
        self._answers = iter(answers)
        self._size = size
        self._pieces: list[bytes] = []

    def answer(self, step: Step) -> object:
        return b"\x05" * step.octets if isinstance(step, RandomBytes) else super().answer(step)

    def hear(self, octets: bytes) -> None:
        answer = next(self._answers, b"")
        width = self._size or len(answer) or 1
        self._pieces += [answer[start : start + width] for start in range(0, len(answer), width)]

    def speak(self) -> PeerOutput:
        return PeerOutput(self._pieces.pop(0) if self._pieces else b"")

    @property
    def unread(self) -> bytes:
        return b"".join(self._pieces)


def _play(dialogue: Dialogue[Any], answers: Iterable[bytes], size: int | None) -> TunnelOutcome:
    player = Player(dialogue, _Proxy(answers, size))
    try:
        player.advance()
    except ResolveError as error:
        return TunnelOutcome(type(error), player.sent, player.unread)
    return TunnelOutcome(player.result, player.sent, player.unread)


SQUID, TINY = Credentials(b"bob", b"se:cret"), Credentials(b"bob", b"sekret")

#: The recording, the client's credentials, and the outcome of each request in order.
CONNECT: list[tuple[str, Credentials | None, list[object]]] = [
    ("connect-tls-tinyproxy", None, [True]),
    ("connect-ipv6-tinyproxy", None, [True]),
    ("connect-407-tinyproxy", None, [LoginRequired]),
    ("connect-407-tinyproxy", TINY, [False]),
    ("connect-407-basic-tinyproxy", TINY, [True]),
    ("connect-407-digest-squid", None, [LoginRequired]),
    ("connect-407-digest-squid", SQUID, [False, True]),
    ("connect-denied-squid", None, [AccessDenied]),
    ("connect-denied-tinyproxy", None, [AccessDenied]),
    ("connect-noname-squid", None, [Unreachable]),
    ("connect-noname-tinyproxy", None, [Unreachable]),
    ("connect-refused-squid", None, [Unreachable]),
    ("connect-refused-tinyproxy", None, [Unreachable]),
    ("ftp-connect-1", None, [True]),
    ("ftp-connect-2", None, [True]),
    ("ftp-connect-squid-denied", None, [AccessDenied]),
    ("gopher-connect", None, [True]),
]


@pytest.mark.parametrize("size", [None, 1, 7])
@pytest.mark.parametrize(("name", "credentials", "outcomes"), CONNECT)
def test_http_tunnel_replays_recordings(
    name: str, credentials: Credentials | None, outcomes: list[object], size: int | None
) -> None:
    exchanges = _exchanges(name)
    asked = [octets for side, octets in exchanges if side == "client" and octets.startswith(b"CONNECT ")]
    login = HttpProxyAuth(_PROXY, credentials)
    for request, outcome in zip(asked, outcomes, strict=False):
        place = request.split(b" ")[1].decode()
        host, _, port = place.rpartition(":")
        answer = exchanges[exchanges.index(("client", request)) + 1][1]
        heard = _play(tunnel.open_tunnel(host.strip("[]"), int(port), login), [answer], size)
        assert heard.result == outcome
        assert heard.said[0].startswith(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n".encode())
        if outcome is True:
            assert heard.left == answer.partition(b"\r\n\r\n")[2]


def test_http_tunnel_leaves_bytes_after_the_response() -> None:
    answer = _exchanges("ftp-connect-1")[1][1]
    heard = _play(tunnel.open_tunnel("127.0.0.1", 18021, HttpProxyAuth(_PROXY, None)), [answer], None)
    assert heard.left == b"220 pyftpdlib 2.2.0 ready.\r\n"


DANTE = Credentials(b"socksbob", b"se:cret")

SOCKS: list[tuple[str, str, int, Credentials | None, object]] = [
    ("socks5-connect-ipv4", "127.0.0.1", 18480, None, None),
    ("socks5-connect-ipv6", "::1", 18480, None, None),
    ("socks5h-connect-name", "localhost", 18480, None, None),
    ("socks5h-noname", "no-such.invalid", 80, None, Unreachable),
    ("socks5-ftp-1", "localhost", 18021, None, None),
    ("socks5-ftp-2", "localhost", 18200, None, None),
    ("socks5-login", "localhost", 18480, DANTE, None),
    ("socks5-login-missing", "localhost", 18480, None, LoginRequired),
    ("socks5-login-wrong", "localhost", 18480, Credentials(b"socksbob", b"bad"), AccessDenied),
    ("socks5-refused-port", "localhost", 18998, None, Unreachable),
    ("socks5-ruleset", "127.0.0.1", 18999, None, AccessDenied),
    ("socks5-unreach", "240.0.0.1", 18480, None, Unreachable),
]


@pytest.mark.parametrize("size", [None, 1, 3])
@pytest.mark.parametrize(("name", "host", "port", "credentials", "outcome"), SOCKS)
def test_socks_tunnel_replays_recordings(
    name: str, host: str, port: int, credentials: Credentials | None, outcome: object, size: int | None
) -> None:
    exchanges = _exchanges(name)
    theirs = [octets for side, octets in exchanges if side == "client"]
    answers = [octets for side, octets in exchanges if side == "server"]
    dialogue = socks.open_tunnel(host, port, credentials, "socks5h://127.0.0.1:1080")
    heard = _play(dialogue, answers, size)
    assert heard.result == outcome
    assert heard.said[0] == (b"\x05\x01\x00" if credentials is None else b"\x05\x02\x00\x02")
    assert heard.said[1:] == theirs[1 : len(heard.said)]
    if outcome is None:
        reply = answers[len(heard.said) - 1]
        size_of_reply = {1: 10, 4: 22}[reply[3]]
        assert heard.left == reply[size_of_reply:]


def test_proxy_recordings_are_all_replayed() -> None:
    played = {name for name, *_ in CONNECT} | {name for name, *_ in SOCKS}
    there = {path.stem for path in _ACCESS.glob("*.json")}
    assert played <= there
    assert {name for name in there if "connect" in name or "socks" in name} == played
