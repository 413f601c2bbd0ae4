"""Going on behind octets held already: how it is asked for, and what counts as an answer."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from protocols.http.request import check_part, range_headers, strong_etag
from protocols.http.response import BodyFraming, ResponseHead
from resolver import HttpUrl, Options, ProtocolError, ResolveError, Validators
from resolver.testing.transcript import Connection, TranscriptTurn
from tests.protocols.in_memory import MemoryGate
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as

WHEN = datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)
DATE = b"Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("known", "condition"),
    [
        (Validators(), None),
        (Validators(size=9), None),
        (Validators(modified=WHEN), DATE),
        (Validators(modified=WHEN.replace(tzinfo=None)), DATE),
        (Validators(modified=WHEN, etag='"a\xe9"'), b'"a\xe9"'),
    ],
)
def test_a_part_of_the_same_object_is_asked_for(known: Validators, condition: bytes | None) -> None:
    headers = range_headers(7, known)
    assert headers.pop(b"Range") == b"bytes=7-"
    assert headers == ({} if condition is None else {b"If-Range": condition})
    assert range_headers(7, known, 9) == {b"Range": b"bytes=7-8", **headers}


@pytest.mark.parametrize(
    ("value", "tag"),
    [('"a"', '"a"'), ('""', '""'), ('W/"a"', None), ("a", None), ('"a', None), ('"a"b"', None), ("", None)],
)
def test_only_a_strong_tag_tells_octets_apart(value: str, tag: str | None) -> None:
    assert strong_etag(ResponseHead(200, "", (("etag", value),))) == tag


def partial(*ranges: str, length: int | None = 3, coding: str = "") -> ResponseHead:
    fields = [("content-range", value) for value in ranges]
    fields += [("content-encoding", coding)] if coding else []
    return ResponseHead(206, "", tuple(fields), BodyFraming.LENGTH if length else BodyFraming.CHUNKED, length)


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (partial("bytes 7-9/10"), 10),
        (partial("Bytes 7-9/*"), None),
        (partial("bytes 7-9/10", length=None), 10),
        (partial("bytes 7-9/10", coding="identity"), 10),
    ],
)
def test_the_part_that_was_asked_for(head: ResponseHead, size: int | None) -> None:
    assert check_part(head, 7) == size


@pytest.mark.parametrize(
    ("head", "start", "size"),
    [
        (partial("bytes 7-9/20"), 7, 20),
        (partial("bytes 7-9/10"), 7, 10),
        (partial("bytes 7-9/*", length=None), 7, None),
        (partial("bytes 0-9/20", length=10), 0, 20),
    ],
)
def test_the_part_up_to_where_it_was_asked_for(head: ResponseHead, start: int, size: int | None) -> None:
    assert check_part(head, start, 10) == size


@pytest.mark.parametrize(
    "head",
    [
        partial("bytes 7-8/20", length=2),
        partial("bytes 7-10/20", length=4),
        partial("bytes 6-9/20", length=4),
        partial("bytes 7-9/9"),
        partial("bytes 7-9/20", length=4),
        partial("bytes 7-9/20")._replace(framing=BodyFraming.CLOSE, length=None),  # it may go on for ever
    ],
)
def test_another_part_than_up_to_there(head: ResponseHead) -> None:
    with pytest.raises(ProtocolError):
        check_part(head, 7, 10)


@pytest.mark.parametrize(
    "head",
    [
        partial(),
        partial(""),
        partial("bytes 6-9/10", length=4),
        partial("bytes 8-9/10", length=2),
        partial("bytes 7-8/10", length=2),  # not to the end
        partial("bytes 7-9/9"),
        partial("bytes 7-6/7", length=None),
        partial("bytes 7-9/10", length=4),
        partial("bytes 7-9/10", "bytes 7-9/10"),
        partial("items 7-9/10"),
        partial("bytes */10"),
        partial("bytes 7-9/99999999999999999999"),
        partial(f"bytes 7-{2**63}/{2**63 + 1}", length=None),
        partial("bytes 7-9/10", coding="gzip"),
    ],
)
def test_another_part_is_a_protocol_error(head: ResponseHead) -> None:
    with pytest.raises(ProtocolError):
        check_part(head, 7)


def request(*more: bytes) -> bytes:
    lines = (b"GET /x HTTP/1.1", b"Host: h.dom", b"User-Agent: url-resolver", b"Accept: */*")
    return b"".join(line + b"\r\n" for line in (*lines, b"Accept-Encoding: identity", *more, b""))


ASKED = TranscriptTurn("C", request(b"Range: bytes=2-", b'If-Range: "1"'))
OPTIONS = Options(start=2, known=Validators(etag='"1"'), want="file")


def answer(status: bytes, *fields: bytes, body: bytes = b"") -> TranscriptTurn:
    lines = (b"HTTP/1.1 " + status, *fields, b"Content-Length: %d" % len(body), b"", body)
    return TranscriptTurn("S", b"\r\n".join(lines))


@pytest.mark.parametrize(
    ("turns", "start", "size", "body"),
    [
        ([answer(b"206 P", b"Content-Range: bytes 2-4/5", body=b"llo")], 2, 5, b"llo"),
        ([answer(b"200 OK", body=b"hello")], 0, 5, b"hello"),  # changed, or not to be had in parts
    ],
)
async def test_the_body_begins_where_the_reply_says(
    turns: list[TranscriptTurn], start: int, size: int, body: bytes
) -> None:
    gate = MemoryGate([Connection((ASKED, *turns), "left")], options=OPTIONS, logins=[None])
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert (reply.start, reply.size) == (start, size)
        assert b"".join([octets async for octets in reply.body]) == body
    assert reply.verified == {"length"}
    gate.check_finished()


async def test_an_object_that_became_shorter_is_asked_for_anew() -> None:
    gone = Connection((ASKED, answer(b"416 No", b"Content-Range: bytes */1", body=b"no")), "left")
    whole = Connection((TranscriptTurn("C", request()), answer(b"200 OK", b'ETag: "2"', body=b"h")), "left")
    gate = MemoryGate([gone, whole], options=OPTIONS, logins=[None])
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert (reply.start, reply.size, reply.etag) == (0, 1, '"2"')
        assert [octets async for octets in reply.body] == [b"h"]
    gate.check_finished()


@pytest.mark.parametrize(
    "fields",
    [
        (b"Content-Range: bytes 3-4/5",),
        (b"Content-Range: bytes 2-4/5", b"Content-Encoding: gzip"),
        (b"Content-Type: multipart/byteranges; boundary=x",),
        (),
    ],
)
async def test_where_another_part_comes_the_whole_is_asked_for(fields: tuple[bytes, ...]) -> None:
    another = Connection((ASKED, answer(b"206 P", *fields, body=b"llo")), "left")
    whole = Connection((TranscriptTurn("C", request()), answer(b"200 OK", body=b"hello")), "left")
    gate = MemoryGate([another, whole], options=OPTIONS, logins=[None])
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert (reply.start, reply.size) == (0, 5)
        assert [octets async for octets in reply.body] == [b"hello"]
    gate.check_finished()


async def test_another_part_again_ends_the_retrieval() -> None:
    """Nobody asked for a part the second time."""
    part = answer(b"206 P", b"Content-Range: bytes 3-4/5", body=b"lo")
    turns = [Connection((asked, part), "left") for asked in (ASKED, TranscriptTurn("C", request()))]
    gate = MemoryGate(turns, options=OPTIONS, logins=[None])
    with pytest.raises(ResolveError) as caught:
        async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate):
            pass
    assert type(caught.value) is ProtocolError
