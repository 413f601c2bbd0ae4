"""A transport adapter of requests for all schemes of this library.

    session = requests.Session()
    resolver.adapters.requests.mount(session)
    session.get("gopher://gopher.example/0/about.txt").text

If the adapter is mounted for http and https, it uses `resolver.HttpxTransport` for these schemes. The method,
the header fields and the body of a request are sent unchanged. The session of requests handles redirects,
proxies, logins and cookies.

Results of other schemes are converted to http status codes: 200 for success, 404 for a missing resource, 401
for a required login, 403 for denied access, 503 for a temporary refusal, and 502 for any other refusal. The
server's error message is the `reason` of the response. Only GET is supported for these schemes. The only
supported header field is a login (`Authorization`). Other header fields and a request body raise an error
before data is sent.

A failure raises an exception of requests, with the error of this library as its cause. The policy checks the
target of a redirect with the origin `derived` (S10), even if another adapter received the redirect.
"""

from __future__ import annotations

import io
import os
import sys
from array import array
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from email.message import Message
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Unpack, cast

import httpx
from requests import PreparedRequest, Response, Session, exceptions
from requests.adapters import BaseAdapter, HTTPAdapter
from requests.utils import default_user_agent, prepend_scheme_if_needed, select_proxy
from urllib3 import HTTPConnectionPool, HTTPHeaderDict, HTTPResponse
from urllib3.connection import port_by_scheme
from urllib3.exceptions import ProtocolError
from urllib3.util import Timeout, parse_url

import resolver
from resolver.adapters.fields import PlaceLogin, find_login

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

T = TypeVar("T")


class InvalidResponse(exceptions.ConnectionError, exceptions.InvalidHeader):
    """A response that violates its protocol.

    The class has two base classes, because requests itself raises `InvalidHeader` for contradictory lengths
    and `ConnectionError` for all other violations.
    """


class BodyTimeout(exceptions.ReadTimeout, exceptions.ConnectionError):
    """A timeout during the body.

    requests itself raises `ConnectionError` for such a timeout, and `ReadTimeout` before the body.
    """


_EXCEPTIONS: tuple[tuple[type[resolver.ResolveError], type[exceptions.RequestException]], ...] = (
    (resolver.InvalidUrl, exceptions.InvalidURL),
    (resolver.UnsupportedScheme, exceptions.InvalidSchema),
    (resolver.TimedOut, exceptions.ReadTimeout),
    (resolver.TlsError, exceptions.SSLError),
    (resolver.NetworkError, exceptions.ConnectionError),
    (resolver.ProtocolError, InvalidResponse),
    (resolver.Truncated, exceptions.ChunkedEncodingError),
)

#: The values of the attribute `version` of a urllib3 response, by HTTP version.
_VERSIONS = {b"HTTP/1.0": 10, b"HTTP/1.1": 11, b"HTTP/2": 20}
#: The chunk size in bytes for reading a request body from a file object; urllib3 has the same value.
_CHUNK_SIZE = 65_536
#: Maximum number of sessions with different settings, such as timeouts, for http and for other schemes.
#: requests itself has the same number of connection pools.
_MAX_SESSIONS = 10


#: Settings of a `Resolver` that cannot be used for http with requests. The values name the replacement.
_UNSUPPORTED = {
    "archive": "resolver.Resolver",
    "cookies": "session.cookies",
    "credentials": "session.auth",
    "headers": "session.headers",
}
#: Fields of `Options` that cannot be used for http with requests. The values name the replacement.
_UNSUPPORTED_OPTIONS = {
    "headers": "session.headers",
    "raw": "resolver.Resolver",
    "user_agent": "session.headers",
}

#: The key for the origin of a request in `PreparedRequest.hooks`. requests copies the hooks to each
#: redirected request.
_ORIGIN = "resolver.way"


def mount(session: Session, *, http: bool = False, **settings: Unpack[resolver.Settings]) -> Session:
    """Mount the adapter for all schemes, and return the session.

    Args:
        session: The session.
        http: Whether the adapter is also mounted for http and https.
        settings: The settings of a `Resolver`.
    """
    if http:
        _settings_of_http(settings)
    adapter = Adapter(**settings)
    for scheme in resolver.schemes(web=http):
        root = f"{scheme}://"
        session.mount(root if root in session.adapters else f"{scheme}:", adapter)  # the longest prefix wins
    # requests calls `rebuild_auth` for each redirect. If a session is copied, only the attributes in
    # `__attrs__` are copied.
    attributes = [*dict.fromkeys((*session.__attrs__, "__attrs__", "rebuild_auth"))]
    vars(session).update(rebuild_auth=_HopMarker(session), __attrs__=attributes)
    return session


