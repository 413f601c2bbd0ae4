"""file URLs through the real gate: documents, directories, refusals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from protocols.syntax import encode
from resolver import Kind, NotFound, Policy, Referrer, Refused, Truncated, parse
from resolver.network.url_gate import UrlGate
from resolver.transfer.network import Network
from tests.protocols.opening import open_url


def url_of(path: Path, end: str = "") -> str:
    return "file://" + encode(os.fsencode(path), "/") + end


def admit(url: str, policy: Policy | None = None) -> UrlGate:
    return Network(policy=policy or Policy.default()).admit(parse(url))


def opened(url: str, policy: Policy | None = None):  # type: ignore[no-untyped-def]
    return open_url(parse(url), admit(url, policy))


async def test_a_document(tmp_path: Path) -> None:
    path = tmp_path / "a%b c.txt"
    path.write_bytes(b"hello\r\n\0")
    async with opened(url_of(path)) as reply:
        assert (reply.kind, reply.media_type, reply.size) == (Kind.DOCUMENT, "text/plain", 8)
        assert reply.modified is not None
        assert reply.modified.timestamp() == pytest.approx(path.stat().st_mtime)
        assert (reply.listing, reply.verified) == (None, set())
        assert b"".join([octets async for octets in reply.body]) == b"hello\r\n\0"
        assert reply.verified == {"length"}


@pytest.mark.parametrize("end", ["", "/"])
async def test_a_directory_with_or_without_its_slash(tmp_path: Path, end: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "it").write_bytes(b"12")
    async with opened(url_of(tmp_path, end)) as reply:
        assert (reply.kind, reply.media_type, reply.size) == (Kind.DIRECTORY, "text/plain", None)
        octets = b"".join([octets async for octets in reply.body])
        assert octets == b"it\nsub\n"
        entries = list(reply.listing.feed(octets))
    assert [(entry.name, entry.url, entry.kind, entry.size) for entry in entries] == [
        ("it", url_of(tmp_path / "it"), Kind.DOCUMENT, 2),
        ("sub", url_of(tmp_path / "sub", "/"), Kind.DIRECTORY, None),
    ]


async def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "it").touch()
    with pytest.raises(NotFound, match="not a directory"):
        async with opened(url_of(tmp_path / "it", "/")):
            pass


async def test_a_file_that_shrinks_while_it_is_read_is_truncated(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(bytes(1_000_000))
    async with opened(url_of(tmp_path / "it")) as reply:
        body = aiter(reply.body)
        first = await anext(body)
        os.truncate(tmp_path / "it", 300_000)
        assert len(await anext(body)) == 300_000 - len(first)
        with pytest.raises(Truncated) as raised:
            await anext(body)
    assert (raised.value.received, raised.value.expected) == (300_000, 1_000_000)


async def test_a_root_narrows_and_links_out_of_it_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "in").write_bytes(b"in")
    (tmp_path / "secret").write_bytes(b"secret")
    (root / "out").symlink_to("../secret")
    policy = Policy.untrusted()
    inside = Policy(name="untrusted", file_root=str(root))
    async with opened(url_of(root / "in"), inside) as reply:
        assert [octets async for octets in reply.body] == [b"in"]
    for url in (url_of(tmp_path / "secret"), url_of(root / "out"), url_of(root, "/%2e%2e/secret")):
        with pytest.raises(Refused, match="S12"):
            async with opened(url, inside):
                pass
    with pytest.raises(Refused, match="S12"):
        admit(url_of(root / "in"), policy)


@pytest.mark.parametrize(
    "url",
    ["file://other.example/etc/motd", "file:///etc%2Fmotd", "file:///etc/motd%00.txt", "file:///dev/null"],
)
async def test_what_no_file_url_may_name(url: str) -> None:
    with pytest.raises(Refused, match="S12"):
        async with opened(url):
            pass


async def test_only_a_file_leads_to_a_file() -> None:
    network = Network(policy=Policy.default())
    for origin in ("chosen", "derived"):
        with pytest.raises(Refused):
            network.admit(
                parse("file:///etc/motd"), origin=origin, referrer=Referrer("http://h.example/", None)
            )
    network.admit(parse("file:///etc/motd"), origin="chosen", referrer=Referrer("file:///etc/", None))
