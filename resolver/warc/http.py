"""HTTP requests, responses and URLs in redacted form, for storage in WARC archives.

No header field is removed. Secret values and passwords in URLs are masked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import h11

from protocols.location import HostUrl, Url
from resolver.url import registry
from resolver.url.parsing import build

#: The maximum size in bytes of the parsed heads, including the heads of interim responses.
MAX_HEAD = 262_144

# A search for a pattern is fast if the pattern begins with a fixed byte, such as the LF of the previous line.
HEAD_END = re.compile(rb"\n\r?\n")
_INTERIM = re.compile(rb"HTTP/1\.[01] 1[0-9][0-9](?![0-9])")
#: Some programs archive a response of HTTP/2 or HTTP/3 in the form of HTTP/1.1, but with the newer version.
_NEWER_VERSION = re.compile(rb"\AHTTP/[23](?:\.0)? ")
_STATUS = re.compile(rb"HTTP/(1\.[01]|[23](?:\.0)?) ([0-9]{3})(?:[ \r\n]|\Z)")
_LENGTH = re.compile(rb"\ncontent-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*(?=\r?\n)", re.IGNORECASE)
_TRANSFER_CODING = re.compile(rb"\ntransfer-encoding[ \t]*:", re.IGNORECASE)
#: The start of a chunked body (RFC 9112 7.1), and the maximum number of bytes that the pattern needs.
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}[ \t]*[;\r\n]")
_MAX_CHUNK_SIZE = 32
_RANGE = re.compile(
    rb"\ncontent-range[ \t]*:[ \t]*bytes 0-([0-9]{1,18})/([0-9]{1,18})[ \t]*\r?\n", re.IGNORECASE
)
_PARTIAL = re.compile(rb"\A(HTTP/[0-9.]{1,3}) 206(?=[ \r\n])")
_TYPE = re.compile(rb"\ncontent-type[ \t]*:[ \t]*([^\r\n;]*)", re.IGNORECASE)
#: A header field: the name, the colon, and the value with continuation lines.
_FIELD = re.compile(rb"(?m)^([^\s:]+)([ \t]*:[ \t]*)([^\r\n]*(?:\r?\n[ \t][^\r\n]*)*)")
#: A line of a head that is not a header field.
_OTHER_LINE = re.compile(rb"(?m)^(?![^\s:]+[ \t]*:|[ \t])[^\r\n]+")
#: Header fields that are never masked, even if they contain a sent secret, because readers of a record need
#: these fields.
_FRAMING = frozenset({b"content-encoding", b"content-length", b"content-type", b"transfer-encoding"})
_MASKED = re.compile(rb"(?m)^([^\s:]+)[ \t]*:[^\r\n]*\*\*\*\*")
#: Matches a URL with a password. The length of the scheme is limited to 64 characters, because otherwise the
#: search in a long word would take quadratic time (ReDoS).
_IN_URL = re.compile(rb"(?i)([a-z][a-z0-9+.-]{0,63}://[^\s/?#:@]*:)[^\s/?#@]*@")
_HIDDEN = b"****"
#: Response fields that contain cookies. A session cookie is secret even without a login.
_COOKIES = frozenset({b"set-cookie", b"set-cookie2"})
#: Response fields whose value is derived from a sent secret.
_PROOFS = frozenset({b"authentication-info"})
#: Matches a head in which a cookie or a proof may be masked.
_MAY_HIDE = re.compile(rb"\n(?:set-cookie|authentication-info)", re.IGNORECASE)
#: HTTP status codes of responses that have no body, even if they have a Content-Length field.
BODILESS = frozenset({204, 304})


def has_complete_range(head: bytes) -> bool:
    """Return whether the range of a 206 response is the complete object, as for `Range: bytes=0-`."""
    match = _RANGE.search(head)
    return match is not None and int(match[1]) + 1 == int(match[2])


def read_replay(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield an archived response as a server would send it: the heads, and then the body.

    Some programs archive the decoded body with the Transfer-Encoding of the response. Without the field, the
    end of the record is the end of the body.
    """
    received, answer = read_heads(pieces)
    size = len(received) if answer is None else answer.size
    head, body = received[:size], received[size:]
    if answer is not None and answer.is_coded:
        while len(body) < _MAX_CHUNK_SIZE and (octets := next(pieces, b"")):
            body += octets
        if _CHUNK_SIZE.match(body) is None:
            head = _TRANSFER_CODING.sub(b"\nX-Archived-Transfer-Encoding:", head)
    if has_complete_range(head):
        head = _PARTIAL.sub(rb"\1 200", head)
    yield _NEWER_VERSION.sub(b"HTTP/1.1 ", head)
    yield body
    yield from pieces


class ArchivedHead(NamedTuple):
    """The heads of an HTTP response: the size of the interim heads in bytes, and the final head."""

    interim: int
    head: bytes

    @property
    def size(self) -> int:
        """Return the size of all heads in bytes."""
        return self.interim + len(self.head)

    @property
    def status(self) -> int | None:
        match = _STATUS.match(self.head)
        return None if match is None else int(match[2])

    @property
    def version(self) -> str | None:
        """Return the HTTP version in the form of the WARC-Protocol field."""
        match = _STATUS.match(self.head)
        return None if match is None else f"http/{match[1].decode('ascii')}"

    @property
    def is_coded(self) -> bool:
        """Return whether the body has a transfer coding."""
        return _TRANSFER_CODING.search(self.head) is not None

    @property
    def length(self) -> int | None:
        """Return the body length in bytes that the head states."""
        if self.status in BODILESS:
            return 0
        match = None if self.is_coded else _LENGTH.search(self.head)
        return None if match is None else int(match[1])

    @property
    def media_type(self) -> str | None:
        match = _TYPE.search(self.head)
        return None if match is None else match[1].decode("latin-1").strip().lower() or None


