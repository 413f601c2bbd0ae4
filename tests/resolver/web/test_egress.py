"""The egress proxy against hostile clients: its answers, its log, and the bytes that reach the target."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from fixtures.ports import serve_connections
from resolver import Policy, Unreachable
from resolver.network.stream import RESET
from resolver.transfer.settings import Settings
from resolver.web.egress import ProxyDecision, ProxySettings, run_proxy
from tests.fresh import run_alone
from tests.hang import HANG, NEVER

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\n\r\nhello"


def test_egress_proxy_needs_no_extra() -> None:
    modules = run_alone("import resolver.cli.proxy, resolver.web.egress, sys; print(*sys.modules)").split()
    assert "resolver.web.egress" in modules
    assert {"starlette", "hypercorn", "jinja2", "socksio"}.isdisjoint(modules)


class Site:
    """A target that records all that it receives, a proxy in front of it, and the proxy's decisions."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.connections = self.port = self.proxy = 0
        self.decisions: list[ProxyDecision] = []
        self.names: list[str] = []
        self.answers: dict[str, list[list[str]]] = {}
        self.answer, self.closes, self.resets = HELLO, False, False
        self.begun, self.was_reset = trio.Event(), trio.Event()

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        try:
            await self._serve(stream)
        except trio.BrokenResourceError:
            self.was_reset.set()

    async def _serve(self, stream: trio.SocketStream) -> None:
        sent = False
        async for octets in stream:
            self.received += octets
            self.begun.set()
            if b"\r\n\r\n" in self.received and not sent:
                sent = True
                await stream.send_all(self.answer)
                if self.resets:
                    stream.setsockopt(*RESET)
                if self.closes:
                    return await stream.aclose()
        await stream.send_all(b"the end")
        await stream.aclose()

    async def look_up(self, host: str, port: int) -> list[str]:
        self.names.append(host)
        answers = self.answers.get(host)
        if answers is None:
            raise Unreachable(f"no address for {host}", retryable=False)
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def insert_port(self, octets: bytes) -> bytes:
        """Replace the word PORT by the port of the target, in binary for SOCKS5."""
        is_socks = octets.startswith(b"\x05")
        return octets.replace(b"PORT", self.port.to_bytes(2) if is_socks else str(self.port).encode())

    async def talk(self, octets: bytes) -> bytes:
        """Send bytes and the end, and return all that the proxy answers."""
        with trio.fail_after(HANG):
            async with await trio.open_tcp_stream("127.0.0.1", self.proxy) as stream:
                await stream.send_all(self.insert_port(octets))
                await stream.send_eof()
                return b"".join([part async for part in stream])


@asynccontextmanager
async def running(head: float = NEVER, idle: float = NEVER) -> AsyncIterator[Site]:
    site = Site()

    async def report(decision: ProxyDecision) -> None:
        site.decisions.append(decision)

    async with trio.open_nursery() as nursery:
        site.port = await serve_connections(nursery, site.serve)
        policy = Policy(
            name="untrusted",
            allow_port=frozenset({site.port}),
            allow_address=frozenset({"127.0.0.1"}),
        )
        options = ProxySettings(
            Settings(policy=policy),
            report,
            resolve=site.look_up,
            head_timeout=head,
            idle_timeout=idle,
        )
        async with run_proxy(options) as site.proxy:
            yield site
        nursery.cancel_scope.cancel()


def connect(place: bytes) -> bytes:
    return b"CONNECT " + place + b" HTTP/1.1\r\nHost: " + place + b"\r\n\r\nsecret"


def socks(address: bytes, port: int) -> bytes:
    return b"\x05\x01\x00\x05\x01\x00" + address + port.to_bytes(2) + b"secret"


#: The bytes from a client, and the rule that refuses the target.
REFUSED = {
    "private": (connect(b"10.0.0.1:443"), "S08"),
    "loopback": (connect(b"127.0.0.2:443"), "S08"),
    "metadata": (connect(b"169.254.169.254:80"), "S08"),
    "mapped": (connect(b"[::ffff:10.0.0.1]:443"), "S08"),
    "NAT64": (connect(b"[64:ff9b::a00:1]:443"), "S08"),
    "unique local": (connect(b"[fd00::1]:443"), "S08"),
    "link-local": (connect(b"[fe80::1]:443"), "S08"),
    "unspecified": (connect(b"0.0.0.0:443"), "S08"),
    "a name that leads inside": (connect(b"inside.example:443"), "S08"),
    "SMTP": (connect(b"127.0.0.1:25"), "S04"),
    "SSH": (connect(b"127.0.0.1:22"), "S04"),
    "Redis": (connect(b"127.0.0.1:6379"), "S04"),
    "absolute form": (b"GET http://10.0.0.1/ HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", "S08"),
    "absolute form, port": (b"GET http://127.0.0.1:25/ HTTP/1.1\r\nHost: 127.0.0.1:25\r\n\r\n", "S04"),
    "SOCKS5, IPv4": (socks(b"\x01\x0a\x00\x00\x01", 443), "S08"),
    "SOCKS5, IPv6": (socks(b"\x04" + bytes(15) + b"\x01", 443), "S08"),
    "SOCKS5, mapped": (socks(b"\x04" + bytes(10) + b"\xff\xff\x0a\x00\x00\x01", 443), "S08"),
    "SOCKS5, name": (socks(b"\x03\x0einside.example", 443), "S08"),
    "SOCKS5, port": (socks(b"\x01\x7f\x00\x00\x01", 25), "S04"),
}


