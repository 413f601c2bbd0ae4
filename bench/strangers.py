"""A comparison of several clients with hostile URLs (SSRF, decompression bombs).

`python -m bench.strangers` prints the table of `docs/how-to/untrusted-urls.md`. All packets stay on this
machine: 127.0.0.2 represents a public server, which clients may reach. 127.0.0.1 represents an internal
server, which clients must not reach. Host names are resolved by a fixed table instead of DNS. The other
clients run with their default settings, and follow redirects.
"""

from __future__ import annotations

import asyncio
import gzip
import importlib.metadata
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp
import httpx
import requests
import trio

import resolver
from resolver.adapters.guard.aiohttp import GuardedConnector
from resolver.adapters.guard.requests import GuardedAdapter
from tests.hang import HANG
from tests.resolver.adapters.guard.network import POLICY, PUBLIC, REDIRECTS, Body, Names, Server, servers

#: The content of a local file that an untrusted URL must not be able to read.
SECRET = b"a secret of this machine"
#: The maximum memory in bytes that a client may use for a compressed body of some hundred bytes
#: (decompression bomb).
MAX_BYTES = 1_048_576


class Case(NamedTuple):
    """A hostile URL and its description."""

    title: str
    url: str


CASES = (
    Case("an address inside", "http://127.0.0.1:{port}/"),
    Case("`localhost`", "http://localhost:{port}/"),
    Case("a name that leads inside", "http://inside.example:{port}/"),
    Case("the address as one number", "http://2130706433:{port}/"),
    Case("in hexadecimal", "http://0x7f000001:{port}/"),
    Case("in octal", "http://0177.0.0.1:{port}/"),
    Case("shortened", "http://127.1:{port}/"),
    Case("inside of IPv6", "http://[::ffff:127.0.0.1]:{port}/"),
    Case("`0.0.0.0`", "http://0.0.0.0:{port}/"),
    Case("with ideographic stops", "http://127。0。0。1:{port}/"),
    Case("a port beyond 65535", "http://127.0.0.1:{wrapped}/"),
    Case("two hosts, one to each reader", "http://" + PUBLIC + ":{port}\\@127.0.0.1:{port}/"),
    Case("a redirect inside", "http://" + PUBLIC + ":{port}/in"),
    Case("a redirect, as one number", "http://" + PUBLIC + ":{port}/decimal"),
    Case("a redirect to a name inside", "http://" + PUBLIC + ":{port}/name"),
    Case("a redirect to a file", "http://" + PUBLIC + ":{port}/file"),
    Case("a few octets that become 64 MiB", "http://" + PUBLIC + ":{port}/bomb"),
)
BOMB = gzip.compress(gzip.compress(bytes(67_108_864), mtime=0), mtime=0)

#: A function that returns the content of a URL; any exception counts as a refusal.
Client = Callable[[str], bytes]


def by_urllib(url: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=HANG) as response:
        return bytes(response.read())


def by_requests(url: str) -> bytes:
    with requests.Session() as session:
        session.trust_env = False
        return bytes(session.get(url, timeout=HANG).content)


def by_guarded_requests(url: str) -> bytes:
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", GuardedAdapter(POLICY))
        return bytes(session.get(url, timeout=HANG).content)


def by_httpx(url: str) -> bytes:
    with httpx.Client(trust_env=False, follow_redirects=True, timeout=HANG) as client:
        return client.get(url).content


def by_guarded_httpx(url: str) -> bytes:
    async def ask() -> bytes:
        transport = resolver.HttpxTransport(policy=POLICY, environment={})
        async with httpx.AsyncClient(transport=transport, follow_redirects=True) as client:
            return (await client.get(url)).content

    return trio.run(ask)


def by_aiohttp(url: str) -> bytes:
    return asyncio.run(_ask_aiohttp(url, lambda: aiohttp.TCPConnector(resolver=aiohttp.ThreadedResolver())))


def by_guarded_aiohttp(url: str) -> bytes:
    return asyncio.run(_ask_aiohttp(url, lambda: GuardedConnector(POLICY)))


async def _ask_aiohttp(url: str, connector: Callable[[], aiohttp.TCPConnector]) -> bytes:
    async with aiohttp.ClientSession(connector=connector()) as session, session.get(url) as response:
        return await response.read()


