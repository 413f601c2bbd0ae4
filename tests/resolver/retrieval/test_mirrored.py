"""Where else an object is: what a prefix makes of a URL, and how the places take over from one another."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest
import trio

from fixtures.faulty import Fault, FaultyServer, Manner, serve
from resolver import NotConfigured, Policy, Refused, Resolver, RetryPolicy, Truncated, Validators, parse
from resolver.files.directory import DirectoryHandle
from resolver.files.part_state import PartState, read_state
from resolver.transfer.redirects import MirrorPrefixes
from resolver.transfer.retry import OVERLAP

SAID: Mapping[str, tuple[str, ...]] = {
    "http://h/": ("http://all",),
    "http://h/pub": ("http://m/h/", "ftp://f"),
    "http://h/pub/deep/": ("http://n/",),
    "http://h:81/a%20b/": ("http://n",),
    "ftp://h/one.iso": ("ftp://m/other.iso",),
    "ftp://h/%2Fsrv/": ("http://m/srv",),
}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h/x", ["http://all/x"]),
        ("http://h/public/x", ["http://all/public/x"]),
        ("http://h/pub/x", ["http://m/h/x", "ftp://f/x"]),
        ("http://H:80/pub/x", ["http://m/h/x", "ftp://f/x"]),
        ("http://me:secret@h/pub/x#y", ["http://m/h/x", "ftp://f/x"]),
        ("http://h/pub/x?y", ["http://m/h/x?y"]),  # which ftp has not
        ("http://h/pub/", ["http://m/h/", "ftp://f/"]),
        ("http://h/pub", ["http://m/h/", "ftp://f"]),
        ("http://h/", ["http://all/"]),
        ("http://h/pub/deep/x//y", ["http://n/x//y"]),
        ("http://h:81/a%20b/c", ["http://n/c"]),
        ("http://h:81/a%20b%2Fc", None),
        ("https://h/x", None),
        ("ftp://h/one.iso", ["ftp://m/other.iso"]),
        ("ftp://h/one.iso;type=i", None),
        ("ftp://h/%2Fsrv/x", ["http://m/srv/x"]),
        ("file:///pub/x", None),
        ("mailto:me@h", None),
    ],
)
def test_the_longest_prefix_counts_and_the_rest_goes_behind_its_mirrors(
    url: str, expected: list[str] | None
) -> None:
    found = MirrorPrefixes(SAID).find(parse(url))
    assert (None if found is None else list(found[1])) == expected


@pytest.mark.parametrize(
    ("prefix", "mirrors", "what"),
    [
        ("h/", (), "a URL"),
        ("file:///h/", (), "file:///h/.* host"),
        ("http://h/", ("m",), "a URL"),
        ("http://h/", ("http://m?x",), "path"),
        ("http://h/", "http://m", "list"),
    ],
)
def test_what_can_be_no_prefix_and_no_mirror(prefix: str, mirrors: tuple[str, ...], what: str) -> None:
    with pytest.raises(NotConfigured, match=what):
        Resolver(mirrored={prefix: mirrors})


CONTENT = bytes(range(250)) * 200
DIGEST = f"sha256:{sha256(CONTENT).hexdigest()}"
#: Every connection is cut after a part of the body; of those that go on, too.
CUT = Manner(fault=Fault("cut", "body"))
PATIENT = RetryPolicy(tries=1)


def policy_for(*servers: FaultyServer) -> Policy:
    return Policy(allow_port=frozenset(server.port for server in servers))


def below(server: FaultyServer) -> str:
    return server.url().rpartition("/")[0] + "/"


def state_in(folder: Path) -> PartState | None:
    directory = DirectoryHandle(str(folder), make=False)
    directory.hold()
    try:
        return read_state("it.part-state", directory)
    finally:
        directory.close()


@pytest.mark.parametrize("second", ["http", "ftp"])
@pytest.mark.parametrize("first", ["http", "ftp"])
@pytest.mark.parametrize("checksum", [DIGEST, None])
async def test_who_takes_over_goes_on_where_a_digest_will_tell(
    first: str, second: str, checksum: str | None, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """By Range or REST, in the one file; without a digest from the beginning."""
    one = await serve(nursery, first, CONTENT, CUT)
    two = await serve(nursery, second, CONTENT)
    mirrors = {below(one): [below(two)]}
    async with Resolver(policy=policy_for(one, two), mirrored=mirrors, patience=PATIENT) as session:
        saved = await session.save(one.url(), tmp_path / "it", checksum=checksum)
    assert (tmp_path / "it").read_bytes() == CONTENT
    assert os.listdir(tmp_path) == ["it"]
    assert (saved.mirror, saved.attempts) == (two.url(), 2)
    assert "save:mirror" in [finding.rule for finding in saved.findings]
    assert saved.resumed_from == (one.reached if checksum else 0)
    assert two.sent == len(CONTENT) - max(0, saved.resumed_from - OVERLAP) if checksum else len(CONTENT)
    assert ("digest" in saved.verified) == (checksum is not None)


@pytest.mark.parametrize("first", ["http", "ftp"])
async def test_what_is_left_of_several_places_a_later_run_goes_on_with(
    first: str, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """The state is of the URL that was asked for, and says no more of it than what that place said: here a
    mirror came furthest, and the place itself is asked again."""
    one = await serve(nursery, first, CONTENT, CUT)
    two = await serve(nursery, "http", CONTENT, Manner(fault=Fault("cut", "body", share=80)))
    mirrors = {below(one): [below(two)]}
    async with Resolver(policy=policy_for(one, two), mirrored=mirrors, patience=PATIENT) as session:
        with pytest.raises(Truncated):
            await session.save(one.url(), tmp_path / "it", checksum=DIGEST)
        state = state_in(tmp_path)
        assert state is not None
        assert (state.url, state.complete, state.known) == (one.url(), False, Validators(size=len(CONTENT)))
        held = (tmp_path / "it.part").read_bytes()
        assert len(held) > len(CONTENT) // 2
        assert CONTENT.startswith(held)
        one.mend()
        saved = await session.save(one.url(), tmp_path / "it", checksum=DIGEST)
    assert (saved.resumed_from, saved.mirror) == (len(held), None)
    assert (tmp_path / "it").read_bytes() == CONTENT


async def test_a_mirror_of_a_prefix_is_the_callers_own_word(nursery: trio.Nursery, tmp_path: Path) -> None:
    """It may be a place that a stranger's URL may not lead to: as one that a stranger named it is refused."""

    async def answer(peer: trio.SocketStream) -> None:
        async with peer:
            await peer.receive_some()
            await peer.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.2")
    nursery.start_soon(trio.serve_listeners, answer, listeners)
    port = listeners[0].socket.getsockname()[1]
    one = await serve(nursery, "http", CONTENT, Manner(fault=Fault("later", "greeting")))
    policy = Policy(allow_port=frozenset({one.port, port}), allow_address=frozenset({"127.0.0.1/32"}))
    mirror = f"http://127.0.0.2:{port}/"
    async with Resolver(policy=policy, mirrored={below(one): [mirror]}, patience=PATIENT) as session:
        saved = await session.save(one.url(), tmp_path / "it", origin="derived")
        assert saved.mirror == f"{mirror}object.bin"
    async with Resolver(policy=policy, patience=PATIENT) as session:
        with pytest.raises(Refused, match="S08"):
            await session.save(one.url(), tmp_path / "no", origin="derived", mirrors=[f"{mirror}object.bin"])