@pytest.mark.parametrize(("sent", "rule"), REFUSED.values(), ids=REFUSED)
async def test_egress_refused_target_gets_no_connection(sent: bytes, rule: str) -> None:
    async with running() as site:
        site.answers["inside.example"] = [["10.0.0.1", "127.0.0.9"]]
        answer = await site.talk(sent)
    if sent.startswith(b"\x05"):
        assert answer == b"\x05\x00" + b"\x05\x02\x00\x01" + bytes(6)
    else:
        assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
        assert rule.encode() + b": " in answer
    assert [(decision.action, decision.rule, decision.address) for decision in site.decisions] == [
        ("refused", rule, None)
    ]
    assert site.connections == 0
    assert site.received == b""


_SECRETS = (b"open-sesame", b"t0ken", b"k3y-of-the-api")
#: Requests with a secret in the user info, in a query or in a header field.
SECRETLY = {
    "refused": b"GET http://alice:open-sesame@127.0.0.1:25/?token=t0ken HTTP/1.1\r\nHost: 127.0.0.1:25\r\n",
    "failed": b"GET http://127.0.0.1:PORT/?token=t0ken HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n",
    "another host": b"GET http://127.0.0.1:PORT/?token=t0ken HTTP/1.1\r\nHost: open-sesame\r\n",
    "not a URL": b"GET http://alice:open-sesame@h:port/?token=t0ken HTTP/1.1\r\nHost: h\r\n",
}


@pytest.mark.parametrize("sent", SECRETLY.values(), ids=SECRETLY)
async def test_egress_decisions_have_no_secret(sent: bytes) -> None:
    async with running() as site:
        fields = b"X-Api-Key: k3y-of-the-api\r\nProxy-Authorization: Basic open-sesame\r\n\r\n"
        answer = await site.talk(sent + fields)
    assert site.decisions
    shown = answer + repr(site.decisions).encode()
    assert [secret for secret in _SECRETS if secret in shown] == []


INVALID = {
    "origin form": b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
    "bare LF": b"GET http://127.0.0.1:PORT/ HTTP/1.1\nHost: 127.0.0.1:PORT\n\n",
    "both lengths": b"POST http://127.0.0.1:PORT/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n"
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "obs-fold": b"GET http://127.0.0.1:PORT/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nA: b\r\n c\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "SOCKS4": b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00",
    "scoped": b"CONNECT [fe80::1%lo]:443 HTTP/1.1\r\nHost: [fe80::1%lo]:443\r\n\r\n",
    "number": b"CONNECT 2130706433:443 HTTP/1.1\r\nHost: 2130706433:443\r\n\r\n",
}


@pytest.mark.parametrize("sent", INVALID.values(), ids=INVALID)
async def test_egress_invalid_head_is_answered_and_not_forwarded(sent: bytes) -> None:
    async with running() as site:
        answer = await site.talk(sent)
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 "))
    assert [decision.action in ("invalid", "refused") for decision in site.decisions] == [True]
    assert site.connections == 0
    assert site.received == b""


async def test_egress_forwards_host_of_target() -> None:
    async with running() as site:
        await site.talk(b"GET http://127.0.0.1:PORT/ HTTP/1.1\r\nHost: other\r\n\r\n")
    assert b"host: 127.0.0.1:" in site.received.lower()
    assert b"other" not in site.received


async def test_egress_large_head_is_answered_with_431() -> None:
    async with running() as site:
        answer = await site.talk(b"GET http://127.0.0.1:PORT/ HTTP/1.1\r\nA: " + b"b" * 40_000)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert site.connections == 0


