"""`--warc-dedup`: revisits of records in indexed archives; the bytes of an index are untrusted."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.text import Masked
from resolver import LocalError
from resolver.url import registry
from resolver.url.parsing import parse
from resolver.warc.group import CapturedObject, CaptureSubject, RecordGroup, make_resource
from resolver.warc.index import MAX_LINE, CdxHint, EarlierArchives, make_key, read_hints
from resolver.warc.recorder import Recorder
from resolver.warc.writing import RecordBlock
from tests.resolver.warc.archives import WARC, Octets, packed, record
from tests.sampled import FULL

BODY = b"twelve octet" * 50
SHA1 = hashlib.sha1(BODY).digest()
BASE32 = base64.b32encode(SHA1).decode()
TEXT = make_resource("text/plain", RecordBlock.from_octets(BODY), None)
ANSWER = TEXT._replace(type="response", content_type="application/http;msgtype=response", head=b"x")
RESPONSE = {"WARC_Type": "response", "Content_Type": "application/http;msgtype=response"}


def line(name: str = "a.warc", offset: object = 0, digest: str = f"sha1:{BASE32}", **more: object) -> bytes:
    members = {"url": "ftp://h.example/a", "digest": digest, "offset": offset, "filename": name, **more}
    return f"example,h)/a 20260101000000 {json.dumps(members)}\n".encode()


CDX = b" CDX N b a m s k r M V g u\n"
COLUMNS = f"h)/a 20260101000000 http://h/a text/plain 200 {BASE32} - - 7 %s <urn:uuid:1>\n"


@pytest.mark.parametrize(
    ("octets", "hints"),
    [
        (line(), [CdxHint(SHA1, "a.warc", 0)]),
        (line(digest=BASE32, offset="12"), [CdxHint(SHA1, "a.warc", 12)]),  # the form of old pywb versions
        (line(digest=f"sha1:{SHA1.hex()}"), [CdxHint(SHA1, "a.warc", 0)]),
        (CDX + (COLUMNS % "a.warc.gz").encode(), [CdxHint(SHA1, "a.warc.gz", 7)]),
        # the form of wget
        (CDX + (COLUMNS % "/where/it/was/a.warc.gz").encode(), [CdxHint(SHA1, "a.warc.gz", 7)]),
        (CDX.replace(b"V", b"v") + (COLUMNS % "a.warc").encode(), [CdxHint(SHA1, "a.warc", 7)]),
        (gzip.compress(line(), mtime=0) + gzip.compress(line(), mtime=0), [CdxHint(SHA1, "a.warc", 0)] * 2),
        (line(mime="warc/revisit") + line(), [CdxHint(SHA1, "a.warc", 0)]),
        (line(offset=-1), [None]),
        (line(offset="9" * 19), [None]),
        (line(offset=None), [None]),
        (line(name="../"), [None]),
        (line(name="a/.."), [None]),
        (line(name="a\0b"), [None]),
        (line(name="\ud800"), [None]),
        (line(digest="sha256:" + "0" * 64), [None]),
        (line(digest="-"), [None]),
        (b"h)/a 20260101000000 [1]\n", [None]),
        (b"h)/a 20260101000000 " + b"[" * 60_000 + b"\n", [None]),
        (b"h)/a 20260101000000\n\n\xff\n", [None] * 3),
        (CDX + b"h)/a\n", [None]),
        (b" CDX \n" + b"h)/a\n", [None]),
        (b"", []),
    ],
)  # fmt: skip
def test_read_hints_parses_each_line(octets: bytes, hints: list[CdxHint | None]) -> None:
    assert list(read_hints(Octets(octets))) == hints


@pytest.mark.parametrize("octets", [b"x" * (MAX_LINE + 1), gzip.compress(line(), mtime=0)[:-3]])
def test_read_hints_of_other_file_raises(octets: bytes) -> None:
    with pytest.raises(LocalError, match="not an archive index"):
        list(read_hints(Octets(octets)))


@given(st.binary(max_size=300))
def test_read_hints_accepts_any_bytes(octets: bytes) -> None:
    for prefix in (b"", CDX, line()[:-1], b"\x1f\x8b\x08"):
        try:
            hints = list(read_hints(Octets(prefix + octets)))
        except LocalError:
            continue
        assert all(hint is None or "/" not in hint.name for hint in hints)


def find(folder: Path, archive: bytes, captured: CapturedObject = TEXT, *lines: bytes) -> str | None:
    """Return the ID of the record found."""
    (folder / "a.warc").write_bytes(archive)
    (folder / "a.cdxj").write_bytes(b"".join(lines) or line())
    earlier = EarlierArchives([str(folder / "a.cdxj")])
    try:
        original = earlier.find(captured)
    finally:
        earlier.close()
    return None if original is None else original.id


def answer(body: bytes, *, head: bytes = b"HTTP/1.1 200 OK\r\n\r\n", **more: str) -> bytes:
    return record(head + body, **{**RESPONSE, **more})


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize(
    ("archive", "captured", "is_found"),
    [
        (record(BODY, Content_Type="text/plain"), TEXT, True),
        (packed(record(BODY, Content_Type="text/plain")), TEXT, True),
        (record(BODY, Content_Type="text/html"), TEXT, False),
        (record(BODY[:-1] + b"x", Content_Type="text/plain"), TEXT, False),
        (record(BODY + b"x", Content_Type="text/plain"), TEXT, False),
        (record(BODY, Content_Type="text/plain", WARC_Truncated="length"), TEXT, False),
        (record(BODY, Content_Type="text/plain", WARC_Type="revisit"), TEXT, False),
        (record(BODY, Content_Type="text/plain")[:-1], TEXT, False),
        (record(BODY, Content_Type="text/plain", length="9" * 18), TEXT, False),
        (b"", TEXT, False),
        (b"what a person wrote", TEXT, False),
        # fields that would be repeated: no password, no second line, no text that is not a date
        (record(BODY, Content_Type="text/plain", WARC_Target_URI="ftp://u:p@h.example/a"), TEXT, False),
        (record(BODY, Content_Type="text/plain", WARC_Target_URI="ftp://h.example/a\rX: y"), TEXT, False),
        (record(BODY, Content_Type="text/plain", WARC_Record_ID="<\u00e9>"), TEXT, False),
        (record(BODY, Content_Type="text/plain", WARC_Date="yesterday"), TEXT, False),
        (answer(BODY), ANSWER, True),
        (answer(CHUNKS, head=CHUNKED), ANSWER._replace(payload_digest=None), True),
        (answer(CHUNKS, head=CHUNKED), ANSWER, False),  # with another framing
        (answer(BODY), ANSWER._replace(payload_digest=None), False),
        (answer(CHUNKS[:-3], head=CHUNKED), ANSWER._replace(payload_digest=None), False),
        (answer(BODY, head=b"HTTP/1.1 404 Not Found\r\n\r\n"), ANSWER, False),
        (answer(BODY), TEXT, False),
        (record(BODY, Content_Type="text/plain"), ANSWER, False),
    ],
)
def test_find_returns_only_matching_records(
    archive: bytes, captured: CapturedObject, is_found: bool, tmp_path: Path
) -> None:
    assert find(tmp_path, archive, captured) == ("<urn:uuid:1>" if is_found else None)


def test_find_tries_later_hints(tmp_path: Path) -> None:
    archive = record() + record(BODY, Content_Type="text/plain", WARC_Record_ID="<urn:uuid:2>")
    begin = len(record())
    assert find(tmp_path, archive, TEXT, line("none.warc"), line(), line(offset=begin)) == "<urn:uuid:2>"
    assert find(tmp_path, archive, TEXT, line(offset=begin + 10**17)) is None


def test_find_ignores_small_and_truncated_blocks(tmp_path: Path) -> None:
    small = make_resource("text/plain", RecordBlock.from_octets(BODY[:100]), None)
    digest = f"sha1:{base64.b32encode(hashlib.sha1(BODY[:100]).digest()).decode()}"
    archive = record(BODY[:100], Content_Type="text/plain")
    assert find(tmp_path, archive, small, line(digest=digest)) is None
    whole = record(BODY, Content_Type="text/plain")
    assert find(tmp_path, whole, TEXT._replace(truncated="time")) is None


def test_find_looks_in_pywb_archive_folder(tmp_path: Path) -> None:
    for name in ("indexes", "archive"):
        (tmp_path / name).mkdir()
    (tmp_path / "archive" / "a.warc").write_bytes(record(BODY, Content_Type="text/plain"))
    (tmp_path / "indexes" / "index.cdxj").write_bytes(line())
    earlier = EarlierArchives([str(tmp_path / "indexes" / "index.cdxj")])
    assert earlier.find(TEXT) is not None
    earlier.close()


def test_find_stops_reading_oversized_record(tmp_path: Path) -> None:
    archive = packed(record(BODY + bytes(64 * 1_048_576), Content_Type="text/plain"))
    tracemalloc.start()
    try:
        assert find(tmp_path, archive) is None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * 1_048_576


def test_earlier_archives_without_index_raises(tmp_path: Path) -> None:
    for name in (WARC / "gopher.warc.gz", WARC / "hostile" / "names.warc", tmp_path / "none", tmp_path):
        with pytest.raises(LocalError, match=str(name)):
            EarlierArchives([str(name)])


def test_earlier_archives_counts_unread_lines(tmp_path: Path) -> None:
    (tmp_path / "a.cdxj").write_bytes(line() + b"nonsense\n" + line())
    earlier = EarlierArchives([str(tmp_path / "a.cdxj")])
    assert earlier.unread == 1
    earlier.close()


# Keys of the index, as pywb looks them up.

# The output of the surt package, which pywb uses for lookups.
KEYS = {
    "http://h.example/a": "example,h)/a",
    "http://h.example": "example,h)/",
    "http://www.h.example:80/A/": "example,h)/a",
    "gopher://www.h.example/a": "example,h)/a",
    "ftp://h.example/A": "example,h)/a",
    "ftp://u@ftp.h.example:2121/a%2Fb": "example,h,ftp:2121)/a/b",
    "http://h.example/?PHPSESSID=0123456789abcdef0123456789ABCDEF&x=1": "example,h)/?x=1",
    "http://h.example/?b=2&a=1": "example,h)/?a=1&b=2",
    "nntp://h.example/a.b/7": "example,h)/a.b/7",
    "http://127.0.0.1:8080/a": "1,0,0,127:8080)/a",
    "http://[::1]:8080/a": "::1:8080)/a",
    "news:X@H.example": "news:x@h.example",
    "file:///etc/motd": "file:/etc/motd",
}


@pytest.mark.parametrize(("url", "key"), KEYS.items())
def test_key_of_agrees_with_surt(url: str, key: str) -> None:
    assert make_key(url) == make_key(url, parse(url)) == key


@pytest.mark.parametrize(
    "url", ["http://h.example/a b", "http://h.example/\u00e9", "http://h.example/%0A%20"]
)
def test_key_of_is_one_ascii_token(url: str) -> None:
    assert make_key(url).isascii()
    assert len(make_key(url).split()) == 1


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_recorder_replaces_incomplete_first_record_of_killed_run(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    Recorder(path).close()
    octets = path.read_bytes()
    for size in range(10, len(octets), 1 if FULL else 7):
        path.write_bytes(octets[:size])
        with Recorder(path) as recorder:
            assert recorder.cut == size
        assert len(path.read_bytes()) in range(len(octets) - 20, len(octets) + 20)


@pytest.mark.parametrize("kind", ["response", "metadata"])
def test_recorder_keeps_incomplete_first_record_of_another_program(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(record(WARC_Type=kind)[:-9])
    with pytest.raises(LocalError):
        Recorder(path)
    assert path.read_bytes() == record(WARC_Type=kind)[:-9]


def test_recorder_writes_capture_after_truncated_capture_with_same_octets(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    row = registry.find("ftp")
    assert row is not None
    url = "ftp://h.example/a"
    subject = CaptureSubject(url, Masked(url), "user", 1, None, "", row, "content")
    sizes = []
    for truncated in ("disconnect", None, None):
        captured = make_resource("text/plain", RecordBlock.from_octets(BODY), truncated)
        with Recorder(path, once=True) as recorder:
            before = path.stat().st_size
            recorder.write_group(RecordGroup(subject, datetime.now(UTC), None, [], None, captured, None, b""))
            sizes.append(path.stat().st_size - before)
    assert sizes[0] > sizes[1] > len(BODY)
    assert sizes[2] == 0
