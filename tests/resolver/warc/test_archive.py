"""Archives to fetch from, as the library has them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from resolver import LocalError
from resolver.url.parsing import parse
from resolver.warc.archive import Archive
from tests.resolver.warc.archives import record

URL = "http://h.example/a"


def _answer(head: str, body: bytes, number: int) -> bytes:
    return record(
        head.replace("\n", "\r\n").encode() + b"\r\n" + body,
        WARC_Type="response",
        WARC_Record_ID=f"<urn:uuid:{number}>",
        WARC_Target_URI=URL,
        Content_Type="application/http; msgtype=response",
    )


def test_found_many_parts_in_one_member_are_read_within_a_budget(tmp_path: Path) -> None:
    """Each part unpacks all before it: the square of their number."""
    size = 100_000
    parts = [_answer(f'HTTP/1.1 200 OK\nETag: "a"\nContent-Length: {10**9}\n', b"", 0)]
    for number in range(160):
        begin = number * size
        head = f'HTTP/1.1 206 Part\nETag: "a"\nContent-Range: bytes {begin}-{begin + size - 1}/{10**9}\n'
        parts.append(_answer(head, bytes(size), number + 1))
    path = tmp_path / "a.warc.gz"
    path.write_bytes(gzip.compress(b"".join(parts), mtime=0))
    with Archive([path]) as archive:
        found = archive.find(parse(URL))
        with pytest.raises(LocalError, match="damaged or overlapping"):
            bool(found.is_whole)
