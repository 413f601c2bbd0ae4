"""Tests of HTTP/1.1 through h11, and of the fast path for plain heads.

Responses arrive complete, byte by byte, at the limits, and malformed.
"""

from __future__ import annotations

from collections.abc import Iterable

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocols.http.http1 import Http1Exchange, read_plain, write_plain
from protocols.http.request import HttpRequest, prepare
from protocols.http.response import BodyFraming, ResponseHead
from protocols.wire import Buffer, run_reader
from resolver import Disconnected, LimitExceeded, Limits, ProtocolError, Refused, ResolveError

HOST = (b"Host", b"h")
SMALL = Limits(line=40, lines=3)


def exchange(
    method: bytes = b"GET", limits: Limits | None = None, *headers: tuple[bytes, bytes]
) -> Http1Exchange:
    made = Http1Exchange(prepare(method, b"/", [HOST, *headers]), limits or Limits())
    made.encode_piece(b"")
    return made


def read(octets: bytes, limits: Limits | None = None, method: bytes = b"GET") -> ResponseHead:
    return run_reader(exchange(method, limits).read_head, octets)


HEAD = b"HTTP/1.1 200 Very Well\r\nContent-Length: 3\r\nX-A: \xe9  b\r\nx-a: c\r\n\r\n"


def test_read_head_gives_response_head() -> None:
    head = read(HEAD)
    assert (head.status, head.reason, head.shown) == (200, "Very Well", "200 Very Well")
    assert head.fields == (("content-length", "3"), ("x-a", "\xe9  b"), ("x-a", "c"))
    assert (head.framing, head.length, head.values("x-a")) == (BodyFraming.LENGTH, 3, ["\xe9  b", "c"])


@pytest.mark.parametrize("octets", [HEAD, b"HTTP/1.1 100 Wait\r\n\r\n" + HEAD, HEAD.replace(b"\r", b"")])
@pytest.mark.parametrize("step", [1, 2, 7, 1000])
def test_read_head_leaves_following_bytes_for_every_split(octets: bytes, step: int) -> None:
    buffer = Buffer()
    waiting = exchange().read_head(buffer)
    head = None
    octets += b"abc"
    for start in range(0, len(octets), step):
        try:
            next(waiting)
        except StopIteration as done:
            head = done.value
            buffer.feed(octets[start:])
            break
        buffer.feed(octets[start : start + step])
    else:
        with pytest.raises(StopIteration) as done_late:
            next(waiting)
        head = done_late.value.value
    assert head == read(HEAD)
    assert buffer.take() == b"abc"


def status_and(*lines: bytes) -> bytes:
    return b"".join(line + b"\r\n" for line in (b"HTTP/1.1 200 OK", *lines, b""))


@pytest.mark.parametrize(
    ("octets", "limit"),
    [
        (status_and(b"A: b", b"A: b", b"A: b"), None),
        (status_and(b"A: b", b"A: b", b"A: b", b"A: b"), "lines"),
        (b"HTTP/1.1 103 Early\r\n\r\n" * 5 + status_and(), "lines"),  # all heads count together
        (status_and(b"A: " + b"b" * 35), None),  # 40 bytes with the line end
        (status_and(b"A: " + b"b" * 36), "line"),
        (b"HTTP/1.1 200 " + b"x" * 40, "line"),  # without a line end
    ],
)
def test_read_head_line_limits(octets: bytes, limit: str | None) -> None:
    if limit is None:
        assert read(octets, SMALL).status == 200
        return
    with pytest.raises(LimitExceeded) as caught:
        read(octets, SMALL)
    assert caught.value.limit == limit
    assert caught.value.exit_code == 7


LARGE = b"X: " + b"x" * 60_000


@pytest.mark.parametrize(
    ("octets", "limits", "limit"),
    [
        (status_and(*[LARGE] * 4), Limits(), None),
        (status_and(*[LARGE] * 5), Limits(), "lines"),
        (status_and(LARGE).replace(b"200", b"103") * 3 + status_and(LARGE), Limits(), None),
        (status_and(LARGE).replace(b"200", b"103") * 4 + status_and(LARGE), Limits(), "lines"),
        (status_and(*[b"X: x"] * 60_000), Limits(lines=100_000), "lines"),
        (status_and(b"X: " + b"x" * 900_000), Limits(line=1_000_000), None),  # as configured
        (status_and(*[LARGE] * 17), Limits(line=1_000_000), "lines"),
    ],
)
def test_read_head_total_size_is_limited(octets: bytes, limits: Limits, limit: str | None) -> None:
    if limit is None:
        assert read(octets, limits).status == 200
        return
    with pytest.raises(LimitExceeded, match="head of the response") as caught:
        read(octets, limits)
    assert (caught.value.limit, caught.value.exit_code) == (limit, 7)


