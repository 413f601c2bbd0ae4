"""A file as a document: is it whole, and what is it?"""

from __future__ import annotations

import pytest

from protocols.conversation.driver import hold
from protocols.file.dialogue import guess_media_type, read_file
from resolver import Changed, FileUrl, Truncated
from tests.protocols.file.files import FileGate, MadeUpFile
from tests.protocols.in_memory import MemorySink

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
        ((b"abc", b"more"), 3, set()),  # it grew: no error, but not what was announced
        ((b"abc",), None, set()),  # nobody announced anything
    ],
)
async def test_a_file_is_taken_to_its_end(
    way: str, pieces: tuple[bytes, ...], size: int | None, verified: set[str]
) -> None:
    found: set[str] = set()
    assert await take(MadeUpFile(*pieces, size=size), way, found) == b"".join(pieces)
    assert found == verified


@pytest.mark.parametrize("way", TAKES)
@pytest.mark.parametrize("pieces", [(b"abc",), ()])
async def test_a_file_that_shrinks_is_truncated(way: str, pieces: tuple[bytes, ...]) -> None:
    found: set[str] = set()
    with pytest.raises(Truncated) as raised:
        await take(MadeUpFile(*pieces, size=9), way, found)
    assert (raised.value.received, raised.value.expected) == (len(b"".join(pieces)), 9)
    assert found == set()


@pytest.mark.parametrize("way", TAKES)
@pytest.mark.parametrize(("size", "changed"), [(5, True), (3, False), (None, False)])
async def test_a_file_that_is_written_to_meanwhile(way: str, size: int | None, changed: bool) -> None:
    """One that grew has what it had; the other may be half of one state and half of the next."""
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
        (b"notes.txt.gz", "application/gzip"),  # nothing undoes the compression
        (b"notes.txt.xz", "application/x-xz"),
        (b"data:text/html,x", None),  # a name, not a URL
        (b"http://h.example/x.txt", "text/plain"),
        (b"\xff.txt", "text/plain"),
        (b"", None),
    ],
)
def test_a_name_tells_the_type(name: bytes, media_type: str | None) -> None:
    assert guess_media_type(name) == media_type