class _HopMarker:
    """The replacement for a session's method `rebuild_auth`. It marks a redirected request.

    If the program has replaced `rebuild_auth` before, the program's method is still called.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._replaced = vars(session).get("rebuild_auth")

    def __call__(self, request: PreparedRequest, response: Response) -> None:
        hooks: dict[str, Any] = {**request.hooks, _ORIGIN: _RedirectOrigin(response)}
        request.hooks = hooks
        if self._replaced is None:
            type(self._session).rebuild_auth(self._session, request, response)
        else:
            self._replaced(request, response)


class _RedirectOrigin:
    """The origin of a redirected request. `extensions` are the request extensions for `HttpxTransport`."""

    def __init__(self, response: Response) -> None:
        self.referrer = response.url or response.request.url or "", None
        #: The extensions include the redirect mark of `HttpxTransport`, if `HttpxTransport` received the
        #: redirect.
        self.extensions = {
            "origin": "derived",
            "referrer": self.referrer,
            **getattr(response.raw, "extensions", {}),
        }
        self.extensions.pop("target", None)  # the extension `target` belongs to the previous request

    def __getstate__(self) -> dict[str, object]:
        return {"referrer": self.referrer, "extensions": {"origin": "derived", "referrer": self.referrer}}


class Adapter(BaseAdapter):
    """A requests adapter with the settings of a `Resolver`.

    The arguments of a request override some settings:
    - `timeout` is the connect timeout and the idle timeout (the maximum time of each wait for the server).
    - `verify` is a file of certificate authorities. `verify=False` is an error, because TLS certificates are
      always verified.
    - `cert` is a client certificate with its key, in one file or two files.
    - `proxies` has a proxy for each URL scheme. The session adds the proxies from environment variables.
    """

    def __init__(self, **settings: Unpack[resolver.Settings]) -> None:
        super().__init__()
        resolver.Resolver(**settings)  # raises an error for invalid settings, which http would not read
        self._settings = settings
        self._resolvers: dict[_Overrides, resolver.blocking.Resolver] = {}
        self._transports: dict[_Overrides, resolver.HttpxTransport] = {}
        self._web = {*resolver.schemes()}.difference(resolver.schemes(web=False))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_resolvers": {}, "_transports": {}}  # connections cannot be pickled

    def close(self) -> None:
        while self._resolvers:
            self._resolvers.popitem()[1].close()
        while self._transports:
            self._transports.popitem()[1].close()

    def send(
        self,
        request: PreparedRequest,
        stream: bool = False,
        timeout: float | tuple[float | None, float | None] | None = None,
        verify: bool | str = True,
        cert: bytes | str | tuple[bytes | str, bytes | str] | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> Response:
        if not verify:
            raise exceptions.SSLError(
                "verify must not be False, certificates are always verified (nothing was sent)"
            )
        waits = _make_timeout(timeout)
        overrides = _Overrides(
            Timeout.resolve_default_timeout(waits.connect_timeout),
            waits.read_timeout,
            None if verify is True else os.fspath(verify),
            _join_certfile(cert),
            _find_proxy(request, proxies or {}),
            os.getpid(),
        )
        with _translate_errors(request, overrides.proxy or self._settings.get("proxy")):
            parsed = resolver.parse(request.url or "")
            if parsed.scheme not in self._web:
                return self._send(request, overrides)
            check_files = cast(Any, HTTPAdapter.cert_verify)  # raises OSError for a missing file
            check_files(self, SimpleNamespace(), request.url or "", verify, cert)
            if not getattr(parsed, "secured", True):
                overrides = overrides._replace(cafile=None, certfile=None)
            return self._send_http(request, overrides)

    def build_response(self, request: PreparedRequest, raw: HTTPResponse) -> Response:
        """Return the response of requests for a response of urllib3, as `HTTPAdapter` does."""
        return HTTPAdapter.build_response(cast(HTTPAdapter, self), request, raw)

    def _send_http(self, request: PreparedRequest, overrides: _Overrides) -> Response:
        """Send an http request unchanged, and return the response unchanged; redirects are not followed."""
        transport = _find_session(self._transports, overrides, self._make_transport)
        hop = cast("_RedirectOrigin | None", request.hooks.get(_ORIGIN))
        outgoing = httpx.Request(
            request.method or "",
            request.url or "",
            headers=[(_octets(name), _octets(value)) for name, value in request.headers.items()],
            content=_make_content(request.body),
            # The extension `target` is the unchanged request target, because httpx would normalize the URL.
            extensions={"target": request.path_url.encode("ascii")} if hop is None else {**hop.extensions},
        )
        return self.build_response(request, _HttpBody(transport.handle_request(outgoing), outgoing, request))

    def _make_transport(self, overrides: _Overrides) -> resolver.HttpxTransport:
        settings = _settings_of_http(overrides.override_settings(self._settings))
        if self._settings.get("limits") is None:  # `max_redirects` of the session limits redirects
            settings["limits"] = replace(settings.get("limits") or resolver.Limits(), hops=sys.maxsize)
        return resolver.HttpxTransport(**settings)

    def _send(self, request: PreparedRequest, overrides: _Overrides) -> Response:
        url = request.url or ""
        if request.method != "GET" or request.body is not None:
            raise exceptions.InvalidSchema(
                f"method {request.method} is not supported, expected GET without a body (nothing was sent)"
            )
        hop = cast("_RedirectOrigin | None", request.hooks.get(_ORIGIN))
        if hop is None:  # after a redirect, the login may belong to another host (S11)
            overrides = overrides._replace(login=_find_login(request))
        session = _find_session(self._resolvers, overrides, self._make_resolver)
        opened = ExitStack()
        try:
            reply = opened.enter_context(
                session.stream(url)
                if hop is None
                else session.stream(url, origin="derived", referrer=hop.referrer)
            )
        except resolver.Declined as error:
            return self._make_declined_response(request, error)
        translate = partial(_translate_error, request=request, in_body=True)
        file = resolver.blocking.as_file(reply, opened.close, translate)
        raw = _Body(
            file, HTTPHeaderDict(resolver.http_fields(reply)), reply.status or 200, "OK", url=reply.url
        )
        response = self.build_response(request, raw)
        response.url = reply.url
        return response

    def _make_resolver(self, overrides: _Overrides) -> resolver.blocking.Resolver:
        return resolver.blocking.Resolver(**overrides.override_settings(self._settings))

    def _make_declined_response(self, request: PreparedRequest, error: resolver.Declined) -> Response:
        """Return an http error response with the error message of the server as its body."""
        fields = HTTPHeaderDict({"Content-Type": "text/plain; charset=utf-8"})
        octets = io.BytesIO(error.message.encode())
        raw = _Body(octets, fields, resolver.http_status(error), error.text or error.message, url=request.url)
        return self.build_response(request, raw)


class _Overrides(NamedTuple):
    """The settings of a request. Requests with equal settings share a connection pool.

    `process` is the number of the process, because a forked process cannot use the connections of its parent.
    """

    connect: float | None
    idle: float | None
    cafile: str | None
    certfile: str | None
    proxy: str | None
    process: int
    login: PlaceLogin | None = None

    def override_settings(self, settings: resolver.Settings) -> resolver.Settings:
        """Return the settings, overridden by the settings of the request."""
        changed = settings.copy()
        limits = settings.get("limits") or resolver.Limits()
        changed["limits"] = limits.waiting(self.connect, self.idle)
        if self.cafile is not None:
            changed["cafile"] = self.cafile
        if self.certfile is not None:
            changed["certfile"] = self.certfile
        if self.proxy is not None or (settings.get("proxy") is None and settings.get("environment") is None):
            # The session itself reads the proxies from environment variables, unless `trust_env` is false.
            changed["proxy"], changed["environment"] = self.proxy or "none", {}
        if self.login is not None:
            changed["credentials"] = self.login.override_source(settings.get("credentials"))
        return changed


def _find_session(sessions: dict[_Overrides, T], overrides: _Overrides, make: Callable[[_Overrides], T]) -> T:
    """Return the session for the settings of a request, and forget the least recently used session.

    A forgotten session closes its connections after its last request, when it is garbage collected.
    """
    # Threads that begin at the same time share the first session, because `setdefault` is atomic.
    session = sessions.get(overrides) or sessions.setdefault(overrides, make(overrides))
    sessions[overrides] = sessions.pop(overrides, session)
    for oldest in list(sessions)[:-_MAX_SESSIONS]:
        sessions.pop(oldest, None)
    return session


def _settings_of_http(settings: resolver.Settings) -> resolver.NetworkSettings:
    """Return the settings for `HttpxTransport`.

    Raises:
        TypeError: A setting is not supported by `HttpxTransport`.
    """
    unsupported = {name for name in _UNSUPPORTED if settings.get(name) is not None}
    if unsupported:
        name = min(unsupported)
        raise TypeError(f"{name!r} is not supported for http by requests (use {_UNSUPPORTED[name]})")
    options, default = settings.get("options") or resolver.Options(), resolver.Options()
    for name, place in _UNSUPPORTED_OPTIONS.items():
        if getattr(options, name) != getattr(default, name):
            raise TypeError(f"{name!r} of options is not supported for http by requests (use {place})")
    names = resolver.NetworkSettings.__optional_keys__
    network = cast(
        resolver.NetworkSettings, {name: value for name, value in settings.items() if name in names}
    )
    if (total := settings.get("timeout")) is not None:
        network["limits"] = replace(network.get("limits") or resolver.Limits(), total=total)
    return network


def _find_login(request: PreparedRequest) -> PlaceLogin | None:
    """Return the login in the header fields of a request.

    Cookies are ignored, because a session adds the cookies of http servers to all URLs of the same host.
    """
    served = {f"{cookie.name}={cookie.value}" for cookie in request._cookies or () if cookie.domain}
    fields = [(name, _octets(value).decode("latin-1")) for name, value in request.headers.items()]
    fields = [
        (name, value)
        for name, value in fields
        if name.lower() != "cookie" or not served.issuperset(value.split("; "))
    ]
    try:
        return find_login(request.url or "", fields, default_user_agent())
    except ValueError as error:
        raise exceptions.InvalidHeader(str(error), request=request) from error


def _octets(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")


def _make_timeout(timeout: Any) -> Timeout:
    """Return the connect timeout and the idle timeout as a urllib3 `Timeout`.

    `timeout` may already be a `Timeout`, as for the `HTTPAdapter` of requests.
    """
    match timeout:
        case Timeout():
            waits = timeout.clone()
        case (connect, idle):
            waits = Timeout(connect=connect, read=idle)
        case int() | float() | None:
            waits = Timeout(connect=timeout, read=timeout)
        case _:
            raise ValueError(f"timeout must be an int, float or None, or (connect, read), got {timeout!r}")
    waits.start_connect()  # `Timeout` computes timeouts from the total timeout only after this call
    # Otherwise, each request with a total timeout would have other timeouts, and so its own connection pool.
    waits.get_connect_duration = lambda: 0.0  # type: ignore[method-assign]
    return waits


def _join_certfile(cert: bytes | str | tuple[bytes | str, bytes | str] | None) -> str | None:
    """Return the argument `cert` as the setting `certfile`, in which a comma separates two files."""
    if cert is None:
        return None
    files = [os.fsdecode(name) for name in (cert if isinstance(cert, tuple) else (cert,))]
    if len(files) > 1 and any("," in name for name in files):
        raise exceptions.SSLError(
            "names of a certificate and its key must not contain a comma (nothing was sent)"
        )
    return ",".join(files)


def _find_proxy(request: PreparedRequest, proxies: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy that requests chooses, with an explicit port.

    If the URL lacks a port, the default port of requests is added. A `Resolver` would use the default port of
    curl.
    """
    url = select_proxy(request.url or "", dict(proxies))
    if not url:
        return None
    proxy = parse_url(prepend_scheme_if_needed(url, HTTPConnectionPool.scheme))
    if not proxy.host:
        raise exceptions.InvalidProxyURL(
            "proxy URL must have a host, as in http://proxy.example:8080", request=request
        )
    return (proxy if proxy.port else proxy._replace(port=port_by_scheme.get(proxy.scheme or ""))).url