@pytest.mark.parametrize(
    "octets",
    [
        *(b"<html>hi", b"ICY 200 OK\r\n", b"\r\nHTTP/1.1 200 OK\r\n\r\n", b"HTTX", b"\0"),
        *(
            b"HTTP/2.0 200 OK\r\n\r\n",
            b"HTTP/2",
            b"HTTP/3.0",
            b"HTTP/0.9 200 OK\r\n",
            b"HTTP/11",
            b"http/1.1 200",
        ),
    ],
)
def test_read_head_of_other_protocol_raises_early(octets: bytes) -> None:
    buffer = Buffer()
    buffer.feed(octets)
    with pytest.raises(ProtocolError, match="status line"):
        next(exchange().read_head(buffer))


@pytest.mark.parametrize("cut", range(len(HEAD)))
def test_read_head_truncated_raises_disconnected(cut: int) -> None:
    with pytest.raises(Disconnected):
        read(HEAD[:cut])


@pytest.mark.parametrize(
    ("fields", "status", "reusable"),
    [
        ([], b"1.1 200", True),
        ([b"Connection: keep-alive"], b"1.1 200", True),
        ([b"Connection: close"], b"1.1 200", False),
        ([b"Connection: x, Close"], b"1.1 200", False),
        ([], b"1.0 200", False),
        ([b"Connection: keep-alive"], b"1.0 200", False),
        ([b"Connection: close"], b"1.1 404", False),
    ],
)
def test_exchange_reusable_by_connection_field(fields: list[bytes], status: bytes, reusable: bool) -> None:
    made = exchange()
    octets = b"".join(line + b"\r\n" for line in (b"HTTP/" + status + b" OK", *fields, b""))
    run_reader(made.read_head, octets)
    assert (made.state is not None) is reusable


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked", "both"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nContent-Length: 1", "both"),
        (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked", "HTTP/1.0"),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\ntransfer-encoding: chunked", "HTTP/1.0"),
    ],
)
@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_read_head_with_invalid_transfer_coding_raises(method: bytes, head: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        run_reader(exchange(method).read_head, head + b"\r\n\r\n")


def test_exchange_not_reusable_after_client_close() -> None:
    made = exchange(b"GET", None, (b"Connection", b"close"))
    run_reader(made.read_head, status_and(b"Content-Length: 0"))
    assert made.state is None


CHUNKED = b"5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nX-T: u\r\n\r\n"


def dechunk(pieces: Iterable[bytes], limits: Limits | None = None) -> tuple[bytes, bytes, bool]:
    """Return the data, the bytes left in the buffer, and whether the end was seen."""
    made = exchange(limits=limits)
    run_reader(made.read_head, status_and(b"Transfer-Encoding: chunked"))
    buffer, data = Buffer(), b""
    for piece in pieces:
        buffer.feed(piece)
        if not made.ended:
            data += made.take_chunks(buffer)
    return data, buffer.take(), made.ended


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_take_chunks_leaves_following_bytes_for_every_split(step: int) -> None:
    octets = CHUNKED + b"HTTP"
    pieces = [octets[start : start + step] for start in range(0, len(octets), step)]
    assert dechunk(pieces) == (b"hello world", b"HTTP", True)


@pytest.mark.parametrize("cut", range(len(CHUNKED)))
def test_take_chunks_truncated_is_not_ended(cut: int) -> None:
    data, left, ended = dechunk([CHUNKED[:cut]])
    assert (b"hello world".startswith(data), left, ended) == (True, b"", False)


@pytest.mark.parametrize(
    ("octets", "limit"),
    [
        (b"x", None),
        (b"-1\r\n", None),
        (b" 5\r\nhello\r\n", None),
        (b"0x5\r\nhello\r\n", None),
        (b"5\r\nhelloworld\r\n", None),
        (b"5\nhello\n0\n\n", None),  # a bare LF does not end a chunk line: it would allow request smuggling
        (b"f" * 21 + b"\r\n", None),
        (b"5;" + b"a" * 60, "line"),
        (b"0\r\nA" + b"a" * 60, "line"),
        (b"0\r\n" + b"A: b\r\n" * 4 + b"\r\n", "lines"),
        (b"0\r\nA b\r\n\r\n", None),
    ],
)
def test_take_chunks_malformed_raises(octets: bytes, limit: str | None) -> None:
    with pytest.raises(ProtocolError) as caught:
        dechunk([octets, b"\r\n" * 30], SMALL)
    assert getattr(caught.value, "limit", None) == limit
    assert "hello" not in str(caught.value), "an error with octets of a body"


def test_take_chunks_error_has_no_body_bytes() -> None:
    with pytest.raises(ProtocolError) as caught:
        dechunk([b"2\r\nhi-secret\r\n"])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "pieces", "sent"),
    [
        ([(b"Content-Length", b"3")], [b"a", b"bc"], b"abc"),
        ([(b"Transfer-Encoding", b"chunked")], [b"a", b"bc"], b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"),
        ([], [], b""),
    ],
)
def test_encode_piece_by_request_framing(
    headers: list[tuple[bytes, bytes]], pieces: list[bytes], sent: bytes
) -> None:
    made = Http1Exchange(prepare(b"POST", b"/", [HOST, *headers]), Limits())
    lines = [made.encode_piece(piece) for piece in (*pieces, b"")]
    assert b"".join(line.octets for line in lines) == sent


