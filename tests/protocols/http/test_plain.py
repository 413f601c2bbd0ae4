"""Heads that are written and read in one step: nothing that h11 would not take, and all as it takes it."""

from __future__ import annotations

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocols.http.http1 import read_plain, write_plain
from protocols.http.request import HttpRequest
from protocols.http.response import BodyFraming, ResponseHead
from protocols.wire import Buffer
from resolver import Limits

HOST = (b"Host", b"h.example:81")
NAMES = st.sampled_from(
    b"Host|hOST|User-Agent|Content-Length|Transfer-Encoding|Connection|TE|Accept|Expect|Upgrade|ETag|Set-Cookie"
    b"|X Y|X:|| X|X-\xe9".split(b"|")
)
VALUES = st.one_of(
    st.sampled_from(
        [b"chunked", b"close", b"Keep-Alive", b"keep-alive", b"5", b"05", b"+5", b"5, 5", b"1" * 19]
    )
    | st.sampled_from(
        [b"1" * 20, b"a  b\tc", b"", b" a ", b"a\x0bb", b"a\r\nX: y", b"a\r\n b", b"\xe9", b"a\0b"]
    ),
    st.binary(max_size=4),
)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=4)
ENDS = st.sampled_from([b"\r\n"] * 8 + [b"\n", b"\r", b"\r\n ", b" \r\n", b"\r\n\r\n"])
PLAIN = b"HTTP/1.1 200 OK\r\nServer: s\r\nContent-Length: \t3\r\nConnection: keep-alive\r\nETag: \r\n\r\n"


def by_h11(request: HttpRequest) -> bytes | None:
    """What h11 writes, where it lets the connection serve again."""
    machine = h11.Connection(h11.CLIENT)
    try:
        octets = machine.send(
            h11.Request(method=request.method, target=request.target, headers=list(request.headers))
        )
        machine.send(h11.EndOfMessage())
    except h11.LocalProtocolError:
        return None
    return octets if machine.our_state is h11.DONE else None


@given(
    st.sampled_from([b"GET", b"HEAD", b"POST", b"CONNECT", b"G T"]),
    st.sampled_from([b"/", b"/a b", b""]),
    FIELDS,
)
@example(b"GET", b"/a?b", [(b"User-Agent", b"a b"), (b"Accept", b"*/*")])
def test_what_is_written_is_what_h11_writes(
    method: bytes, target: bytes, fields: list[tuple[bytes, bytes]]
) -> None:
    for headers in (fields, [HOST, *fields]):
        request = HttpRequest(method, target, tuple(headers))
        written = write_plain(request)
        assert written is None or written.octets == by_h11(request)


def test_what_is_plain_to_write() -> None:
    headers = (HOST, (b"User-Agent", b"a/1 (b)"), (b"Accept", b"*/*"))
    octets = b"GET /x HTTP/1.1\r\nHost: h.example:81\r\nUser-Agent: a/1 (b)\r\nAccept: */*\r\n\r\n"
    written = write_plain(HttpRequest(b"GET", b"/x", headers))
    assert written is not None
    assert written.octets == octets
    assert write_plain(HttpRequest(b"GET", b"/x", (*headers, (b"connection", b"Keep-Alive")))) is not None
    assert write_plain(HttpRequest(b"GET", b"/x", (*headers, (b"connection", b"keep-alive, x")))) is None
    assert write_plain(HttpRequest(b"GET", b"/x", headers, b"body")) is None
    assert write_plain(HttpRequest(b"GET", b"/x", headers[1:])) is None


def read(
    octets: bytes, method: bytes = b"GET", limits: Limits | None = None
) -> tuple[ResponseHead | None, bytes]:
    buffer = Buffer()
    buffer.feed(octets)
    return read_plain(buffer, method, limits or Limits()), buffer.take()


