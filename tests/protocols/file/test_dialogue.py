"""Tests of the file scheme: plans, directory listings, completeness, and access through the real gate."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from protocols.contract import FileStatus, Gate, LocalFile
from protocols.conversation.driver import hold
from protocols.conversation.rehearsal import rehearse
from protocols.file.dialogue import (
    DirectoryReader,
    child_url,
    guess_media_type,
    read_file,
)
from protocols.file.url import build
from protocols.listing import join_lines, name_line
from protocols.step import CopyBody, Dialogue, OpenFile, PlanNote, StartBody
from protocols.syntax import encode
from resolver import Changed, Entry, FileUrl, Kind, NotFound, Policy, Referrer, Refused, Truncated, parse
from resolver.network.url_gate import UrlGate
from resolver.transfer.network import Network
from tests.protocols.file.files import FileGate, MadeUpFile
from tests.protocols.in_memory import MemorySink
from tests.protocols.opening import open_url, perform


@pytest.mark.parametrize(
    ("segments", "path"),
    [
        ((b"etc", b"motd"), "/etc/motd"),
        ((b"etc", b""), "/etc/"),
        ((), "/"),
        ((b"",), "/"),
        ((b"\xff\x00",), "/\xff\x00"),  # bytes are shown as one character each
    ],
)
def test_read_file_opens_path_and_copies_body(segments: tuple[bytes, ...], path: str) -> None:
    opening, note, begin, body = rehearse(read_file(FileUrl(scheme="file", segments=segments)))
    assert isinstance(opening, OpenFile)
    assert (opening.segments, opening.path) == (segments, path)
    assert isinstance(note, PlanNote)
    assert isinstance(begin, StartBody)
    assert isinstance(body, CopyBody)


# A directory as lines and as entries.

WHEN = datetime(1994, 12, 20, tzinfo=UTC)
DOCUMENT = FileStatus(Kind.DOCUMENT, 5, WHEN)
DIRECTORY = FileStatus(Kind.DIRECTORY, None, WHEN)
UNKNOWN = FileStatus(Kind.UNKNOWN, None, None)
NAMES = {b"a b": DOCUMENT, b"cr\rlf\n": UNKNOWN, b"sub": DIRECTORY, b"\xe9\xff": DOCUMENT}
HERE = FileUrl(scheme="file", host="", segments=(b"pub", b""))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (b"motd", b"motd\n"),
        (b"a\nb\r", b"a\\x0ab\\x0d\n"),
        # control characters other than CR and LF are escaped only for a terminal
        (b"\xff\t\x1b", b"\xff\t\x1b\n"),
    ],
)
def test_name_line_escapes_line_breaks(name: bytes, line: bytes) -> None:
    assert name_line(name) == line


def test_name_lines_join_to_the_names() -> None:
    names = [b"%06d" % number for number in range(50_000)]
    pieces = list(join_lines(map(name_line, names)))
    assert b"".join(pieces).splitlines() == names
    assert len(pieces) > 1
    assert all(len(piece) < 66_000 for piece in pieces)
    assert list(join_lines([])) == []


ENTRIES = [
    Entry(name="a b", url="file:///pub/a%20b", kind=Kind.DOCUMENT, size=5, modified=WHEN, raw=b"a b"),
    Entry(name="cr\rlf\n", url="file:///pub/cr%0Dlf%0A", kind=Kind.UNKNOWN, raw=b"cr\rlf\n"),
    Entry(name="sub", url="file:///pub/sub/", kind=Kind.DIRECTORY, modified=WHEN, raw=b"sub"),
    Entry(
        name="\udce9\udcff",
        url="file:///pub/%E9%FF",
        kind=Kind.DOCUMENT,
        size=5,
        modified=WHEN,
        raw=b"\xe9\xff",
    ),
]


@pytest.mark.parametrize("step", [1, 7, 1000])
async def test_directory_reader_gives_same_entries_for_every_split(step: int) -> None:
    octets = b"".join(map(name_line, NAMES))
    reader = DirectoryReader(HERE, MadeUpFile(names=NAMES), list(NAMES))
    entries: list[Entry] = []
    for start in range(0, len(octets), step):
        entries += reader.feed(octets[start : start + step])
    entries += reader.finish()
    assert entries == ENTRIES


async def test_directory_reader_reads_status_lazily() -> None:
    file = MadeUpFile(names=NAMES)
    feed = DirectoryReader(HERE, file, list(NAMES)).feed(b"a b\ncr\\x0dlf\\x0a\n")
    assert file.asked == []
    assert next(iter(feed)) == ENTRIES[0]
    assert file.asked == [b"a b"]


@pytest.mark.parametrize(
    ("url", "kind", "child"),
    [
        (FileUrl(scheme="file", host="", segments=(b"pub", b"")), Kind.DOCUMENT, "file:///pub/x"),
        (FileUrl(scheme="file", host="", segments=(b"pub",)), Kind.DIRECTORY, "file:///pub/x/"),
        (FileUrl(scheme="file", host="", segments=()), Kind.DOCUMENT, "file:///x"),
        (FileUrl(scheme="file", host="", segments=(b"",)), Kind.UNKNOWN, "file:///x"),
        (
            FileUrl(scheme="file", host="localhost", segments=(b"a", b"", b"")),
            Kind.DOCUMENT,
            "file://localhost/a/x",
        ),
        (FileUrl(scheme="file", host=None, segments=(b"a", b"")), Kind.DOCUMENT, "file:/a/x"),
        (FileUrl(scheme="file", host="", segments=(b"a",), fragment="f"), Kind.DOCUMENT, "file:///a/x"),
    ],
)
def test_child_url_keeps_parent_authority(url: FileUrl, kind: Kind, child: str) -> None:
    assert build(child_url(url, b"x", kind)) == child


# A file as a document: completeness and media type.

TAKES = ["iterate", "drain"]


async def take(file: MadeUpFile, way: str, found: set[str]) -> bytes:
    async with hold(read_file(FileUrl(scheme="file", segments=(b"x",))), FileGate(file)) as reply:
        sink = MemorySink()
        try:
            if way == "drain":
                assert await reply.body.drain(sink) == len(sink.octets)
            else:
                async for octets in reply.body:
                    sink.write(octets)
        finally:
            found |= reply.verified
        return sink.octets


@pytest.mark.parametrize("way", TAKES)
@pytest.mark.parametrize(
    ("pieces", "size", "verified"),
    [
        ((b"abc", b"de"), 5, {"length"}),
        ((), 0, {"length"}),
        ((b"abc", b"more"), 3, set()),  # the file grew: not an error, but the length is not verified
        ((b"abc",), None, set()),  # no length was announced
    ],
)
async def test_read_file_verifies_announced_length(
    way: str, pieces: tuple[bytes, ...], size: int | None, verified: set[str]
) -> None:
    found: set[str] = set()
    assert await take(MadeUpFile(*pieces, size=size), way, found) == b"".join(pieces)
    assert found == verified


@pytest.mark.parametrize("way", TAKES)
@pytest.mark.parametrize("pieces", [(b"abc",), ()])
async def test_read_file_shrunk_raises_truncated(way: str, pieces: tuple[bytes, ...]) -> None:
    found: set[str] = set()
    with pytest.raises(Truncated) as raised:
        await take(MadeUpFile(*pieces, size=9), way, found)
    assert (raised.value.received, raised.value.expected) == (len(b"".join(pieces)), 9)
    assert found == set()


@pytest.mark.parametrize("way", TAKES)
@pytest.mark.parametrize(("size", "changed"), [(5, True), (3, False), (None, False)])
async def test_read_file_modified_meanwhile_raises_changed(way: str, size: int | None, changed: bool) -> None:
    """A file that only grew contains its first state; any other change may mix two states."""
    file = MadeUpFile(b"abc", b"de", size=size, written=True)
    if not changed:
        assert await take(file, way, set()) == b"abcde"
        return
    with pytest.raises(Changed) as raised:
        await take(file, way, set())
    assert raised.value.retryable


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        (b"index.html", "text/html"),
        (b"notes.txt", "text/plain"),
        (b"PICTURE.PNG", "image/png"),
        (b"motd", None),
        (b"notes.txt.gz", "application/gzip"),  # the file is not decompressed
        (b"notes.txt.xz", "application/x-xz"),
        (b"data:text/html,x", None),  # a name, not a URL
        (b"http://h.example/x.txt", "text/plain"),
        (b"\xff.txt", "text/plain"),
        (b"", None),
    ],
)
def test_guess_media_type_uses_file_name(name: bytes, media_type: str | None) -> None:
    assert guess_media_type(name) == media_type


# file URLs through the real gate: documents, directories, refusals.


def url_of(path: Path, end: str = "") -> str:
    return "file://" + encode(os.fsencode(path), "/") + end


def admit(url: str, policy: Policy | None = None) -> UrlGate:
    return Network(policy=policy or Policy.default()).admit(parse(url))


def open_file_url(url: str, policy: Policy | None = None):  # type: ignore[no-untyped-def]
    return open_url(parse(url), admit(url, policy))


async def test_file_url_document_has_metadata_and_body(tmp_path: Path) -> None:
    path = tmp_path / "a%b c.txt"
    path.write_bytes(b"hello\r\n\0")
    async with open_file_url(url_of(path)) as reply:
        assert (reply.kind, reply.media_type, reply.size) == (Kind.DOCUMENT, "text/plain", 8)
        assert reply.modified is not None
        assert reply.modified.timestamp() == pytest.approx(path.stat().st_mtime)
        assert (reply.listing, reply.verified) == (None, set())
        assert b"".join([octets async for octets in reply.body]) == b"hello\r\n\0"
        assert reply.verified == {"length"}


@pytest.mark.parametrize("end", ["", "/"])
async def test_file_url_directory_with_and_without_slash(tmp_path: Path, end: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "it").write_bytes(b"12")
    async with open_file_url(url_of(tmp_path, end)) as reply:
        assert (reply.kind, reply.media_type, reply.size) == (Kind.DIRECTORY, "text/plain", None)
        octets = b"".join([octets async for octets in reply.body])
        assert octets == b"it\nsub\n"
        entries = list(reply.listing.feed(octets))
    assert [(entry.name, entry.url, entry.kind, entry.size) for entry in entries] == [
        ("it", url_of(tmp_path / "it"), Kind.DOCUMENT, 2),
        ("sub", url_of(tmp_path / "sub", "/"), Kind.DIRECTORY, None),
    ]


async def test_file_url_of_document_with_slash_raises_not_found(tmp_path: Path) -> None:
    (tmp_path / "it").touch()
    with pytest.raises(NotFound, match="not a directory"):
        async with open_file_url(url_of(tmp_path / "it", "/")):
            pass


async def test_file_url_shrunk_during_read_raises_truncated(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(bytes(1_000_000))
    async with open_file_url(url_of(tmp_path / "it")) as reply:
        body = aiter(reply.body)
        first = await anext(body)
        os.truncate(tmp_path / "it", 300_000)
        assert len(await anext(body)) == 300_000 - len(first)
        with pytest.raises(Truncated) as raised:
            await anext(body)
    assert (raised.value.received, raised.value.expected) == (300_000, 1_000_000)


async def test_file_root_refuses_paths_and_links_outside(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "in").write_bytes(b"in")
    (tmp_path / "secret").write_bytes(b"secret")
    (root / "out").symlink_to("../secret")
    policy = Policy.untrusted()
    inside = Policy(name="untrusted", file_root=str(root))
    async with open_file_url(url_of(root / "in"), inside) as reply:
        assert [octets async for octets in reply.body] == [b"in"]
    for url in (url_of(tmp_path / "secret"), url_of(root / "out"), url_of(root, "/%2e%2e/secret")):
        with pytest.raises(Refused, match="S12"):
            async with open_file_url(url, inside):
                pass
    with pytest.raises(Refused, match="S12"):
        admit(url_of(root / "in"), policy)


@pytest.mark.parametrize(
    "url",
    ["file://other.example/etc/motd", "file:///etc%2Fmotd", "file:///etc/motd%00.txt", "file:///dev/null"],
)
async def test_file_url_with_forbidden_path_is_refused(url: str) -> None:
    with pytest.raises(Refused, match="S12"):
        async with open_file_url(url):
            pass


async def test_file_url_is_admitted_only_from_file_referrer() -> None:
    network = Network(policy=Policy.default())
    for origin in ("chosen", "derived"):
        with pytest.raises(Refused):
            network.admit(
                parse("file:///etc/motd"), origin=origin, referrer=Referrer("http://h.example/", None)
            )
    network.admit(parse("file:///etc/motd"), origin="chosen", referrer=Referrer("file:///etc/", None))


# A dialogue that opens two files: the driver closes the first before it opens the second.


class FileOpener:
    """The file-opening part of a gate, which records its calls."""

    def __init__(self) -> None:
        self.did: list[str] = []

    @asynccontextmanager
    async def open_file(self, segments: tuple[bytes, ...]) -> AsyncIterator[LocalFile]:
        (name,) = segments
        self.did.append(f"open {name.decode()}")
        yield cast(LocalFile, name)
        self.did.append(f"close {name.decode()}")


async def test_open_file_closes_the_previous_file() -> None:
    def both() -> Dialogue[object]:
        ideal = cast(LocalFile, None)
        yield OpenFile((b"a",), ideal)
        return (yield OpenFile((b"b",), ideal))

    files = FileOpener()
    assert await perform(both(), cast(Gate, files)) == b"b"
    assert files.did == ["open a", "close a", "open b", "close b"]