@pytest.mark.parametrize("pieces", [[b"abcd"], [b"ab"], [b"abc", b"d"]])
def test_encode_piece_length_mismatch_is_refused(pieces: list[bytes]) -> None:
    made = Http1Exchange(prepare(b"POST", b"/", [HOST, (b"Content-Length", b"3")]), Limits())
    with pytest.raises(Refused):
        _ = [*map(made.encode_piece, (*pieces, b""))]


@pytest.mark.parametrize(
    "headers", [[], [HOST, HOST], [HOST, (b"A b", b"c")], [HOST, (b"A", b"b\r\nc")], [HOST, (b"A", b"\0")]]
)
def test_prepare_invalid_headers_are_refused(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(Refused) as caught:
        Http1Exchange(prepare(b"GET", b"/", headers), Limits())
    assert caught.value.rule == "S02"


WORDS = [
    *(b"HTTP/1.1 ", b"200 OK", b"100 C", b"\r\n", b"\n", b"\r\n\r\n", b"Content-Length: ", b"5", b"hello"),
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip", b"0", b"A: b", b": ", b"\0", b"\xff", b" "),
    *(b"Connection: close", b"fffffffff", b";", b"101 S", b"204 N", b"99999999999999999999", b"-"),
]
octets_like_http = st.lists(st.sampled_from(WORDS) | st.binary(max_size=6), max_size=30).map(b"".join)


@given(octets_like_http | octets_like_http.map(lambda octets: b"HTTP/1.1 200 OK\r\n" + octets))
def test_exchange_any_bytes_give_value_or_error(octets: bytes) -> None:
    made, buffer = exchange(limits=SMALL), Buffer()
    buffer.feed(octets)
    buffer.feed(b"")
    try:
        with pytest.raises(StopIteration) as done:
            next(made.read_head(buffer))
        head = done.value.value
        if head.framing is BodyFraming.CHUNKED:
            assert isinstance(made.take_chunks(buffer), bytes)
        assert isinstance([*head.content_type, head.codings, head.announced], list)
    except ResolveError:
        pass


# Plain heads are written and read in one step. The fast path accepts only heads that h11 accepts, with the
# same result.

PLAIN_HOST = (b"Host", b"h.example:81")
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


def written_by_h11(request: HttpRequest) -> bytes | None:
    """Return the bytes that h11 writes if the connection stays reusable, else None."""
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
@example(b"GET", b"/", [(b"Accept", b"a\r\nX: y")])
def test_write_plain_matches_h11(method: bytes, target: bytes, fields: list[tuple[bytes, bytes]]) -> None:
    for headers in (fields, [PLAIN_HOST, *fields]):
        request = HttpRequest(method, target, tuple(headers))
        expected = written_by_h11(request)
        try:
            written = write_plain(request, ())
            assert written is None or written.octets == expected
        except Refused:
            assert expected is None


@pytest.mark.parametrize("value", [b"a\r\nX: b", b"a\nX: b", b"a\rX: b", b"a\r", b"a\n", b"a\r\n", b"a\0"])
def test_exchange_refuses_line_end_in_unchecked_field(value: bytes) -> None:
    for request in (
        HttpRequest(b"GET", b"/x", (PLAIN_HOST, (b"Accept", value))),
        HttpRequest(b"GET", b"/x HTTP/1.1\r\nX: " + value, (PLAIN_HOST,)),
    ):
        with pytest.raises(Refused) as caught:
            Http1Exchange(request, Limits())
        assert caught.value.rule == "S02"


def test_write_plain_accepts_only_simple_requests() -> None:
    headers = (PLAIN_HOST, (b"User-Agent", b"a/1 (b)"), (b"Accept", b"*/*"))
    octets = b"GET /x HTTP/1.1\r\nHost: h.example:81\r\nUser-Agent: a/1 (b)\r\nAccept: */*\r\n\r\n"
    written = write_plain(HttpRequest(b"GET", b"/x", headers), ())
    assert written is not None
    assert written.octets == octets
    assert write_plain(HttpRequest(b"GET", b"/x", (*headers, (b"connection", b"Keep-Alive"))), ()) is not None
    assert write_plain(HttpRequest(b"GET", b"/x", (*headers, (b"connection", b"keep-alive, x"))), ()) is None
    assert write_plain(HttpRequest(b"GET", b"/x", headers, b"body"), ()) is None
    assert write_plain(HttpRequest(b"GET", b"/x", headers[1:]), ()) is None


def plain_read(
    octets: bytes, method: bytes = b"GET", limits: Limits | None = None
) -> tuple[ResponseHead | None, bytes]:
    buffer = Buffer()
    buffer.feed(octets)
    return read_plain(buffer, method, limits or Limits()), buffer.take()


def read_by_h11(octets: bytes, method: bytes) -> tuple[int, str, list[tuple[str, str]], str]:
    """Return the head and the body reader that h11 chooses; errors of h11 are raised."""
    machine = h11.Connection(h11.CLIENT)
    machine.send(h11.Request(method=method, target="/", headers=[PLAIN_HOST]))
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
def test_read_plain_matches_h11(
    status: bytes, fields: list[tuple[bytes, bytes, bytes, bytes]], method: bytes
) -> None:
    octets = b"".join([status, b"\r\n", *(part for field in fields for part in field), b"\r\n"])
    head, left = plain_read(octets + b"body", method)
    if head is None:
        assert left == octets + b"body"
        return
    taken = (octets + b"body").removesuffix(left)
    code, reason, pairs, reader = read_by_h11(taken, method)
    assert (head.status, head.reason, list(head.fields)) == (code, reason, pairs)
    assert head.framing in (BodyFraming.LENGTH, BodyFraming.NONE)
    assert reader == "ContentLengthReader"


def test_read_plain_gives_response_head() -> None:
    head, left = plain_read(PLAIN + b"abc")
    fields = (("server", "s"), ("content-length", "3"), ("connection", "keep-alive"), ("etag", ""))
    assert head == ResponseHead(200, "OK", fields, BodyFraming.LENGTH, 3)
    assert left == b"abc"
    assert plain_read(PLAIN, b"HEAD")[0] == ResponseHead(200, "OK", fields, BodyFraming.NONE, None)


@pytest.mark.parametrize(
    "octets",
    [
        *(PLAIN[:cut] for cut in (0, 7, 40, len(PLAIN) - 1)),
        PLAIN.replace(b"\r\n", b"\n"),
        PLAIN.replace(b"1.1", b"1.0"),
        PLAIN.replace(b"keep-alive", b"close"),
        PLAIN.replace(b"200 OK", b"100 Continue"),
        PLAIN.replace(b"Content-Length", b"X"),  # the body ends with the connection
        PLAIN.replace(b"ETag: ", b"Transfer-Encoding: chunked"),
        PLAIN.replace(b"ETag: ", b"content-length: 3"),  # a second length, although equal
        PLAIN.replace(b"ETag: ", b"ETag: \xe9"),
        PLAIN.replace(b"3", b"3, 3"),
        PLAIN.replace(b"3", b"-3"),
        PLAIN.replace(b"Server: s", b"Server: s\r\n t"),
        PLAIN.replace(b"Server:", b"Server :"),
        PLAIN.replace(b"Server: s", b"Server: s "),
    ],
)
def test_read_plain_leaves_doubtful_heads(octets: bytes) -> None:
    assert plain_read(octets) == (None, octets)


@pytest.mark.parametrize(
    ("limits", "plain"), [((len(PLAIN), 4), True), ((len(PLAIN) - 1, 4), False), ((200, 3), False)]
)
def test_read_plain_leaves_heads_beyond_limits(limits: tuple[int, int], plain: bool) -> None:
    line, lines = limits
    head, _ = plain_read(PLAIN, limits=Limits(line=line, lines=lines))
    assert (head is not None) is plain


def test_read_plain_of_blanks_takes_linear_time() -> None:
    """A pattern that tries each blank in two places would take minutes."""
    octets = PLAIN.replace(b"Server: s", b"Server:" + b" \t" * 30_000 + b"\x01")
    assert plain_read(octets) == (None, octets)
