"""Reading of complete archives: recorded, damaged and arbitrary bytes; payloads of records."""

from __future__ import annotations

import json
import struct
import tracemalloc
import zlib
from contextlib import suppress
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resolver import Headers, LocalError
from resolver.warc.check import Payload
from resolver.warc.records import MAX_READ, DamagedSpan, RecordHead, WarcRecord, read_records
from tests.resolver.warc.archives import WARC, Kept, Octets, packed, record, source_of


def _lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (WARC / path).read_text().splitlines()]


def _read(octets: bytes) -> list[WarcRecord[Kept] | DamagedSpan]:
    return list(read_records(Octets(octets), Kept))


RECORDED = _lines("expected.jsonl")
FILES = [item for item in RECORDED if "records" in item]
BLOCKS = [item for item in RECORDED if "url" in item and item.get("type") not in (None, "http")]


@pytest.mark.parametrize("expected", FILES, ids=lambda expected: expected["file"])
def test_read_records_of_recorded_files_cover_the_file(expected: dict[str, Any]) -> None:
    items = list(read_records(source_of(expected["file"]), Kept))
    assert [type(item) for item in items] == [WarcRecord] * expected["records"]
    ends = [item.end for item in items if isinstance(item, WarcRecord)]
    starts = [item.offset for item in items]
    assert starts == [0, *ends[:-1]]
    assert ends[-1] == expected["octets"]


def test_read_records_blocks_have_recorded_digests() -> None:
    count = 0
    for expected in BLOCKS:
        for item in read_records(source_of(expected["file"]), Kept):
            assert isinstance(item, WarcRecord)
            head = item.head
            if head.type == "resource" and (head.target, head.get_first("WARC-Date")) == (
                expected["url"],
                expected["date"],
            ):
                count += 1
                assert head.get_first("Content-Type") == expected["type"]
                assert f"sha256:{sha256(item.reader.block).hexdigest()}" == expected["sha256"]
    assert count == len(BLOCKS) > 15


#: Files of wget and wpull, and the number of records in each.
FOREIGN = {"wget-http": 32, "wget-ftp": 6, "wget-dedup": 8, "wpull": 12}


@pytest.mark.parametrize("name", FOREIGN)
def test_read_records_of_other_programs(name: str) -> None:
    items = list(read_records(source_of(f"foreign/{name}.warc.gz"), Kept))
    assert [type(item) for item in items] == [WarcRecord] * FOREIGN[name]


@pytest.mark.parametrize("expected", _lines("hostile/expected.jsonl"), ids=lambda expected: expected["file"])
def test_read_records_of_hostile_files_stop_at_damage(expected: dict[str, Any]) -> None:
    """Expect the number of complete records before the first damage, its position, and its kind."""
    source = source_of(expected["file"])
    items = list(read_records(source, Kept))
    damage = next((index for index, item in enumerate(items) if isinstance(item, DamagedSpan)), None)
    whole = items[:damage]
    assert len(whole) == expected["records"]
    assert source.max_size <= MAX_READ
    if damage is not None:
        first = items[damage]
        assert isinstance(first, DamagedSpan)
        assert first.offset == expected.get("good", 0)
        if b"url-resolver" in b"".join(
            item.reader.block for item in whole[:1] if isinstance(item, WarcRecord)
        ):
            assert first.is_cut == expected["cut"]


def test_read_records_resumes_after_damage() -> None:
    records = [record(str(number).encode()) for number in range(4)]
    members = [packed(item) for item in records]
    broken = bytearray(members[1])
    broken[30] ^= 0xFF
    first, damage, *rest = _read(members[0] + bytes(broken) + members[2] + members[3])
    assert isinstance(first, WarcRecord)
    assert isinstance(damage, DamagedSpan)
    assert (damage.offset, damage.resumes) == (len(members[0]), len(members[0]) + len(broken))
    assert [item.reader.block for item in rest if isinstance(item, WarcRecord)] == [b"2", b"3"]


def test_read_records_finds_record_after_wrong_length() -> None:
    """A length is too short in an uncompressed file."""
    good = record()
    items = _read(good + record(b"1234567", length="3") + good)
    assert [type(item) for item in items] == [WarcRecord, DamagedSpan, WarcRecord]
    assert items[2].offset == len(good) + len(record(b"1234567", length="3"))