def judged_by_h11(octets: bytes, method: bytes) -> tuple[int, str, list[tuple[str, str]], str]:
    """The same head as h11 reads it, and how it says that the body ends. Raises what h11 raises."""
    machine = h11.Connection(h11.CLIENT)
    machine.send(h11.Request(method=method, target="/", headers=[HOST]))
    machine.send(h11.EndOfMessage())
    machine.receive_data(octets)
    event = machine.next_event()
    assert isinstance(event, h11.Response)
    assert machine.our_state is h11.DONE, "h11 would not use the connection again"
    fields = [(name.decode(), value.decode()) for name, value in event.headers]
    return event.status_code, event.reason.decode(), fields, type(machine._reader).__name__


@given(
    st.sampled_from(
        [b"HTTP/1.1 200 OK", b"HTTP/1.1 404", b"HTTP/1.1 304 ", b"HTTP/1.0 200 OK", b"HTTP/1.1 101 a"]
    ),
    st.lists(st.tuples(NAMES, st.sampled_from([b":", b": ", b":\t ", b" : "]), VALUES, ENDS), max_size=4),
    st.sampled_from([b"GET", b"HEAD"]),
)
def test_what_is_read_is_what_h11_reads(
    status: bytes, fields: list[tuple[bytes, bytes, bytes, bytes]], method: bytes
) -> None:
    octets = b"".join([status, b"\r\n", *(part for field in fields for part in field), b"\r\n"])
    head, left = read(octets + b"body", method)
    if head is None:
        assert left == octets + b"body"
        return
    taken = (octets + b"body").removesuffix(left)
    code, reason, pairs, reader = judged_by_h11(taken, method)
    assert (head.status, head.reason, list(head.fields)) == (code, reason, pairs)
    assert head.framing in (BodyFraming.LENGTH, BodyFraming.NONE)
    assert reader == "ContentLengthReader"


def test_what_is_plain_to_read() -> None:
    head, left = read(PLAIN + b"abc")
    fields = (("server", "s"), ("content-length", "3"), ("connection", "keep-alive"), ("etag", ""))
    assert head == ResponseHead(200, "OK", fields, BodyFraming.LENGTH, 3)
    assert left == b"abc"
    assert read(PLAIN, b"HEAD")[0] == ResponseHead(200, "OK", fields, BodyFraming.NONE, None)


@pytest.mark.parametrize(
    "octets",
    [
        *(PLAIN[:cut] for cut in (0, 7, 40, len(PLAIN) - 1)),
        PLAIN.replace(b"\r\n", b"\n"),
        PLAIN.replace(b"1.1", b"1.0"),
        PLAIN.replace(b"keep-alive", b"close"),
        PLAIN.replace(b"200 OK", b"100 Continue"),
        PLAIN.replace(b"Content-Length", b"X"),  # the end of the connection ends it
        PLAIN.replace(b"ETag: ", b"Transfer-Encoding: chunked"),
        PLAIN.replace(b"ETag: ", b"content-length: 3"),  # twice, were it the same
        PLAIN.replace(b"ETag: ", b"ETag: \xe9"),
        PLAIN.replace(b"3", b"3, 3"),
        PLAIN.replace(b"3", b"-3"),
        PLAIN.replace(b"Server: s", b"Server: s\r\n t"),
        PLAIN.replace(b"Server:", b"Server :"),
        PLAIN.replace(b"Server: s", b"Server: s "),
    ],
)
def test_where_there_is_a_doubt_nothing_is_taken(octets: bytes) -> None:
    assert read(octets) == (None, octets)


@pytest.mark.parametrize(
    ("limits", "plain"), [((len(PLAIN), 4), True), ((len(PLAIN) - 1, 4), False), ((200, 3), False)]
)
def test_what_could_be_beyond_a_limit_is_read_line_by_line(limits: tuple[int, int], plain: bool) -> None:
    line, lines = limits
    head, _ = read(PLAIN, limits=Limits(line=line, lines=lines))
    assert (head is not None) is plain


def test_a_line_of_blanks_takes_no_square_of_its_length() -> None:
    """With a pattern that tries each blank in two places this would take minutes."""
    octets = PLAIN.replace(b"Server: s", b"Server:" + b" \t" * 30_000 + b"\x01")
    assert read(octets) == (None, octets)
