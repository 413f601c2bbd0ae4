"""The payload of a record: what is around it goes, however the block comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver import Headers
from resolver.warc.digests import Payload
from resolver.warc.records import RecordHead

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def payload_of(
    block: bytes, step: int, content_type: str = "application/http;msgtype=response"
) -> tuple[bytes, bool]:
    """And whether it is whole."""
    payload = Payload(RecordHead("1.1", Headers((("Content-Type", content_type),)), len(block)))
    made = [payload.take(block[at : at + step]) for at in range(0, len(block), step)]
    return b"".join(made), payload.is_whole


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
def test_what_an_answer_of_http_holds(block: bytes, content: bytes, is_whole: bool, step: int) -> None:
    assert payload_of(block, step) == (content, is_whole)


def test_every_other_block_is_the_payload() -> None:
    assert payload_of(CHUNKED, 3, "text/plain") == (CHUNKED, True)


@given(st.binary(max_size=300), st.sampled_from([b"", OK, CHUNKED, CHUNKED + b"3\r\nabc\r\n"]))
def test_any_octets(octets: bytes, before: bytes) -> None:
    assert payload_of(before + octets, 1_000)[1] == payload_of(before + octets, 1)[1]