@pytest.mark.parametrize("begin", [MAX_READ - 12, MAX_READ - 3, MAX_READ, 3 * MAX_READ - 7])
def test_read_records_finds_record_at_any_position(begin: int) -> None:
    for octets in (record(), packed(record())):
        start = octets[:3] if octets[:2] == b"\x1f\x8b" else b"WARC"
        rubbish = start + b"x" * (begin - len(start))
        rubbish = rubbish[:-4] + b"\r\n\r\n"
        damage, following = _read(rubbish + octets)
        assert isinstance(damage, DamagedSpan)
        assert (damage.resumes, following.offset) == (begin, begin)


@pytest.mark.parametrize(
    ("octets", "words"),
    [
        (b"WARC/0.18\r\n", "version other than"),
        (b"WARC/2.0\n", "version other than"),
        (packed(b"WARC/0.17\r\n"), "version other than"),
        (b"filedesc://a.arc 0.0.0.0 20261122 text/plain 76\n", "ARC"),
        (b"\x28\xb5\x2f\xfd....\n", "zstd"),
        (b"\x5d\x2a\x4d\x18....\n", "zstd"),
    ],
)
def test_read_records_names_other_formats(octets: bytes, words: str) -> None:
    with pytest.raises(LocalError, match=words):
        _read(octets)


@pytest.mark.parametrize(
    ("octets", "words"),
    [
        (record(length="-1"), "not a number"),
        (record(length="9" * 19), "not a number"),
        (record(length="٣"), "not a number"),
        (record(length="5, 5"), "not a number"),
        (record(length="5\r\nContent-Length: 5"), "got 2"),
        (record(WARC_X="a\0b"), "NUL"),
        (record().replace(b"WARC-Date:", b"WARC Date:"), "lacks a name"),
        (record().replace(b"WARC-Date:", b"WARC-Date"), "lacks a name"),
        (record(WARC_X="x" * MAX_READ), "longer than"),
        (record(WARC_X="\r\nX: ".join("x" * 1000)), "1000 lines"),
        (record(WARC_X="\r\nX: ".join(["x" * 60_000] * 5)), "longer than"),
        (record(length="4"), "CR LF CR LF"),
        (record(b"", length="5000"), "before the end of a block"),
        (record()[:-1], "CR LF CR LF"),
        (packed(record()) + record(), "gzip-compressed and uncompressed"),
        (packed(record()) + b"x", "gzip-compressed and uncompressed"),
    ],
)
def test_read_records_invalid_head_is_damage(octets: bytes, words: str) -> None:
    *_, damage = _read(octets)
    assert isinstance(damage, DamagedSpan)
    assert words in damage.message


def test_read_records_accepts_lenient_heads() -> None:
    """Line ends without CR in a head, folded fields, names in any case, bytes that are not UTF-8."""
    octets = b"WARC/1.0\nwarc-type: RESOURCE\ncontent-length: 2\nx: a\n\tb\nWARC-Target-URI: <ftp://h/\xe9>\n\nab\r\n\r\n"
    (item,) = _read(octets)
    assert isinstance(item, WarcRecord)
    assert (item.head.type, bytes(item.reader.block), item.head.get_first("X")) == (
        "resource",
        b"ab",
        "a b",
    )
    assert item.head.target == "ftp://h/\udce9"


def test_read_records_of_shared_member() -> None:
    items = _read(packed(record(b"a") + record(b"b")))
    assert [item.shares_member for item in items if isinstance(item, WarcRecord)] == [True, False]
    assert [item.offset for item in items] == [0, 0]


def test_read_records_memory_is_bounded() -> None:
    class Counting:
        def __init__(self, head: object) -> None:
            self.count = 0

        def take(self, octets: bytes) -> None:
            self.count += len(octets)

    archive = packed(record(bytes(64 * 1_048_576)))
    tracemalloc.start()
    try:
        (item,) = read_records(Octets(archive), Counting)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(item, WarcRecord)
    assert item.reader.count == 64 * 1_048_576
    assert peak < 1_048_576


#: A record that extends to the end of the file, despite the bytes that follow.
LONG = record(b"", length="999999999").removesuffix(b"\r\n\r\n")