async def test_egress_rebound_name_is_checked_for_each_connection() -> None:
    async with running() as site:
        site.answers["h.example"] = [["10.0.0.1"]]
        answer = await site.talk(b"CONNECT h.example:PORT HTTP/1.1\r\nHost: h.example:PORT\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 403 ")
        site.answers["rebound.example"] = [["127.0.0.1"], ["10.0.0.1"]]
        answer = await site.talk(b"CONNECT rebound.example:PORT HTTP/1.1\r\nHost: rebound.example\r\n\r\nhi")
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\nthe end"
    assert site.decisions[-1].address == "127.0.0.1"
    assert site.names.count("rebound.example") == 1  # the checked address is the connected one
    assert site.received == b"hi"


async def test_egress_defect_ends_one_connection() -> None:
    async with running() as site:
        site.answers["inside.example"] = []  # the name server of the test has no addresses: IndexError
        assert await site.talk(connect(b"inside.example:%d" % site.port)) == b""
        await site.talk(connect(b"127.0.0.1:%d" % site.port))
    assert [(decision.action, decision.reason) for decision in site.decisions] == [
        ("failed", "internal error: IndexError"),
        ("allowed", None),
    ]


async def test_egress_forwards_one_request_without_proxy_fields() -> None:
    first = (
        b"GET http://127.0.0.1:PORT/a?b HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n"
        b"Proxy-Authorization: Basic c2Vj\r\nConnection: X-Mine\r\nX-Mine: 1\r\n\r\n"
    )
    async with running() as site:
        answer = await site.talk(first + b"GET http://10.0.0.1/ HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n")
    assert (
        site.received == b"GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % site.port
    )
    assert answer.endswith(b"\r\n\r\nhello")
    assert b"Keep-Alive" not in answer
    assert [decision.action for decision in site.decisions] == ["allowed"]


async def test_egress_body_is_framed_again() -> None:
    sent = (
        b"POST http://127.0.0.1:PORT/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2;x=y\r\nhi\r\n0\r\nA: b\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"
    )
    async with running() as site:
        answer = await site.talk(sent)
    assert answer.startswith(b"HTTP/1.1 200 ")
    head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\ntransfer-encoding: chunked\r\nConnection: close\r\n\r\n"
    body = b"2\r\nhi\r\n0\r\n\r\n"
    assert (head % site.port + body).lower().startswith(bytes(site.received).lower())
    assert b"smuggled" not in site.received


