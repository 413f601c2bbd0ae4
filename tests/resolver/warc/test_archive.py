"""Archives as a source of the library: partial responses, blocks, and status."""

from __future__ import annotations

import gzip
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from protocols.contract import JsonValue
from resolver import Kind, LocalError, NotFound, ProtocolError, Resolver, Truncated
from resolver.cli.lists import list_archived_urls
from resolver.files.archive import ArchiveOutput
from resolver.url.parsing import parse
from resolver.warc.archive import Archive
from resolver.warc.catalog import RecordPosition, open_block
from resolver.warc.records import Budget
from resolver.warc.replay import make_status
from tests.resolver.warc.archives import Octets, record

URL = "http://h.example/a"


def _answer(head: str, body: bytes, number: int) -> bytes:
    return record(
        head.replace("\n", "\r\n").encode() + b"\r\n" + body,
        WARC_Type="response",
        WARC_Record_ID=f"<urn:uuid:{number}>",
        WARC_Target_URI=URL,
        Content_Type="application/http; msgtype=response",
    )


def test_archive_many_parts_in_one_member_exceed_the_budget(tmp_path: Path) -> None:
    """Each part unpacks all parts before it: quadratic work."""
    size = 100_000
    parts = [_answer(f'HTTP/1.1 200 OK\nETag: "a"\nContent-Length: {10**9}\n', b"", 0)]
    for number in range(160):
        begin = number * size
        head = f'HTTP/1.1 206 Part\nETag: "a"\nContent-Range: bytes {begin}-{begin + size - 1}/{10**9}\n'
        parts.append(_answer(head, bytes(size), number + 1))
    path = tmp_path / "a.warc.gz"
    path.write_bytes(gzip.compress(b"".join(parts), mtime=0))
    with Archive([path]) as archive:
        capture = archive.find(parse(URL))
        with pytest.raises(LocalError, match="damaged or overlapping"):
            bool(capture.is_whole)


def test_find_in_damaged_archive_reports_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(_answer("HTTP/1.1 200 OK\n", b"a", 1) + b"garbage")
    with Archive([path]) as archive, pytest.raises(NotFound, match="no WARC record begins here"):
        archive.find(parse(f"{URL}/lost"))


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ('ETag: "a"\n', 'ETag: "a"\n', True),
        ('ETag: "a"\n', 'ETag: "b"\n', False),
        ('ETag: W/"a"\n', 'ETag: W/"a"\n', False),
        ('ETag: W/"a"\nLast-Modified: x\n', 'ETag: W/"a"\nLast-Modified: x\n', True),
        ('ETag: W/"a"\nLast-Modified: x\n', 'ETag: W/"b"\nLast-Modified: x\n', False),
        ("Last-Modified: x\n", "Last-Modified: x\n", True),
        ("", "", False),
    ],
)
def test_archive_joins_parts_of_same_version(first: str, second: str, joined: bool, tmp_path: Path) -> None:
    part = f"HTTP/1.1 206 Part\nContent-Range: bytes 2-3/4\n{second}"
    start = f"HTTP/1.1 200 OK\nContent-Length: 4\n{first}"
    (tmp_path / "a.warc").write_bytes(_answer(start, b"ab", 0) + _answer(part, b"cd", 1))
    with Archive([tmp_path / "a.warc"]) as archive:
        assert archive.find(parse(URL)).is_whole is joined


async def test_archive_first_segment_of_an_object_raises_truncated(tmp_path: Path) -> None:
    segment = _answer("HTTP/1.1 200 OK\n", b"first", 0).replace(b"\r\n", b"\r\nWARC-Segment-Number: 1\r\n", 1)
    (tmp_path / "a.warc").write_bytes(segment)
    with Archive([tmp_path / "a.warc"]) as archive:
        async with Resolver(archive=archive) as session:
            with pytest.raises(Truncated):
                await session.fetch(URL)


# Records of other programs.


@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/2", "HTTP/2.0", "HTTP/3"])
@pytest.mark.parametrize("length", ["", "Content-Length: 4\n"])
async def test_archive_replays_responses_of_newer_versions(version: str, length: str, tmp_path: Path) -> None:
    """Some programs write the version of the connection in the form of HTTP/1.1."""
    answer = _answer(f"{version} 200 OK\nContent-Type: text/plain\n{length}", b"body", 0)
    (tmp_path / "a.warc").write_bytes(answer)
    with Archive([tmp_path / "a.warc"]) as archive:
        async with Resolver(archive=archive) as session:
            response = await session.fetch(URL)
            facts = await session.info(URL)
    assert (response.status, response.content, response.media_type) == (200, b"body", "text/plain")
    assert (facts.size, facts.kind) == (4 if length else None, Kind.DOCUMENT)