def _make_content(body: Any) -> bytes | str | Iterator[bytes] | None:
    """Return a request body in a form that httpx accepts.

    Text is encoded as UTF-8, as in urllib3. A file is read in chunks.
    """
    if isinstance(body, (bytes, str, type(None))):
        return body
    if isinstance(body, (bytearray, memoryview, array)):
        return bytes(memoryview(body))
    pieces = iter(lambda: body.read(_CHUNK_SIZE) or None, None) if hasattr(body, "read") else body
    return (piece.encode() if isinstance(piece, str) else bytes(memoryview(piece)) for piece in pieces)


class _Body(HTTPResponse):
    """The urllib3 response in the attribute `raw` of a requests response.

    The content coding of the body is already decoded, within the limits of S16. If a read of `raw` fails, it
    raises an exception of requests.
    """

    def __init__(
        self, file: io.BufferedIOBase, fields: HTTPHeaderDict, status: int, reason: str, **keywords: Any
    ) -> None:
        url = keywords.pop("url")
        super().__init__(
            cast(Any, file),
            fields,
            status,
            reason=reason,
            preload_content=False,
            request_url=url,
            decode_content=False,
            **keywords,
        )

    def read(self, *args: Any, **kwargs: Any) -> bytes:
        with _unwrap_errors():
            return super().read(*args, **kwargs)

    def read1(self, *args: Any, **kwargs: Any) -> bytes:
        with _unwrap_errors():
            return super().read1(*args, **kwargs)

    def stream(
        self, amt: int | None = _CHUNK_SIZE, decode_content: bool | None = None
    ) -> Generator[bytes, None, None]:
        """Yield the body in chunks of `amt` bytes.

        If the length of the body is unknown, as for an event stream, each chunk is yielded when it arrives.
        """
        read = self.read1 if amt is None or self.chunked or self.version == 20 else self.read
        while octets := read(amt, decode_content):
            yield octets