def by_curl(url: str) -> bytes:
    port = re.search(r":(\d+)", url)
    name = f"inside.example:{port[1] if port else 80}:127.0.0.1"
    return _run("curl", "-q", "-sSL", "--compressed", "--noproxy", "*", "--resolve", name, url)


def by_wget(url: str) -> bytes:
    return _run("wget", "-q", "-O", "-", "--tries=1", "--no-proxy", "--compression=auto", "--no-config", url)


def _run(*command: str) -> bytes:
    return subprocess.run(command, capture_output=True, check=True, stdin=subprocess.DEVNULL).stdout


def by_resolve(url: str) -> bytes:
    async def ask() -> bytes:
        return (await resolver.fetch(url, policy=POLICY, environment={})).content

    return trio.run(ask)


OURS: Mapping[str, Client] = {
    "resolve": by_resolve,
    "requests, guarded": by_guarded_requests,
    "aiohttp, guarded": by_guarded_aiohttp,
    "httpx, guarded": by_guarded_httpx,
}
THEIRS: Mapping[str, Client] = {
    "curl": by_curl,
    "wget": by_wget,
    "urllib": by_urllib,
    "requests": by_requests,
    "httpx": by_httpx,
    "aiohttp": by_aiohttp,
}
#: The clients and cases that are not measured. These clients resolve names by the system's DNS resolver,
#: which tests must not query.
NOT_MEASURED = {("wget", "a name that leads inside"), ("wget", "a redirect to a name inside")}


@contextmanager
def hostile_servers(folder: Path) -> Iterator[Server]:
    secret = folder / "secret"
    secret.write_bytes(SECRET)
    bomb = Body(BOMB, {"Content-Encoding": "gzip, gzip", "Content-Type": "text/plain"})
    with servers({**REDIRECTS, "/file": secret.as_uri()}, {"/bomb": bomb}) as server:
        yield server


def measure(client: Client, case: Case, server: Server) -> str:
    """Return `reached` if the attack succeeded, the policy rule that prevented the attack, or `no`."""
    server.visits.clear()
    url = case.url.format(port=server.port, wrapped=server.port + 65_536)
    try:
        content = client(url)
    except Exception as error:  # noqa: BLE001 - clients raise all kinds of errors
        content, rule = b"", _rule(error)
    else:
        rule = "no"
    inside = any(address == "127.0.0.1" for address, _ in server.visits)
    return "reached" if inside or SECRET in content or len(content) > MAX_BYTES else rule


def _rule(error: BaseException) -> str:
    if isinstance(error, resolver.InvalidUrl):
        return "S01"
    if isinstance(error, resolver.LimitExceeded):
        return "S16"
    rule = getattr(error, "rule", None)
    if rule is None and error.__cause__ is not None:
        return _rule(error.__cause__)
    return rule if isinstance(rule, str) else "no"


def version(name: str) -> str:
    """Return the name and version of a client, such as `curl 7.88.1`; empty if it is not installed."""
    if name in ("curl", "wget"):
        path = shutil.which(name)
        match = re.search(r"\d[\d.]+", _run(path, "--version").decode()) if path else None
        return f"{name} {match[0]}" if match else ""
    if name == "urllib":
        return f"urllib {sys.version_info.major}.{sys.version_info.minor}"
    return f"{name} {importlib.metadata.version(name)}"


def table(server: Server) -> Iterator[str]:
    others = [name for name in THEIRS if version(name)]
    heads = [*map(version, others), *OURS]
    yield f"| | {' | '.join(heads)} |"
    yield f"|---{'|---' * len(heads)}|"
    for case in CASES:
        cells = [
            "–" if (name, case.title) in NOT_MEASURED else measure(client, case, server)
            for name, client in {**{name: THEIRS[name] for name in others}, **OURS}.items()
        ]
        yield f"| {case.title} | {' | '.join(cells)} |"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, hostile_servers(Path(folder)) as server, replace_dns():
        for line in table(server):
            print(line)


@contextmanager
def replace_dns() -> Iterator[None]:
    """Replace DNS resolution by a fixed table of host names."""
    original = socket.getaddrinfo
    addresses_by_name = {"inside.example": [["127.0.0.1"]], "localhost": [["127.0.0.1"]]}
    socket.getaddrinfo = Names(addresses_by_name).getaddrinfo
    try:
        yield
    finally:
        socket.getaddrinfo = original


if __name__ == "__main__":
    main()
