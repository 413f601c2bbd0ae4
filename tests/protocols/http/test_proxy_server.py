"""Heads that a proxy reads, and heads that it refuses because parsers could read them differently."""

from __future__ import annotations

import pytest

from protocols import socks
from protocols.errors import Declined, LimitExceeded, ProtocolError
from protocols.http.proxy_server import (
    MAX_FIELDS,
    MAX_HEAD,
    ProxyConnection,
    ProxyRequest,
    encode_answer,
    forwardable,
)
from protocols.wire import Buffer


def read(octets: bytes, size: int | None = None) -> ProxyRequest:
    buffer = Buffer()
    steps = ProxyConnection().read_request(buffer)
    width = size or len(octets) or 1
    pieces = [octets[start : start + width] for start in range(0, len(octets), width)]
    for piece in [*pieces, b""]:
        try:
            next(steps)
        except StopIteration as end:
            request: ProxyRequest = end.value
            return request
        buffer.feed(piece)
    next(steps)
    raise AssertionError("the reader wants more after the end")


GET = b"GET http://h.example/a HTTP/1.1\r\nHost: h.example\r\n"
POST = b"POST http://h.example/a HTTP/1.1\r\nHost: h.example\r\n"

REFUSED = {
    "bare LF at the end": b"GET http://h.example/ HTTP/1.1\nHost: h.example\n\n",
    "bare LF in a field": GET + b"A: b\nHost: other\r\n\r\n",
    "bare CR": GET + b"A: b\rHost: other\r\n\r\n",
    "NUL": GET + b"A: b\0c\r\n\r\n",
    "obs-fold": GET + b"A: b\r\n c\r\n\r\n",
    "folded with TAB": GET + b"A: b\r\n\tc\r\n\r\n",
    "length and chunks": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
    "chunks and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n",
    "two lengths": POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\n",
    "a list of lengths": POST + b"Content-Length: 4, 5\r\n\r\n",
    "a signed length": POST + b"Content-Length: +4\r\n\r\n",
    "an unknown coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n",
    "a space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n",
    "HTTP/2.0": b"GET http://h.example/ HTTP/2.0\r\nHost: h.example\r\n\r\n",
    "HTTP/0.9": b"GET http://h.example/ HTTP/0.9\r\nHost: h.example\r\n\r\n",
    "no Host": b"GET http://h.example/ HTTP/1.1\r\n\r\n",
    "two Hosts": GET + b"Host: h.example\r\n\r\n",
    "origin form": b"GET / HTTP/1.1\r\nHost: h.example\r\n\r\n",
    "https in absolute form": b"GET https://h.example/ HTTP/1.1\r\nHost: h.example\r\n\r\n",
    "another scheme": b"GET gopher://h.example/ HTTP/1.1\r\nHost: h.example\r\n\r\n",
    "a user": b"GET http://u@h.example/ HTTP/1.1\r\nHost: h.example\r\n\r\n",
    "a backslash": b"GET http://h.example\\@other/ HTTP/1.1\r\nHost: h.example\r\n\r\n",
    "CONNECT without a port": b"CONNECT h.example HTTP/1.1\r\nHost: h.example\r\n\r\n",
    "CONNECT to port 0": b"CONNECT h.example:0 HTTP/1.1\r\nHost: h.example:0\r\n\r\n",
    "CONNECT to a large port": b"CONNECT h.example:65536 HTTP/1.1\r\nHost: h.example:65536\r\n\r\n",
    "CONNECT with a body": b"CONNECT h.example:443 HTTP/1.1\r\nHost: h.example\r\nContent-Length: 1\r\n\r\n",
    "CONNECT to a URL": b"CONNECT http://h.example:443 HTTP/1.1\r\nHost: h.example\r\n\r\n",
    "a TLS ClientHello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "SOCKS4": b"\x04\x01\x01\xbb\x01\x01\x01\x01\x00",
    "an incomplete head": GET,
}


