"""A file as a document: is it whole, and what is it?"""

from __future__ import annotations

import pytest

from protocols.errors import Changed, Truncated
from protocols.file.document import FileBody, guess_media_type
from tests.protocols.file.files import Collected, MadeUpFile

TAKES = ["iterate", "drain"]


async def take(body: FileBody, way: str) -> bytes:
    if way == "iterate":
        return b"".join([octets async for octets in body])
    sink = Collected()
    assert await body.drain(sink) == len(sink.octets)
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
    body = FileBody(MadeUpFile(*pieces, size=size), 0, found)
    assert await take(body, way) == b"".join(pieces)
    assert found == verified
    assert body.received == sum(map(len, pieces))


@pytest.mark.parametrize("way", TAKES)
@pytest.mark.parametrize("pieces", [(b"abc",), ()])
async def test_a_file_that_shrinks_is_truncated(way: str, pieces: tuple[bytes, ...]) -> None:
    found: set[str] = set()
    with pytest.raises(Truncated) as raised:
        await take(FileBody(MadeUpFile(*pieces, size=9), 0, found), way)
    assert (raised.value.received, raised.value.expected) == (len(b"".join(pieces)), 9)
    assert found == set()


@pytest.mark.parametrize("way", TAKES)
@pytest.mark.parametrize(("size", "changed"), [(5, True), (3, False), (None, False)])
async def test_a_file_that_is_written_to_meanwhile(way: str, size: int | None, changed: bool) -> None:
    """One that grew has what it had; the other may be half of one state and half of the next."""
    body = FileBody(MadeUpFile(b"abc", b"de", size=size, written=True), 0, set())
    if not changed:
        assert await take(body, way) == b"abcde"
        return
    with pytest.raises(Changed) as raised:
        await take(body, way)
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
