"""The request: which octets ask for a URL (RFC 9112 3, RFC 9110 5 to 12).

The target is the URL's own path and search, as written. What a header may hold is checked by h11 when
the head is put together; here stands what the caller may not set and what is never shown.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from protocols.errors import NotConfigured, Refused
from protocols.http.url import HttpUrl
from protocols.location import HostUrl
from protocols.options import Credentials, Options

Headers: TypeAlias = "tuple[tuple[bytes, bytes], ...]"

#: Headers whose values are shown as `****` (S17), by what their names say.
_SECRET = re.compile(rb"auth|cookie|key|passw|secret|session|signature|token", re.IGNORECASE)

#: What the URL, the connection or the machine decides; a caller who set one would break the framing or
#: name another host than the one that was judged.
_NOT_THE_CALLERS = frozenset(
    {
        b"accept-encoding",
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"if-range",
        b"keep-alive",
        b"range",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_GRAPHIC = re.compile(rb"[\x21-\x7e]+")
_TOKEN = re.compile(rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")


@lru_cache(maxsize=256)
def _is_secret(name: bytes) -> bool:
    return _SECRET.search(name) is not None


class Request(NamedTuple):
    """What is sent, but for a body."""

    method: bytes
    target: bytes
    headers: Headers

    @property
    def secrets(self) -> Headers:
        """The headers whose values are not to be shown."""
        return tuple((name, value) for name, value in self.headers if value and _is_secret(name))

    @property
    def whom(self) -> Headers:
        """As whom it asks: what must be equal for two requests to share a connection (S11)."""
        return self.secrets


def compose(
    url: HttpUrl, options: Options, credentials: Credentials | None, codings: Sequence[str]
) -> Request:
    """A GET for the URL, or a HEAD where only facts are wanted. `codings` are those we can undo; a part of
    the object is asked for without any.

    Raises `Refused` (S02) for octets that cannot be sent, `NotConfigured` for a header that the caller
    cannot set.
    """
    check_headers((*options.headers, (b"User-Agent", options.user_agent)))
    headers = {
        b"Host": host_of(url),
        b"User-Agent": options.user_agent,
        b"Accept": b"*/*",
        b"Accept-Encoding": ", ".join(codings).encode("ascii") or b"identity",
    }
    if options.start and options.want != "facts":
        from protocols.http.part import range_headers  # few retrievals begin behind what is held

        headers |= {b"Accept-Encoding": b"identity", **range_headers(options.start, options.known)}
    if credentials is not None:
        headers[b"Authorization"] = encode_basic(credentials)
    set_already = {name.lower() for name, _ in options.headers}
    return prepare(
        b"HEAD" if options.want == "facts" else b"GET",
        target_of(url),
        [
            *((name, value) for name, value in headers.items() if value and name.lower() not in set_already),
            *options.headers,
        ],
    )


def prepare(method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Request:
    """A request of any method. Raises `Refused` (S02) unless every octet of the target is 21–7E."""
    if not _GRAPHIC.fullmatch(target):
        raise Refused("S02", "the request target may hold nothing but graphic ASCII")
    return Request(method, target, tuple((name, value.strip(b" \t")) for name, value in headers))


def target_of(url: HttpUrl) -> bytes:
    """Path and search as written, not normalised. Raises `Refused` (S02) for anything outside ASCII;
    `prepare` sees to the rest."""
    search = "" if url.search is None else f"?{url.search}"
    try:
        return f"/{url.path or ''}{search}".encode("ascii")
    except UnicodeEncodeError as error:
        raise Refused("S02", "path and search may hold nothing but graphic ASCII") from error


def host_of(url: HostUrl) -> bytes:
    """The Host header: the port only where it is not the scheme's own (RFC 9110 7.2)."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    port = "" if url.effective_port == url.default_port else f":{url.effective_port}"
    return f"{host}{port}".encode("ascii")


def encode_basic(credentials: Credentials) -> bytes:
    """RFC 7617. Raises `Refused` (S02) for octets that would not arrive as they are."""
    for name, octets, refused in (
        ("user", credentials.user, b"\0\n\r:"),
        ("password", credentials.password, b"\0\n\r"),
    ):
        for octet in refused:
            if octet in octets:
                raise Refused("S02", f"octet {octet:02X} cannot be part of a {name} for http")
    pair = credentials.user + b":" + credentials.password
    return b"Basic " + b2a_base64(pair, newline=False)


def check_headers(headers: Headers) -> None:
    """May the caller set these? Raises `NotConfigured`, never showing a value."""
    for name, value in headers:
        shown = name.decode("latin-1")
        if not _TOKEN.fullmatch(name):
            raise NotConfigured(f"{shown!r} is not the name of a header")
        if name.lower() in _NOT_THE_CALLERS:
            raise NotConfigured(f"the header {shown} is not for the caller to set")
        if not _VALUE.fullmatch(value):
            raise NotConfigured(f"the value of the header {shown} holds a control character")
