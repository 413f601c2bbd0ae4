"""A directory as lines and as entries."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from protocols.contract import FileStatus
from protocols.file.dialogue import DirectoryReader, child_url, name_line, name_lines
from protocols.file.url import build
from resolver import Entry, FileUrl, Kind
from tests.protocols.file.files import MadeUpFile

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
        (b"\xff\t\x1b", b"\xff\t\x1b\n"),  # a terminal is somebody else's business
    ],
)
def test_a_name_is_one_line(name: bytes, line: bytes) -> None:
    assert name_line(name) == line


def test_the_body_is_the_names_in_pieces() -> None:
    names = [b"%06d" % number for number in range(50_000)]
    pieces = list(name_lines(names))
    assert b"".join(pieces).splitlines() == names
    assert len(pieces) > 1
    assert all(len(piece) < 66_000 for piece in pieces)
    assert list(name_lines([])) == []


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
async def test_each_line_is_an_entry_however_the_octets_come(step: int) -> None:
    octets = b"".join(name_lines(NAMES))
    reader = DirectoryReader(HERE, MadeUpFile(names=NAMES), list(NAMES))
    entries: list[Entry] = []
    for start in range(0, len(octets), step):
        entries += reader.feed(octets[start : start + step])
    entries += reader.finish()
    assert entries == ENTRIES


async def test_only_what_is_read_is_looked_up() -> None:
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
def test_a_child_keeps_its_parents_way(url: FileUrl, kind: Kind, child: str) -> None:
    assert build(child_url(url, b"x", kind)) == child