def find_heads(octets: bytes) -> ArchivedHead | None:
    """Return the heads at the start of the received bytes, or None without a complete head."""
    begin = 0
    while (end := HEAD_END.search(octets, begin)) is not None:
        if not _INTERIM.match(octets, begin):
            return ArchivedHead(begin, octets[begin : end.end()])
        begin = end.end()
    return None


def read_heads(pieces: Iterator[bytes]) -> tuple[bytes, ArchivedHead | None]:
    """Read chunks until the heads are complete; return the bytes read, and the heads or None."""
    received = b""
    for octets in pieces:
        received += octets
        if (answer := find_heads(received)) is not None or len(received) > MAX_HEAD:
            return received, answer
    return received, None


def masked_fields(request: bytes) -> list[str]:
    """Return the names of the request fields whose values are masked, in lower case."""
    head = request.partition(b"\r\n\r\n")[0] if _HIDDEN in request else b""
    return [match[1].decode("latin-1").lower() for match in _MASKED.finditer(head)]


def mask_heads(
    head: bytes, *, has_secrets: bool, keeps_cookies: bool, hide: Callable[[bytes], bytes]
) -> tuple[bytes, list[str]]:
    """Return the heads with masked secrets, and the names of the masked fields."""
    names: list[str] = []
    if hide(head) == head:
        if b"@" not in head and _MAY_HIDE.search(head) is None:
            return head, names
        hide = bytes  # No part of the head contains a secret.
    masked_names = (frozenset() if keeps_cookies else _COOKIES) | (_PROOFS if has_secrets else frozenset())

    def mask_field(match: re.Match[bytes]) -> bytes:
        name, value = match[1].lower(), match[3]
        clean = _IN_URL.sub(rb"\1" + _HIDDEN + b"@", value) if b"@" in value else value
        shown = _HIDDEN if name in masked_names else hide(clean)
        if shown != value:
            names.append(hide(name).decode("latin-1"))
        return (match[1] if name in _FRAMING else hide(match[1])) + match[2] + shown

    status = _STATUS.match(head)
    begin = 0 if status is None else status.end(2)
    reason, end, fields = head[begin:].partition(b"\n")
    shown = _FIELD.sub(mask_field, _OTHER_LINE.sub(lambda match: hide(match[0]), fields))
    return head[:begin] + hide(reason) + end + shown, names


class ChunkDecoder:
    """A decoder for a chunked body, which stops at the end of the body or at invalid data."""

    def __init__(self, head: bytes) -> None:
        self._machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self._machine.send(h11.Request(method="GET", target="/", headers=[("Host", "archive.invalid")]))
        self._machine.send(h11.EndOfMessage())
        self.is_whole = self._is_over = False
        self.take(head)

    def take(self, octets: bytes) -> bytes:
        """Return the decoded bytes; the result is empty after the end of the body or after invalid data."""
        if self._is_over or not octets:  # For h11, empty bytes mean the end of the connection.
            return b""
        pieces: list[bytes] = []
        try:
            self._machine.receive_data(octets)
            while isinstance(
                event := self._machine.next_event(), h11.Data | h11.Response | h11.InformationalResponse
            ):
                if isinstance(event, h11.Data):
                    pieces.append(bytes(event.data))
        except h11.RemoteProtocolError:
            self._is_over = True
        else:
            self.is_whole = self._is_over = isinstance(event, h11.EndOfMessage)
        return b"".join(pieces)


# The two forms of a record's URL: the WARC-Target-URI field, and the normalized form for searches.

#: Characters that a URL must not contain (RFC 3986 section 2).
_FORBIDDEN = re.compile(r"[^!#$&-;=?-\[\]_a-z~%]|%(?![0-9A-Fa-f]{2})")


def make_target(url: Url, *, has_user: bool, hide: Callable[[str], str] = str) -> str:
    """Return the value of the WARC-Target-URI field: the URL without password, fragment and zone.

    Args:
        url: The URL.
        has_user: Whether the user name of the URL is included.
        hide: A function that masks secrets in text.
    """
    absent: dict[str, Any] = {
        name: None
        for name in ("password", "fragment", "zone", *(() if has_user else ("user",)))
        if getattr(url, name, None) is not None
    }
    text = build(replace(url, **absent)) if absent else url.text
    return _FORBIDDEN.sub(_escape_match, hide(text))


def normalize_target(url: Url) -> str:
    """Return the normalized form of a URL for searches.

    The host is in lower case, and the default port of the scheme is removed. No other normalization is
    applied.
    """
    row = registry.find(url.scheme)
    plain: dict[str, Any] = {"text": "", "findings": (), "places": (), "fragment": None}
    if isinstance(url, HostUrl):
        plain |= {"host": url.host.lower(), "password": None, "zone": None}
        if url.port == url.default_port:
            plain["port"] = None
        if row is None or not row.userinfo:
            plain["user"] = None
    text = _FORBIDDEN.sub(_escape_match, build(replace(url, **plain)))
    is_bare = row is not None and row.kept_as == "exchange" and "/" not in text.partition("://")[2]
    return f"{text}/" if is_bare and "?" not in text else text  # RFC 9110 section 4.2.3


def _escape_match(match: re.Match[str]) -> str:
    return "".join(f"%{octet:02X}" for octet in match[0].encode("utf-8", "surrogateescape"))
