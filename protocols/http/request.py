"""The HTTP request for a URL or for a range of its object (RFC 9112 3, RFC 9110 5 to 14).

The request target is the path and search of the URL, unchanged. This module lists the header fields that a
caller must not set, and the fields whose values are never displayed. h11 checks the field values when the
head is written.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from protocols.errors import NotConfigured, ProtocolError, Refused
from protocols.http.response import BodyFraming, ResponseHead, content_length
from protocols.http.url import HttpUrl
from protocols.location import HostUrl
from protocols.options import Credentials, Options, Validators
from protocols.step import Source

Headers: TypeAlias = "tuple[tuple[bytes, bytes], ...]"


class HostFields(tuple[tuple[bytes, bytes], ...]):
    """The header fields of most requests to a host. They contain no secret, so their lines are cached."""


#: Header fields whose names contain these strings are displayed with the value `****` (S17, privacy).
_SECRET = rb"(?i)auth|cookie|key|passw|secret|session|signature|token"

#: Header fields that the URL, the connection or h11 determines. If the caller could set these fields, a value
#: could break the framing (request smuggling) or name a host that was not checked.
_RESERVED = frozenset(
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
_REPEATABLE = frozenset({b"DELETE", b"GET", b"HEAD", b"OPTIONS", b"PUT", b"TRACE"})
_GRAPHIC = re.compile(rb"[\x21-\x7e]+")
_TOKEN = re.compile(rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")


@lru_cache(maxsize=256)
def _is_secret(name: bytes) -> bool:
    return re.search(_SECRET, name) is not None


class HttpRequest(NamedTuple):
    """A request to send.

    A request whose body is a stream can be sent only once. `unkeyed_fields` are not part of the pool key: the
    cookies of the run, which each response may change, and the fields for a proxy, because each proxy login
    has separate connections.
    """

    method: bytes
    target: bytes
    headers: Headers
    body: bytes | Source = b""
    login_key: tuple[bytes, bytes] | None = None
    unkeyed_fields: Headers = ()

    def sign(self, value: bytes, login_key: tuple[bytes, bytes] | None = None) -> HttpRequest:
        """Add the field `Authorization` as the first field, unless the caller has set it.

        `login_key` identifies the login in the pool key. `value` cannot identify the login, because Digest
        computes a new value for each request.
        """
        if has_field(self.headers, b"authorization"):
            return self
        position = max(at for at, (name, _) in enumerate(self.headers, 1) if name.lower() in _RESERVED)
        headers = (*self.headers[:position], (b"Authorization", value), *self.headers[position:])
        return self._replace(headers=headers, login_key=login_key)

    @property
    def secrets(self) -> Headers:
        """Return the header fields whose values must not be displayed."""
        if type(self.headers) is HostFields:
            return ()
        return tuple([(name, value) for name, value in self.headers if value and _is_secret(name)])

    def route_through(self, place: bytes) -> HttpRequest:
        """Return the request for a proxy, with a target in absolute-form (RFC 9112 3.2.2)."""
        return self._replace(target=place + self.target) if self.target.startswith(b"/") else self

    def add_fields(self, fields: Headers) -> HttpRequest:
        """Return the request with header fields that are not part of the pool key."""
        return self._replace(headers=(*self.headers, *fields), unkeyed_fields=(*self.unkeyed_fields, *fields))

    @property
    def repeatable(self) -> bool:
        """Return whether the request may be repeated after an unknown outcome (RFC 9110 9.2.2)."""
        return self.method in _REPEATABLE and isinstance(self.body, bytes)

    def pool_key(self, secrets: Headers) -> Headers:
        """Return the part of the pool key that identifies the login, from the secret fields.

        Only requests with the same pool key share a connection (S11, credential scope).
        """
        if self.unkeyed_fields:
            secrets = tuple(field for field in secrets if field not in self.unkeyed_fields)
        if self.login_key is None:
            return secrets
        return (self.login_key, *(field for field in secrets if field[0] != b"Authorization"))


def compose(url: HttpUrl, options: Options, codings: Sequence[str]) -> HttpRequest:
    """Create the request for the URL.

    The method is HEAD if the caller needs only metadata, otherwise GET.

    Args:
        url: the URL to retrieve.
        options: the range, the conditions and the caller's header fields.
        codings: the supported content codings. A range request does not accept a content coding.

    Raises:
        Refused: the target or a field contains bytes that cannot be sent (S02, header injection).
        NotConfigured: the caller set a header field that callers must not set.
    """
    method = b"HEAD" if options.want == "facts" else b"GET"
    base = _collect_own_fields(url.host, url.port, url.default_port, options.user_agent, tuple(codings))
    extra = _make_conditional_fields(options)
    if not (options.headers or extra):
        return HttpRequest(method, format_target(url), base)
    check_headers(options.headers)
    caller_names = {name.lower() for name, _ in options.headers}
    fields = (
        (name, value) for name, value in {**dict(base), **extra}.items() if name.lower() not in caller_names
    )
    return prepare(method, format_target(url), [*fields, *options.headers])


@lru_cache(maxsize=256)
def _collect_own_fields(
    host: str, port: int | None, default_port: int, user_agent: bytes, codings: tuple[str, ...]
) -> HostFields:
    """Return the header fields that depend only on the host and port."""
    check_headers(((b"User-Agent", user_agent),))
    headers = {
        b"Host": _host(host, port, default_port),
        b"User-Agent": user_agent,
        b"Accept": b"*/*",
        b"Accept-Encoding": ", ".join(codings).encode("ascii") or b"identity",
    }
    return HostFields(prepare(b"GET", b"/", [pair for pair in headers.items() if pair[1]]).headers)


def _make_conditional_fields(options: Options) -> dict[bytes, bytes]:
    """Return the header fields of a range request or a conditional request."""
    if options.want == "facts":
        return {}
    if options.start or options.stop is not None:
        ranges = range_headers(options.start, options.known, options.stop)
        return {b"Accept-Encoding": b"identity", **ranges}
    if options.held is not None:
        return conditions(options.held)
    return {}


def prepare(
    method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]], body: bytes | Source = b""
) -> HttpRequest:
    """Return a request with any method.

    Error messages do not contain the value of a header field, because the value may be secret (S17).

    Raises:
        Refused: the target contains a byte outside 21–7E, or a field is invalid (S02, header injection).
    """
    fields: list[tuple[bytes, bytes]] = []
    for name, written in headers:
        value = written.strip(b" \t")
        if not _TOKEN.fullmatch(name):
            raise Refused("S02", "a header has an invalid name")
        if not _VALUE.fullmatch(value):
            shown = name.decode("latin-1")
            raise Refused("S02", f"the value of the header {shown} holds a control character")
        fields.append((name, value))
    if not _GRAPHIC.fullmatch(target):
        raise Refused("S02", "the request target must be graphic ASCII")
    return HttpRequest(method, target, tuple(fields), body)


def format_target(url: HttpUrl) -> bytes:
    """Return the request target: the path and search part of the URL, as written in the URL.

    Raises:
        Refused: the path or search contains a byte outside 21–7E (S02, header injection).
    """
    search = "" if url.search is None else f"?{url.search}"
    target = f"/{url.path or ''}{search}".encode("utf-8", "surrogatepass")
    if not _GRAPHIC.fullmatch(target):
        raise Refused("S02", "path and search must be graphic ASCII")
    return target


def format_host(url: HostUrl) -> bytes:
    """Return the value of the Host field (RFC 9110 7.2) without the default port of the scheme."""
    return _host(url.host, url.port, url.default_port)


def _host(host: str, port: int | None, default_port: int) -> bytes:
    place = f"[{host}]" if ":" in host else host
    return (place if port in (None, default_port) else f"{place}:{port}").encode("ascii")


def encode_basic(credentials: Credentials) -> bytes:
    """Return the value of `Authorization` for Basic authentication (RFC 7617).

    Raises:
        Refused: the login contains bytes that would change its meaning (S02).
    """
    check_login(credentials, b":")
    pair = credentials.user + b":" + credentials.password
    return b"Basic " + b2a_base64(pair, newline=False)


def check_login(credentials: Credentials, ends_user: bytes = b"") -> None:
    """Check that the login contains no byte that would end the header field.

    If `ends_user` is set, check also that no byte would end the user name early.

    Raises:
        Refused: the login contains a forbidden byte (S02, header injection).
    """
    ends = b"\0\n\r"
    for name, octets, refused in (
        ("user", credentials.user, ends + ends_user),
        ("password", credentials.password, ends),
    ):
        for octet in refused:
            if octet in octets:
                raise Refused("S02", f"byte {octet:02X} cannot be part of a {name} for http")


def has_field(headers: Headers, name: bytes) -> bool:
    """Return whether the header fields include a (lower-case) name."""
    return any(field.lower() == name for field, _ in headers)


def check_headers(headers: Headers) -> None:
    """Check that the caller may set these header fields. An error message does not contain a value.

    Raises:
        NotConfigured: a field is invalid, or the caller must not set the field.
    """
    for name, value in headers:
        shown = name.decode("latin-1")
        if not _TOKEN.fullmatch(name):
            raise NotConfigured(f"{shown!r} is not the name of a header")
        if name.lower() in _RESERVED:
            raise NotConfigured(f"the header {shown} cannot be set by the caller")
        if not _VALUE.fullmatch(value):
            raise NotConfigured(f"the value of the header {shown} holds a control character")


# Range requests (RFC 9110 14) resume a partial file. Conditional requests (13.1) fetch an object only if it
# differs from the local copy.
#
# A range request accepts no content coding, because a range of compressed bytes is not a range of the object.

_CONTENT_RANGE = r"(?ai)bytes ([0-9]{1,19})-([0-9]{1,19})/([0-9]{1,19}|\*)"
_ENTITY_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')


def range_headers(start: int, known: Validators, stop: int | None = None) -> dict[bytes, bytes]:
    """Return the header fields of a range request from byte `start` to `stop`, or to the end.

    If-Range (13.1.5): the server sends the range only if the object has not changed since the version
    `known`.
    """
    headers = {b"Range": b"bytes=%d-" % start if stop is None else b"bytes=%d-%d" % (start, stop - 1)}
    if known.strong_etag is not None:
        headers[b"If-Range"] = known.strong_etag.encode("latin-1")
    elif known.modified is not None:
        from protocols.http.response import format_date  # lazy import: most requests contain no date

        headers[b"If-Range"] = format_date(known.modified).encode("ascii")
    return headers


def conditions(copy: Validators) -> dict[bytes, bytes]:
    """Return the header fields that request the object only if it differs from the local copy.

    The conditions are If-None-Match (13.1.2) and If-Modified-Since (13.1.3).
    """
    headers: dict[bytes, bytes] = {}
    if copy.etag is not None:
        headers[b"If-None-Match"] = copy.etag.encode("latin-1")
    if copy.modified is not None:
        from protocols.http.response import format_date  # lazy import: most requests contain no date

        headers[b"If-Modified-Since"] = format_date(copy.modified).encode("ascii")
    return headers


def entity_tag(head: ResponseHead) -> str | None:
    """Return the entity tag (RFC 9110 8.8.3), or None if it is missing or invalid."""
    tag = head.first.get("etag", "")
    return tag if _ENTITY_TAG.fullmatch(tag) else None


def check_part(head: ResponseHead, start: int, stop: int | None = None) -> int | None:
    """Check that the response has the requested range.

    Without `stop`, the range ends at the end of the object.

    Returns:
        The size of the object, or None if the server does not report the size.

    Raises:
        ProtocolError: the response contains another range, or `Content-Range` is missing or invalid.
    """
    requested = f"the range from byte {start}" if stop is None else f"the range of bytes {start}-{stop - 1}"
    if head.codings:
        raise ProtocolError(
            f"a range was requested, but the response has the content coding {head.codings[0]!r}"
        )
    values = head.values("content-range")
    match = re.fullmatch(_CONTENT_RANGE, values[0]) if len(values) == 1 else None
    if match is None:
        raise ProtocolError(f"{requested} was requested, but the response has no valid Content-Range")
    first, last = int(match[1]), int(match[2])
    size = None if match[3] == "*" else content_length(match[3])
    is_beyond = size is not None and (last >= size if stop is not None else last != size - 1)
    if first != start or last < first or is_beyond or (stop is not None and last != stop - 1):
        raise ProtocolError(f"{requested} was requested, got {values[0]!r}")
    if stop is not None and head.framing is BodyFraming.CLOSE:
        raise ProtocolError(f"{requested} was requested, but the response has no length")
    if head.length is not None and head.length != last - first + 1:
        raise ProtocolError(
            f"the range has {last - first + 1} bytes by Content-Range, {head.length} by Content-Length"
        )
    return size