class _HttpBody(_Body):
    """The body of an http response.

    `extensions` are the extensions of the httpx request, which may include the redirect mark.
    """

    def __init__(self, response: httpx.Response, outgoing: httpx.Request, request: PreparedRequest) -> None:
        self.extensions = outgoing.extensions
        message = Message()
        fields = HTTPHeaderDict()
        for name, value in response.headers.raw:
            fields.add(name.decode("ascii"), text := value.decode("latin-1"))
            message[name.decode("ascii")] = text
        super().__init__(
            io.BufferedReader(_Pieces(response, request)),
            fields,
            response.status_code,
            response.reason_phrase,
            version=_VERSIONS.get(response.extensions["http_version"], 0),
            request_method=request.method,
            url=request.url,
            # requests reads the cookies from the attribute `msg`
            original_response=SimpleNamespace(msg=message, isclosed=lambda: False, close=lambda: None),
        )


@contextmanager
def _unwrap_errors() -> Iterator[None]:
    """Raise the original exception of requests if urllib3 has wrapped the exception in a `ProtocolError`."""
    try:
        yield
        return
    except ProtocolError as error:
        if not isinstance(error.__cause__, exceptions.RequestException):
            raise
        failure = error.__cause__
    raise failure


class _Pieces(io.RawIOBase):
    def __init__(self, response: httpx.Response, request: PreparedRequest) -> None:
        self._response = response
        self._pieces = response.iter_raw()
        self._request = request
        self._buffer = memoryview(b"")
        self._failure: Exception | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        room = memoryview(buffer).cast("B")
        if self._failure is not None:
            raise self._failure
        try:
            with _translate_errors(self._request, in_body=True):
                while not self._buffer and (piece := next(self._pieces, None)) is not None:
                    self._buffer = memoryview(piece)
        except exceptions.RequestException as error:
            self._failure = error
            self._response.close()
            raise
        count = min(len(room), len(self._buffer))
        room[:count], self._buffer = self._buffer[:count], self._buffer[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._response.close()


@contextmanager
def _translate_errors(
    request: PreparedRequest, proxy: str | None = None, *, in_body: bool = False
) -> Iterator[None]:
    """Convert errors of this library to exceptions of requests; `proxy` is the request's proxy or None."""
    try:
        yield
    except resolver.ResolveError as error:
        raise _translate_error(error, request, proxy) from error
    except (httpx.RequestError, httpx.InvalidURL) as error:
        cause = error.__cause__
        if isinstance(cause, resolver.ResolveError):
            raise _translate_error(cause, request, proxy, in_body=in_body) from cause
        raise exceptions.RequestException(str(error), request=request) from error


def _translate_error(
    error: resolver.ResolveError,
    request: PreparedRequest,
    proxy: str | None = None,
    *,
    in_body: bool = False,
) -> exceptions.RequestException:
    kind = next((kind for base, kind in _EXCEPTIONS if isinstance(error, base)), exceptions.RequestException)
    if isinstance(error, resolver.TimedOut) and (in_body or error.setting == "connect_timeout"):
        kind = BodyTimeout if in_body else exceptions.ConnectTimeout
    elif proxy not in (None, "none") and isinstance(error, (resolver.Unreachable, resolver.Declined)):
        kind = exceptions.ProxyError
    return kind(str(error), request=request)
