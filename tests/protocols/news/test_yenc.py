"""The decoder of yEnc: complete files, damaged files, and any bytes."""

from __future__ import annotations

import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.nntp.attachments import PICTURE, encode_yenc, write_yenc, write_yenc_parts
from protocols.errors import ChecksumMismatch, LimitExceeded, ProtocolError, Truncated
from protocols.news.yenc import YencBegin, YencDecoder, YencEnd
from protocols.options import Limits

Event = YencBegin | bytes | YencEnd


def decode(octets: bytes, size: int = 1_000) -> list[Event]:
    decoder = YencDecoder(Limits())
    events = [event for at in range(0, len(octets), size) for event in decoder.feed(octets[at : at + size])]
    return [*events, *decoder.finish()]


def content_of(events: list[Event]) -> bytes:
    return b"".join(event for event in events if isinstance(event, bytes))


def end_of(events: list[Event]) -> YencEnd:
    [end] = (event for event in events if isinstance(event, YencEnd))
    return end


@given(st.binary(max_size=600), st.integers(1, 700))
def test_decode_yenc_in_any_chunks_returns_file(content: bytes, size: int) -> None:
    events = decode(b"a text\r\n" + write_yenc(content, b"a name.bin") + b"after\r\n", size)
    assert events[0] == YencBegin(b"a name.bin", len(content), 0, len(content))
    assert content_of(events) == content
    assert end_of(events) == YencEnd(None, True, None)


@given(st.binary(max_size=400), st.integers(1, 50))
def test_decode_yenc_of_any_bytes_is_value_or_protocol_error(noise: bytes, size: int) -> None:
    for octets in (noise, b"=ybegin line=1 size=9 name=n\r\n" + noise, b"=ybegin " + noise):
        with suppress(ProtocolError):
            decode(octets, size)


def test_decode_yenc_example_of_draft_is_correct() -> None:
    """The escapes of the draft: 214 becomes NUL, so `=@`; 19 becomes `=`, so `=}`."""
    assert encode_yenc(bytes([214, 19, 0, 224, 227])) == b"=@=}*=J=M\r\n"
    text = b"=ybegin line=128 size=5 name=x\r\n=@=}*=J=M\r\n=yend size=5\r\n"
    events = decode(text)
    assert (content_of(events), end_of(events)) == (bytes([214, 19, 0, 224, 227]), YencEnd(None, False, None))


def test_decode_yenc_parts_have_ranges_and_checksum_of_file() -> None:
    found = [decode(text) for text in write_yenc_parts(PICTURE, b"p.bin", 3)]
    assert [events[0] for events in found] == [
        YencBegin(b"p.bin", 1280, 0, 427, 1, 3),
        YencBegin(b"p.bin", 1280, 427, 854, 2, 3),
        YencBegin(b"p.bin", 1280, 854, 1280, 3, 3),
    ]
    assert b"".join(map(content_of, found)) == PICTURE
    assert [end_of(events) for events in found] == [YencEnd(None, True, zlib.crc32(PICTURE))] * 3


TEXT = write_yenc(PICTURE, b"p.bin")
PART = write_yenc_parts(PICTURE, b"p.bin", 2)[0]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (TEXT.partition(b"=yend")[0], Truncated),
        (TEXT[:700], Truncated),
        (TEXT.partition(b"=yend")[0] + TEXT, Truncated),
        (TEXT.replace(b"*+,-", b"*+,"), Truncated),
        (TEXT.replace(b"*+,-", b"*+,,"), ChecksumMismatch),
        (TEXT.replace(b"*+,-", b"*+,--"), ChecksumMismatch),
        (TEXT.replace(b"=yend size=1280", b"=yend size=1281"), ChecksumMismatch),
        (TEXT.replace(b"crc32=", b"crc32=1"), ProtocolError),
        (PART.replace(b"pcrc32=", b"pcrc32=0000000f pcrc32=0"), None),
        (PART.replace(b"*+,-", b"*+,,"), ChecksumMismatch),
    ],
)  # fmt: skip
def test_decode_damaged_yenc_reports_damage(text: bytes, error: type[Exception] | None) -> None:
    if error is ProtocolError:
        with pytest.raises(ProtocolError):
            decode(text)
        return
    ends = [event for event in decode(text) if isinstance(event, YencEnd)]
    assert type(ends[0].error) is (error or type(None))


@pytest.mark.parametrize(
    "text",
    [
        b"=ybegin line=128 size=1\r\n",
        b"=ybegin line=128 size=-1 name=x\r\n",
        b"=ybegin line=128 size=9999999999999999999 name=x\r\n",
        b"=ybegin size=1 name=x\r\n",
        b"=ybegin part=0 line=1 size=1 name=x\r\n",
        b"=ybegin part=3 total=2 line=1 size=1 name=x\r\n",
        b"=ybegin part=1 line=1 size=9 name=x\r\nabc\r\n",
        b"=ybegin part=1 line=1 size=9 name=x\r\n=yend size=9\r\n",
        b"=ybegin part=1 line=1 size=9 name=x\r\n=ypart begin=0 end=9\r\n",
        b"=ybegin part=1 line=1 size=9 name=x\r\n=ypart begin=1 end=10\r\n",
        b"=ybegin part=1 line=1 size=9 name=x\r\n=ypart begin=5 end=4\r\n",
        b"=ybegin line=1 size=9 name=x\r\n=ypart begin=1 end=9\r\n",
        b"=ybegin line=1 size=9 name=x\r\na=\r\nb\r\n",
        b"=ybegin line=1 size=0 name=x\r\n=yend size=0 crc32=xyz\r\n",
    ],
)
def test_decode_invalid_keyword_line_is_protocol_error(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(text)


def test_decode_line_beyond_limit_is_limit_exceeded() -> None:
    with pytest.raises(LimitExceeded):
        decode(b"=ybegin line=128 size=9 name=x\r\n" + b"a" * 70_000)
