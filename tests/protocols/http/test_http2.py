"""Tests of HTTP/2 on bytes alone.

Every response is read complete, for every split, with more bytes after it. Any other bytes give a value or a
`ResolveError`.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RemoteSettingsChanged, RequestReceived
from hpack import Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.http.framed_server import frame
from protocols.http.http2 import Http2Exchange, header_section
from protocols.http.request import prepare
from protocols.wire import Buffer
from resolver import Disconnected, LimitExceeded, Limits, ProtocolError, Refused, ResolveError, Truncated
from resolver.network.frames import Http2Frames
from resolver.testing import CUTTERS, Cutter, whole
from tests.sampled import examples

HOST = (b"Host", b"h.example")
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4
GREETING = frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0)
FIVE = b"five\n"


def make_exchange(
    method: bytes = b"GET", limits: Limits | None = None, *headers: tuple[bytes, bytes]
) -> Http2Exchange:
    limits = limits or Limits()
    return Http2Exchange(
        prepare(method, b"/a?b", [HOST, *headers]), limits, Http2Frames(header_section(limits))
    )


def head(*fields: tuple[str, str], status: str = "200", flags: int = END_HEADERS) -> bytes:
    return frame(HEADERS, flags, 1, Encoder().encode([(":status", status), *fields], huffman=False))


def run_exchange(exchange: Http2Exchange, octets: bytes, cutter: Cutter) -> tuple[int, bytes, Buffer]:
    """Return the status, the body and the buffer when the server sends `octets` and closes."""
    buffer = Buffer()
    pieces = iter([*cutter(GREETING + octets), b""])
    heard = None
    while heard is None:
        exchange.send_unsent()
        reader = exchange.read_head(buffer)
        try:
            while True:
                next(reader)
                buffer.feed(next(pieces))
        except StopIteration as done:
            heard = done.value
    body = b""
    while not exchange.ended:
        if octets := exchange.take_data(buffer):
            body += octets
        elif not exchange.ended:
            if buffer.at_end:
                raise exchange.make_cut_error("the connection ended")
            exchange.send_unsent()
            buffer.feed(next(pieces))
    return heard.status, body, buffer


def test_request_frames_match_the_request() -> None:
    exchange = make_exchange(b"GET", None, (b"X-Word", b" of \t"), (b"Authorization", b"Basic QQ=="))
    (step,) = exchange.send_unsent()
    (line,) = step.lines
    server = H2Connection(H2Configuration(client_side=False, header_encoding=None))
    events = server.receive_data(line.octets)
    asked = next(event for event in events if isinstance(event, RequestReceived))
    assert asked.stream_ended is not None
    assert list(asked.headers) == [
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":authority", b"h.example"),
        (b":path", b"/a?b"),
        (b"x-word", b"of"),
        (b"authorization", b"Basic QQ=="),
    ]
    settled = next(event for event in events if isinstance(event, RemoteSettingsChanged))
    assert settled.changed_settings[2].new_value == 0  # ENABLE_PUSH
    assert b"\r\nauthorization: ****\r\n" in line.shown
    assert b"QQ==" not in line.shown
    assert exchange.send_unsent() == ()


@pytest.mark.parametrize("header", [(b"bad name", b""), (b"", b""), (b"x", b"a\r\nb"), (b"x", b"\0")])
def test_request_with_invalid_header_is_refused(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(Refused) as caught:
        make_exchange(b"GET", None, header)
    assert caught.value.rule == "S02"


@pytest.mark.parametrize("cutter", CUTTERS)
@pytest.mark.parametrize(
    ("octets", "status", "body", "reusable"),
    [
        (head() + frame(DATA, END_STREAM, 1, FIVE), 200, FIVE, True),
        (head(("content-length", "5")) + frame(DATA, END_STREAM, 1, FIVE), 200, FIVE, True),
        (head() + frame(DATA, 0, 1, FIVE) + frame(DATA, END_STREAM, 1), 200, FIVE, True),
        (head() + frame(DATA, 8 | END_STREAM, 1, b"\x03" + FIVE + bytes(3)), 200, FIVE, True),
        (head(flags=END_HEADERS | END_STREAM), 200, b"", True),
        (head(("content-length", "5"), status="304", flags=END_HEADERS | END_STREAM), 304, b"", True),
        (head(status="103") + head() + frame(DATA, END_STREAM, 1, FIVE), 200, FIVE, True),
        (frame(PING, 0, 0, bytes(8)) + head() + frame(DATA, END_STREAM, 1, FIVE), 200, FIVE, True),
        (frame(0xF7, 0, 0, b"new") + head() + frame(DATA, END_STREAM, 1, FIVE), 200, FIVE, True),
        # A GOAWAY does not cancel the response in progress (RFC 9113 6.8).
        (
            frame(GOAWAY, 0, 0, bytes((0, 0, 0, 1)) + bytes(4)) + head() + frame(DATA, 1, 1, FIVE),
            200,
            FIVE,
            False,
        ),
        (
            head() + frame(DATA, 0, 1, FIVE) + frame(HEADERS, 5, 1, Encoder().encode([("x-sum", "1")])),
            200,
            FIVE,
            True,
        ),
    ],
)
def test_response_is_complete_for_every_split(
    octets: bytes, status: int, body: bytes, reusable: bool, cutter: Cutter
) -> None:
    exchange = make_exchange()
    got = run_exchange(exchange, octets, cutter)
    assert got[:2] == (status, body)
    assert (exchange.state is not None) == reusable


def test_response_leaves_following_frames() -> None:
    behind = frame(PING, 0, 0, bytes(8))
    _, _, buffer = run_exchange(make_exchange(), head() + frame(DATA, END_STREAM, 1, FIVE) + behind, whole)
    assert buffer.take() == behind


def test_response_to_head_has_no_body() -> None:
    exchange = make_exchange(b"HEAD")
    octets = head(("content-length", "5"), flags=END_HEADERS | END_STREAM)
    assert run_exchange(exchange, octets, whole)[:2] == (200, b"")
    assert exchange.state is not None


@pytest.mark.parametrize("length", ["9" * 5000, "9" * 21, "five", "+5", ""])
def test_response_with_invalid_length_raises(length: str) -> None:
    with pytest.raises(ProtocolError):
        run_exchange(
            make_exchange(b"HEAD"), head(("content-length", length), flags=END_HEADERS | END_STREAM), whole
        )


BIG = head(*((f"x-{number}", "x") for number in range(1001)))
LENGTH_10 = head(("content-length", "10"))
IDLE: dict[str, bytes] = {
    "ping": frame(PING, 0, 0, bytes(8)),
    "settings": frame(SETTINGS, 0, 0),
    "window": frame(WINDOW, 0, 0, bytes((0, 0, 0, 1))),
    "unknown": frame(0xF7, 0, 0),
    "priority": frame(PRIORITY, 0, 1, bytes(5)),
}


@pytest.mark.parametrize("cutter", CUTTERS)
@pytest.mark.parametrize(
    ("octets", "error"),
    [
        (b"", Disconnected),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", ProtocolError),
        (frame(DATA, 0, 0, bytes(16_385)), ProtocolError),
        (frame(RST_STREAM, 0, 1, bytes(4)), Disconnected),
        (frame(GOAWAY, 0, 0, bytes(8)), Disconnected),
        (head()[:-1], Disconnected),
        (head(), Disconnected),
        (head() + frame(RST_STREAM, 0, 1, bytes(4)), Disconnected),
        (head() + frame(DATA, 0, 1, FIVE), Truncated),
        (head() + frame(DATA, 0, 1, FIVE) + frame(RST_STREAM, 0, 1, bytes(4)), Truncated),
        (LENGTH_10 + frame(DATA, END_STREAM, 1, FIVE), Truncated),
        (LENGTH_10 + frame(DATA, 8 | END_STREAM, 1, b"\x02" + FIVE + bytes(2)), Truncated),
        (LENGTH_10 + frame(DATA, END_STREAM, 1, FIVE * 3), ProtocolError),
        (head(("content-length", "10"), flags=END_HEADERS | END_STREAM), Disconnected),
        (head(("content-length", "10"), ("content-length", "11")), ProtocolError),
        (head(("content-length", "-1")), ProtocolError),
        (head(("content-length", str(1 << 64))), ProtocolError),
        (head(("transfer-encoding", "chunked")), ProtocolError),
        (head(("Upper", "case")), ProtocolError),
        (head(("x", "a\0b")), ProtocolError),
        (head(("x", "a\r\nb: c")), ProtocolError),
        (head(status="101"), ProtocolError),
        (head(status="2000"), ProtocolError),
        (head(status="abc"), ProtocolError),
        (frame(HEADERS, END_HEADERS, 1, Encoder().encode([("x", "y")])), ProtocolError),
        (frame(HEADERS, END_HEADERS, 1, b"\xff" * 9), ProtocolError),
        (frame(DATA, 0, 1, FIVE), ProtocolError),
        (
            frame(PUSH, END_HEADERS, 1, bytes((0, 0, 0, 2)) + Encoder().encode([(":path", "/")])),
            ProtocolError,
        ),
        (BIG, LimitExceeded),
        (head(status="103") * 2000, ProtocolError),
        (frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 1) * 2000, ProtocolError),
        (head() + frame(DATA, 0, 1) * 2000, ProtocolError),
    ],
)
def test_response_malformed_raises(octets: bytes, error: type[ResolveError], cutter: Cutter) -> None:
    with pytest.raises(error) as caught:
        run_exchange(make_exchange(), octets, cutter)
    if isinstance(caught.value, Truncated):
        assert caught.value.received == len(FIVE)


@pytest.mark.parametrize("before", [b"", head()], ids=["before the head", "in the body"])
@pytest.mark.parametrize("name", IDLE)
def test_idle_frames_are_limited(name: str, before: bytes) -> None:
    """The client accepts 100 idle frames of each kind, but not 2,000."""
    answer = b"" if before else head()
    good = before + IDLE[name] * 100 + answer + frame(DATA, END_STREAM, 1, FIVE)
    assert run_exchange(make_exchange(), good, whole)[1] == FIVE
    with pytest.raises(ProtocolError):
        run_exchange(make_exchange(), before + IDLE[name] * 2000, whole)


def test_head_line_limit() -> None:
    with pytest.raises(LimitExceeded) as caught:
        run_exchange(make_exchange(b"GET", Limits(line=100)), head(("x", "y" * 100)), whole)
    assert caught.value.limit == "line"
    # one byte each, except the first
    block = Encoder().encode([(":status", "200"), *[("x", "y" * 3_000)] * 30])
    with pytest.raises(LimitExceeded) as caught:
        run_exchange(make_exchange(), frame(HEADERS, END_HEADERS, 1, block), whole)
    assert caught.value.limit == "line"


def test_heads_total_size_is_limited() -> None:
    """The limit holds for the encoded and for the decoded size: HPACK encodes a field in one byte."""
    packed = Encoder()
    section = [("x", "y" * 3_000)] * 20
    interim = [
        frame(HEADERS, END_HEADERS, 1, packed.encode([(":status", "103"), *section])) for _ in range(4)
    ]
    last = frame(HEADERS, END_HEADERS | END_STREAM, 1, packed.encode([(":status", "200")]))
    assert run_exchange(make_exchange(), b"".join([*interim, last]), whole)[0] == 200
    with pytest.raises(LimitExceeded, match="head of the response") as caught:
        run_exchange(make_exchange(), b"".join([*interim, interim[-1], last]), whole)
    assert caught.value.limit == "lines"
    with pytest.raises(LimitExceeded, match="head of the response"):
        run_exchange(
            make_exchange(), frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 1, bytes(16_384)) * 17, whole
        )


def test_flow_control_window_grows_as_data_is_taken() -> None:
    """The server never sends more than the window, and the body never stalls on a closed window."""
    exchange = make_exchange()
    server = H2Connection(H2Configuration(client_side=False))
    server.initiate_connection()
    server.receive_data(_octets(exchange))
    server.send_headers(1, [(":status", "200")])
    buffer = Buffer()
    buffer.feed(server.data_to_send())
    with pytest.raises(StopIteration):
        next(exchange.read_head(buffer))
    assert server.local_flow_control_window(1) == 1 << 20
    for _ in range(100):  # 12 windows
        for _ in range(8):
            server.send_data(1, bytes(16_384))
        buffer.feed(server.data_to_send())
        assert len(exchange.take_data(buffer)) == 8 * 16_384
        server.receive_data(_octets(exchange))
    assert server.local_flow_control_window(1) > 1 << 19


def _octets(exchange: Http2Exchange) -> bytes:
    return b"".join(line.octets for step in exchange.send_unsent() for line in step.lines)


FRAMES = st.builds(
    frame,
    st.sampled_from([*range(10), 0xF7]),
    st.integers(0, 255),
    st.sampled_from([0, 1, 2, 3, 0x8000_0001]),
    st.one_of(st.binary(max_size=40), st.just(bytes(8)), st.just(Encoder().encode([(":status", "200")]))),
)


@settings(max_examples=examples(300))
@given(st.one_of(st.lists(FRAMES, max_size=12).map(b"".join), st.binary(max_size=200)), st.booleans())
@pytest.mark.slow
def test_any_frames_give_value_or_error(octets: bytes, after_head: bool) -> None:
    try:
        status, body, _ = run_exchange(make_exchange(), head() * after_head + octets, whole)
    except ResolveError:
        return
    assert 200 <= status <= 999
    assert isinstance(body, bytes)


@settings(max_examples=examples(200))
@given(st.data())
@pytest.mark.slow
def test_response_with_changed_byte_gives_value_or_error(data: st.DataObject) -> None:
    answer = bytearray(head(("content-length", "5"), ("x", "y")) + frame(DATA, END_STREAM, 1, FIVE))
    answer[data.draw(st.integers(0, len(answer) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ResolveError):
        run_exchange(make_exchange(), bytes(answer), whole)