async def test_egress_early_response_ends_an_incomplete_request() -> None:
    async with running() as site, await trio.open_tcp_stream("127.0.0.1", site.proxy) as stream:
        place = b"127.0.0.1:%d" % site.port
        await stream.send_all(b"POST http://" + place + b"/ HTTP/1.1\r\nHost: " + place)
        await stream.send_all(b"\r\nContent-Length: 100\r\n\r\npart")
        with trio.fail_after(HANG):
            answer = b"".join([part async for part in stream])
    assert answer.endswith(b"\r\n\r\nhello")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"not HTTP/1.1\r\n\r\n",
    ],
)
async def test_egress_invalid_response_is_answered_with_502(answer: bytes) -> None:
    async with running() as site:
        site.answer = answer
        reply = await site.talk(b"GET http://127.0.0.1:PORT/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert [decision.action for decision in site.decisions] == ["allowed", "failed"]


async def test_egress_relays_response_of_target_that_closes_during_the_request() -> None:
    """A later write to the target fails, before or after the proxy receives the response."""
    head = b"POST http://127.0.0.1:PORT/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 300000\r\n\r\n"
    async with running() as site:
        site.closes = True
        answers = [await site.talk(head + bytes(300_000)) for _ in range(20)]
    assert {answer[-5:] for answer in answers} == {b"hello"}


async def test_egress_tunnel_is_half_closed() -> None:
    """The target answers after the end of the client's data, and the client still receives it."""
    async with running() as site:
        answer = await site.talk(connect(b"127.0.0.1:PORT"))
        tunnel = await site.talk(socks(b"\x01\x7f\x00\x00\x01", site.port))
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\nthe end"
    assert tunnel == b"\x05\x00" + b"\x05\x00\x00\x01" + bytes(6) + b"the end"
    assert site.received == b"secretsecret"


async def test_egress_slow_head_is_answered_with_408() -> None:
    async with running(head=0.01) as site, await trio.open_tcp_stream("127.0.0.1", site.proxy) as stream:
        await stream.send_all(b"GET http://")
        with trio.fail_after(HANG):
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 408 ")
    assert [decision.action for decision in site.decisions] == ["invalid"]


async def test_egress_idle_tunnel_is_closed() -> None:
    async with running(idle=0.01) as site, await trio.open_tcp_stream("127.0.0.1", site.proxy) as stream:
        await stream.send_all(connect(b"127.0.0.1:%d" % site.port))
        with trio.fail_after(HANG):
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")
            with pytest.raises(trio.BrokenResourceError):
                await stream.receive_some()
            await site.was_reset.wait()


#: Requests whose response ends with the connection: FIN would be the end of the data.
UNFRAMED = {
    "HTTP/1.0": b"GET http://127.0.0.1:PORT/ HTTP/1.0\r\n\r\n",
    "CONNECT": b"CONNECT 127.0.0.1:PORT HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.0\r\n\r\n",
    "SOCKS5": b"\x05\x01\x00\x05\x01\x00\x03\x09localhostPORTGET / HTTP/1.0\r\n\r\n",
}


@pytest.mark.parametrize("sent", UNFRAMED.values(), ids=UNFRAMED)
async def test_egress_truncated_response_resets_the_client(sent: bytes) -> None:
    async with running() as site:
        site.answers["localhost"] = [["127.0.0.1"]]
        site.closes = site.resets = True
        site.answer = b"HTTP/1.0 200 OK\r\n\r\nhalf"
        with pytest.raises(trio.BrokenResourceError):
            await site.talk(sent)
    assert site.connections == 1


@pytest.mark.parametrize("sent", UNFRAMED.values(), ids=UNFRAMED)
async def test_egress_truncated_request_resets_the_target(sent: bytes) -> None:
    with trio.fail_after(HANG):
        async with running() as site:
            site.answers["localhost"], site.answer = [["127.0.0.1"]], b""
            body = sent.replace(b".0\r\n\r\n", b".0\r\nContent-Length: 9\r\n\r\nhalf")
            async with await trio.open_tcp_stream("127.0.0.1", site.proxy) as stream:
                await stream.send_all(site.insert_port(body))
                await site.begun.wait()
                stream.setsockopt(*RESET)
            await site.was_reset.wait()


async def test_egress_sends_no_early_hints_to_http_1_0() -> None:
    async with running() as site:
        site.answer = b"HTTP/1.1 103 Early Hints\r\n\r\n" + HELLO
        answer = await site.talk(UNFRAMED["HTTP/1.0"])
    assert answer.startswith(b"HTTP/1.1 200 ")


CLIENTS = {
    "curl, CONNECT": ("curl", "-sSp", "--noproxy", "", "-x", "http://PROXY", "http://TARGET/"),
    "curl, http": ("curl", "-sS", "--noproxy", "", "-x", "http://PROXY", "http://TARGET/"),
    "curl, SOCKS5": ("curl", "-sS", "--noproxy", "", "-x", "socks5h://PROXY", "http://TARGET/"),
    "Node.js": (
        "node",
        "-e",
        "const [host, port] = 'PROXY'.split(':'); const head = {Host: 'TARGET'}; "
        "const given = {host, port, path: 'http://TARGET/', headers: head}; "
        "require('http').get(given, r => r.pipe(process.stdout))",
    ),
    "wget": ("wget", "-qO-", "-e", "use_proxy=yes", "-e", "http_proxy=http://PROXY", "http://TARGET/"),
    "Python": (
        sys.executable,
        "-c",
        "import urllib.request as u; h = u.ProxyHandler({'http': 'http://PROXY'}); "
        "print(u.build_opener(h).open('http://TARGET/').read().decode(), end='')",
    ),
}


@pytest.mark.parametrize("words", CLIENTS.values(), ids=CLIENTS)
async def test_egress_serves_real_clients(words: tuple[str, ...]) -> None:
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    async with running() as site:
        places = {"PROXY": f"127.0.0.1:{site.proxy}", "TARGET": f"127.0.0.1:{site.port}"}
        command = [
            decision.replace("PROXY", places["PROXY"]).replace("TARGET", places["TARGET"])
            for decision in words
        ]
        env = {"PATH": "/usr/bin:/bin"}
        with trio.fail_after(HANG):
            completed = await trio.run_process(
                command, capture_stdout=True, stdin=subprocess.DEVNULL, env=env
            )
    assert completed.stdout == b"hello"
    assert [decision.action for decision in site.decisions] == ["allowed"]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_egress_serves_chromium(scheme: str, tmp_path: Path) -> None:
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    async with running() as site:
        place = f"http://127.0.0.1:{site.port}/"
        command = [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"),
            *(f"--proxy-server={scheme}://127.0.0.1:{site.proxy}", "--proxy-bypass-list=<-loopback>"),
            *("--dump-dom", place),
        ]
        with trio.fail_after(HANG):
            completed = await trio.run_process(command, capture_stdout=True, capture_stderr=True)
    assert b"hello" in completed.stdout
    allowed = {(decision.host, decision.port) for decision in site.decisions if decision.action == "allowed"}
    assert allowed == {("127.0.0.1", site.port)}
