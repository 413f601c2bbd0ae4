"""Types, listings, facts, resumption and logins against the mock server on loopback."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import trio

from fixtures.ftp import Behaviour, Style, serve
from fixtures.ftp.tree import ALL_OCTETS, TEXT
from resolver import AccessDenied, Kind, NotFound, Options, Policy, ResolveError
from resolver.transfer.network import Network
from tests.protocols.ftp.on_a_socket import network, retrieve, take

TYPES = [
    ("pub/a.txt;type=a", Behaviour(), TEXT),
    ("pub/a.txt;type=a", Behaviour(converts=False), TEXT),  # vsftpd: bare LF
    ("pub/crlf.txt;type=a", Behaviour(converts=False), TEXT),
    ("pub/crlf.txt;type=a", Behaviour(), TEXT.replace(b"\n", b"\r\n")),  # Pure-FTPd: CR CR LF
    ("pub/bare-cr.txt;type=a", Behaviour(), b"one\rtwo\rthree\r"),
    ("pub/crlf.txt;type=i", Behaviour(), TEXT.replace(b"\n", b"\r\n")),
    ("pub/empty.bin", Behaviour(), b""),
]


@pytest.mark.parametrize(("path", "behaviour", "octets"), TYPES)
async def test_types(path: str, behaviour: Behaviour, octets: bytes, nursery: trio.Nursery) -> None:
    server = await serve(nursery, behaviour)
    taken = await retrieve(server, path)
    assert (taken.body, taken.error) == (octets, None)
    assert taken.kind is Kind.DOCUMENT


LISTED = [
    "a.bin",
    "a.txt",
    "bare-cr.txt",
    "crlf.txt",
    "empty",
    "empty.bin",
    "large.bin",
    "names",
    "unreadable.txt",
]
FORMS = ["pub", "pub/", "pub;type=d", "pub/;type=d", "%2Fpub;type=d", "%2Fpub/"]


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("path", FORMS)
async def test_listings(style: Style, path: str, nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behaviour(style=style))
    taken = await retrieve(server, path)
    assert taken.error is None
    assert taken.kind is Kind.DIRECTORY
    assert [entry.name for entry in taken.entries] == LISTED
    base = server.url(path.partition(";")[0].rstrip("/"))
    assert [entry.url for entry in taken.entries] == [f"{base}/{name}" for name in LISTED]
    assert server.violations == []


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("path", ["pub/empty", "pub/empty/", "pub/empty;type=d"])
async def test_an_empty_directory(style: Style, path: str, nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behaviour(style=style))
    taken = await retrieve(server, path)
    assert (taken.error, taken.kind, taken.entries) == (None, Kind.DIRECTORY, [])


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("path", ["pub/no", "pub/no/", "pub/no;type=d", "no/a"])
async def test_what_is_missing(style: Style, path: str, nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behaviour(style=style))
    taken = await retrieve(server, path)
    assert isinstance(taken.error, NotFound)


async def test_every_name_of_a_listing_can_be_fetched(nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behaviour(style=Style.PUREFTPD))
    async with network(server) as opened:
        listed = await take(server.url("pub/names/"), opened)
        assert len(listed.entries) == 19
        for entry in listed.entries:
            assert entry.url is not None
            taken = await take(entry.url, opened)
            assert taken.body == b"content of " + (entry.raw or b"") + b"\n"
    assert server.violations == []


async def test_mlsd(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    taken = await retrieve(server, "pub/", options=Options(mlsd=True))
    assert {entry.name: entry.kind for entry in taken.entries}["names"] is Kind.DIRECTORY
    assert [entry.size for entry in taken.entries if entry.name == "a.txt"] == [len(TEXT)]


@dataclass
class Facts:
    kind: Kind
    size: int | None


FACTS = [
    ("pub/a.txt", Facts(Kind.DOCUMENT, len(TEXT)), [b"TYPE I", b"SIZE a.txt", b"MDTM a.txt"]),
    ("pub/a.txt;type=a", Facts(Kind.DOCUMENT, None), [b"TYPE I", b"SIZE a.txt", b"MDTM a.txt"]),
    ("pub/names", Facts(Kind.DIRECTORY, None), [b"TYPE I", b"SIZE names", b"MDTM names", b"CWD names"]),
    ("pub/names/", Facts(Kind.DIRECTORY, None), [b"CWD names"]),
    ("pub/names;type=d", Facts(Kind.DIRECTORY, None), [b"CWD names"]),
]


@pytest.mark.parametrize(("path", "facts", "sent"), FACTS)
async def test_facts_alone(path: str, facts: Facts, sent: list[bytes], nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    taken = await retrieve(server, path, options=Options(want="facts"))
    assert (taken.error, taken.kind, taken.size) == (None, facts.kind, facts.size)
    assert server.commands[3:] == sent
    assert server.violations == []


async def test_facts_of_what_is_missing(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    for path in ("pub/no", "pub/no;type=i", "pub/no;type=d"):
        assert isinstance((await retrieve(server, path, options=Options(want="facts"))).error, NotFound)


async def test_going_on_behind_what_is_held(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    taken = await retrieve(server, "pub/a.bin", options=Options(start=1000))
    assert (taken.error, taken.start, taken.size) == (None, 1000, len(ALL_OCTETS))
    assert taken.body == ALL_OCTETS[1000:]
    assert "length" in taken.verified
    assert server.commands[-2:] == [b"REST 1000", b"RETR a.bin"]
    assert server.violations == []


LOGINS: list[tuple[str, list[bytes], type[ResolveError] | None]] = [
    ("", [b"USER anonymous", b"PASS anonymous@"], None),
    ("bob:secret%20pw@", [b"USER bob", b"PASS secret pw"], None),
    ("bob:wrong@", [b"USER bob", b"PASS wrong"], AccessDenied),
    ("me@", [b"USER me", b"PASS asked"], None),
    ("@", [b"USER ", b"PASS asked"], None),
    ("u:@", [b"USER u", b"PASS "], None),
]


@pytest.mark.parametrize(("login", "sent", "error"), LOGINS)
async def test_logins(
    login: str, sent: list[bytes], error: type[ResolveError] | None, nursery: trio.Nursery
) -> None:
    server = await serve(nursery)
    taken = await retrieve(server, "etc/motd", login=login)
    assert server.commands[: len(sent)] == sent
    assert type(taken.error) is (error or type(None))
    assert server.violations == []


async def test_the_policy_says_what_anonymous_tells_of_itself(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with Network(policy=Policy(allow_port={server.port}, ftp_email="me@here.example")) as opened:
        assert (await take(server.url("etc/motd"), opened)).error is None
    assert server.commands[1] == b"PASS me@here.example"