@pytest.mark.parametrize("body", [b"text\n", b"d\xe9j\xe0", b"x" * 100_000, b""])
@pytest.mark.parametrize("length", ["", "Content-Length: {}\n"])
async def test_archive_replays_decoded_body_with_transfer_coding(
    length: str, body: bytes, tmp_path: Path
) -> None:
    """Some programs archive the decoded body with the original head."""
    head = f"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n{length.format(len(body))}"
    (tmp_path / "a.warc").write_bytes(_answer(head, body, 0))
    with Archive([tmp_path / "a.warc"]) as archive:
        async with Resolver(archive=archive) as session:
            assert (await session.fetch(URL)).content == body


@pytest.mark.parametrize("body", [b"4\r\nbody\r\n0\r\n\r\n", b"0004;a=b\r\nbody\r\n0\r\n\r\n"])
async def test_archive_replays_chunked_body(body: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(_answer("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n", body, 0))
    with Archive([tmp_path / "a.warc"]) as archive:
        async with Resolver(archive=archive) as session:
            assert (await session.fetch(URL)).content == b"body"


@pytest.mark.parametrize(("last", "found"), [(3, True), (2, False)])
async def test_archive_replays_range_of_complete_object(last: int, found: bool, tmp_path: Path) -> None:
    """Browsers request media with `Range: bytes=0-`."""
    head = f"HTTP/1.1 206 Partial Content\nContent-Range: bytes 0-{last}/4\n"
    (tmp_path / "a.warc").write_bytes(_answer(head, b"body"[: last + 1], 0))
    with Archive([tmp_path / "a.warc"]) as archive:
        async with Resolver(archive=archive) as session:
            with nullcontext() if found else pytest.raises(NotFound):
                response = await session.fetch(URL)
                assert (response.status, response.content) == (200, b"body")
    urls = [
        *list_archived_urls(
            str(tmp_path / "a.warc"), None, lambda error: pytest.fail(error.message), quiet=True
        )
    ]
    assert urls == ([URL] if found else [])


async def test_archive_replays_http_object_without_response(tmp_path: Path) -> None:
    """Warcit archives a directory of files as resource records with http URLs."""
    head = {"WARC_Type": "resource", "WARC_Target_URI": URL, "Content_Type": "text/plain; charset=utf-8"}
    (tmp_path / "a.warc").write_bytes(record(b"HTTP/1.1 404 in the body\r\n\r\n", **head))
    with Archive([tmp_path / "a.warc"]) as archive:
        async with Resolver(archive=archive) as session:
            response = await session.fetch(URL)
            facts = await session.info(URL)
    assert response.content == b"HTTP/1.1 404 in the body\r\n\r\n"
    assert (response.status, response.media_type, response.size) == (None, "text/plain", 28)
    assert (facts.kind, facts.size) == (Kind.DOCUMENT, 28)


# The block of one record, read at its position in an archive.


@pytest.mark.parametrize("offset", [4, 7])
def test_open_block_at_end_of_file_raises(offset: int) -> None:
    with pytest.raises(ProtocolError, match="no record begins there"):
        open_block(Octets(b"\r\n\r\n"[:offset]), RecordPosition(0, offset, 0), Budget(offset))


def test_open_block_of_missing_record_in_member_raises() -> None:
    with pytest.raises(ProtocolError, match="no record begins there"):
        open_block(Octets(record()), RecordPosition(0, 0, 1), Budget(0))


# The status of an object in an archive, as `info` returns it.


@pytest.mark.parametrize(
    ("announced", "is_directory", "expected"), [(None, False, 5), (9, False, 9), (None, True, None)]
)
def test_make_status_end_of_fetch_has_size(
    announced: int | None, is_directory: bool, expected: int | None
) -> None:
    end: dict[str, JsonValue] = {} if announced is None else {"announced": announced}
    assert make_status(end, 5, is_directory=is_directory).size == expected


def test_archive_output_close_error_is_a_local_error(tmp_path: Path) -> None:
    """A network file system may report a write error when the file is closed."""
    output = ArchiveOutput(str(tmp_path / "a.warc"), 0o600)
    os.close(output._fd)
    with pytest.raises(LocalError, match=r"cannot write .*a\.warc"):
        output.close()