def overlapping(count: int, rest: bytes) -> bytes:
    """Return `count` members, each with the heads of the following ones, and `rest` at the end.

    The heads are in stored blocks (RFC 1951 3.2.4).
    """
    head = b"\x1f\x8b\x08" + bytes(7)
    begin = b"\0" + struct.pack("<HH", len(LONG), len(LONG) ^ 0xFFFF) + LONG
    over = len(head + begin)
    return (head + begin + b"\0" + struct.pack("<HH", over, over ^ 0xFFFF)) * count + head + begin + rest


def _dense(size: int) -> bytes:
    """Return deflate data without an end that unpacks to about 1,000 times its size."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(bytes(size)) + packer.flush(zlib.Z_SYNC_FLUSH) + b"\x07"


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(overlapping(20, _dense(8_388_608)), id="overlapping members"),
        pytest.param(LONG * 1000, id="lengths to the end"),
    ],
)
def test_read_records_overlapping_damage_exceeds_the_budget(octets: bytes) -> None:
    source = Octets(record() + octets if octets.startswith(b"WARC") else packed(record()) + octets)
    items = read_records(source, Kept)
    assert isinstance(next(items), WarcRecord)
    with pytest.raises(LocalError, match="keep the records before the first damage"):
        list(items)
    assert source.read < 100_000_000


def test_read_records_of_many_damaged_records_is_within_the_budget() -> None:
    """All lengths in a file are wrong, as after a conversion of line ends."""
    octets = record(b"12345", length="7") * 3_000
    items = _read(octets + record())
    assert [type(item) for item in items] == [*[DamagedSpan] * 3_000, WarcRecord]


SAMPLES = [(WARC / name).read_bytes() for name in ("gopher.warc.gz", "hostile/names.warc")]


@example(0, 0, 0, b"")
@given(
    st.integers(0, len(SAMPLES) - 1), st.integers(0, 10_000), st.integers(0, 10_000), st.binary(max_size=8)
)
def test_read_records_of_changed_file_covers_it(index: int, start: int, end: int, instead: bytes) -> None:
    """A truncated, repeated or changed file yields records and damage in order, without errors.

    The first of them begins at offset 0.
    """
    octets = SAMPLES[index]
    changed = octets[:start] + instead + octets[min(start, end) :]
    try:
        items = _read(changed)
    except LocalError:
        return  # the file begins as another format does
    offsets = [item.offset for item in items]
    assert offsets == sorted(offsets)
    if changed:
        assert offsets[0] == 0


@example(b"filedesc:")
@given(st.binary(max_size=300))
def test_read_records_accepts_any_bytes(octets: bytes) -> None:
    for prefix in (b"", b"WARC/1.1\r\n", packed(record())):
        with suppress(LocalError):  # the file begins as another format does
            for item in _read(prefix + octets):
                assert item.offset <= len(prefix + octets)


# The payload of a record without its framing, for any segmentation of the block.

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def payload_of(
    block: bytes, step: int, content_type: str = "application/http;msgtype=response"
) -> tuple[bytes, bool]:
    """Return the payload, and whether it is complete."""
    payload = Payload(RecordHead(Headers((("Content-Type", content_type),)), len(block)))
    pieces = [payload.take(block[at : at + step]) for at in range(0, len(block), step)]
    return b"".join(pieces), payload.is_whole


@pytest.mark.parametrize("step", [1, 7, 100_000])
@pytest.mark.parametrize(
    ("block", "content", "is_whole"),
    [
        (OK + b"\r\nabc", b"abc", True),
        (OK + b"\r\n", b"", True),
        (OK.replace(b"\r", b"") + b"\nabc", b"abc", True),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"\r\nabc", b"abc", True),
        (CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", b"abc", True),
        (CHUNKED + b"3\r\nabc\r\n", b"abc", False),
        (CHUNKED + b"x\r\nabc\r\n", b"", False),
        (b"no head at all", b"", True),
    ],
)
def test_payload_of_http_answer_has_no_framing(
    block: bytes, content: bytes, is_whole: bool, step: int
) -> None:
    assert payload_of(block, step) == (content, is_whole)


def test_payload_of_other_type_is_the_block() -> None:
    assert payload_of(CHUNKED, 3, "text/plain") == (CHUNKED, True)


@given(st.binary(max_size=300), st.sampled_from([b"", OK, CHUNKED, CHUNKED + b"3\r\nabc\r\n"]))
def test_payload_of_any_bytes_is_independent_of_segmentation(octets: bytes, before: bytes) -> None:
    assert payload_of(before + octets, 1_000)[1] == payload_of(before + octets, 1)[1]