@pytest.mark.parametrize("octets", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("size", [None, 1])
def test_ambiguous_head_is_refused(octets: bytes, size: int | None) -> None:
    with pytest.raises(ProtocolError):
        read(octets, size)


@pytest.mark.parametrize("octets", [GET + b"A: " + b"b" * MAX_HEAD, GET + b"A: b\r\n" * MAX_FIELDS + b"\r\n"])
def test_large_head_is_refused(octets: bytes) -> None:
    with pytest.raises(LimitExceeded):
        read(octets)


@pytest.mark.parametrize("size", [None, 1])
def test_absolute_request_is_forwarded_in_origin_form_without_hop_by_hop_fields(size: int | None) -> None:
    fields = b"Proxy-Authorization: Basic c2VjcmV0\r\nConnection: X-Mine, close\r\nX-Mine: 1\r\nA: b\r\n\r\n"
    request = read(GET + fields, size)
    assert (request.method, request.target, request.is_tunnel) == (b"GET", b"/a", False)
    assert request.fields == [(b"Host", b"h.example"), (b"a", b"b"), (b"Connection", b"close")]


@pytest.mark.parametrize("host", [b"other.example", b"h.example:8080", b"127.0.0.1:8118"])
def test_host_of_the_target_replaces_host(host: bytes) -> None:
    request = read(b"GET http://h.example:81/a HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    assert request.url == "http://h.example:81/a"
    assert request.fields == [(b"Host", b"h.example:81"), (b"Connection", b"close")]


@pytest.mark.parametrize(
    ("method", "rest", "target"),
    [
        *((b"GET", b"", b"/"), (b"GET", b"?q", b"/?q")),
        *((b"OPTIONS", b"", b"*"), (b"OPTIONS", b"?q", b"/?q"), (b"OPTIONS", b"/", b"/")),
    ],
)
def test_target_without_path_is_completed(method: bytes, rest: bytes, target: bytes) -> None:
    assert read(method + b" http://h.example" + rest + b" HTTP/1.1\r\nHost: h\r\n\r\n").target == target


def test_connection_field_cannot_remove_the_framing() -> None:
    fields = [(b"connection", b"content-length, host"), (b"content-length", b"4"), (b"host", b"h.example")]
    assert forwardable(fields) == fields[1:]


@pytest.mark.parametrize(
    ("target", "url"),
    [
        (b"h.example:443", "https://h.example:443/"),
        (b"h.example:80", "http://h.example/"),
        (b"[2001:db8::1]:443", "https://[2001:db8::1]:443/"),
    ],
)
def test_connect_is_checked_as_a_url(target: bytes, url: str) -> None:
    request = read(b"CONNECT " + target + b" HTTP/1.1\r\nHost: " + target + b"\r\n\r\n")
    assert (request.url, request.is_tunnel, request.fields) == (url, True, [])


def test_host_of_connect_is_ignored() -> None:
    request = read(b"CONNECT h.example:443 HTTP/1.1\r\nHost: proxy.example:8118\r\n\r\n")
    assert (request.url, request.fields) == ("https://h.example:443/", [])


def test_bytes_after_the_head_stay_in_the_buffer() -> None:
    buffer = Buffer()
    buffer.feed(b"CONNECT h.example:443 HTTP/1.1\r\nHost: h.example\r\n\r\nhello")
    with pytest.raises(StopIteration):
        next(ProxyConnection().read_request(buffer))
    assert buffer.take() == b"hello"


def test_answer_is_one_complete_response() -> None:
    head, _, body = encode_answer(403, "Forbidden", "S08: no\u20ac").octets.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert b"Content-Type: text/plain" in head
    assert body == b"S08: no\\u20ac\n"


def socks_request(octets: bytes) -> tuple[str, int]:
    buffer = Buffer()
    steps = socks.read_request(buffer)
    for octet in octets:
        next(steps)
        buffer.feed(bytes((octet,)))
    with pytest.raises(StopIteration) as end:
        next(steps)
    place: tuple[str, int] = end.value.value
    return place


@pytest.mark.parametrize(
    ("address", "host"),
    [
        (b"\x01\xc0\x00\x02\x01", "192.0.2.1"),
        (b"\x04" + bytes(15) + b"\x01", "::1"),
        (b"\x03\x09h.example", "h.example"),
    ],
)
def test_socks_request_has_each_address_type(address: bytes, host: str) -> None:
    assert socks_request(b"\x05\x01\x00" + address + b"\x01\xbb") == (host, 443)


SOCKS_REFUSED = {
    "BIND": (b"\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", Declined),
    "UDP": (b"\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50", Declined),
    "address type": (b"\x05\x01\x00\x02\x7f\x00\x00\x01\x00\x50", Declined),
    "version": (b"\x04\x01\x00\x01\x7f\x00\x00\x01\x00\x50", ProtocolError),
    "reserved": (b"\x05\x01\x01\x01\x7f\x00\x00\x01\x00\x50", ProtocolError),
    "empty name": (b"\x05\x01\x00\x03\x00\x00\x50", ProtocolError),
    "URL in the name": (b"\x05\x01\x00\x03\x05a/b@c\x00\x50", ProtocolError),
    "line end in the name": (b"\x05\x01\x00\x03\x03a\r\n\x00\x50", ProtocolError),
    "zone in the name": (b"\x05\x01\x00\x03\x09fe80::1%1\x00\x50", ProtocolError),
}


@pytest.mark.parametrize(("octets", "error"), SOCKS_REFUSED.values(), ids=SOCKS_REFUSED)
def test_socks_request_is_refused(octets: bytes, error: type[Exception]) -> None:
    buffer = Buffer()
    buffer.feed(octets)
    with pytest.raises(error):
        next(socks.read_request(buffer))


@pytest.mark.parametrize(("octets", "agreed"), [(b"\x05\x01\x00", True), (b"\x05\x02\x01\x02", False)])
def test_socks_greeting_needs_a_connection_without_login(octets: bytes, agreed: bool) -> None:
    buffer = Buffer()
    buffer.feed(octets)
    with pytest.raises(StopIteration) as end:
        next(socks.read_methods(buffer))
    assert end.value.value is agreed
