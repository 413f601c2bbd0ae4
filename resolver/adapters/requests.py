"""A transport adapter of requests for every scheme.

    session = requests.Session()
    resolver.adapters.requests.mount(session)
    session.get("gopher://gopher.example/0/about.txt").text

If http and https are mounted, they use `resolver.HttpxTransport`. The method, the header fields and the body
of a request are sent unchanged. The requests session handles redirects, logins and cookies.

Results of other schemes are converted to http status codes: 200 for success, 404 for a missing resource, 401
for a required login, 403 for denied access, 503 for a temporary refusal, and 502 for any other refusal. The
message of the server is the `reason`. Only GET is supported for these schemes. The only supported header
field is a login. Other header fields and a request body raise an error before data is sent.

A failure raises an exception of requests, with the error of this library as its cause. The policy checks a
redirect with the origin `derived` (S10), regardless of the adapter that received the redirect.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from email.message import Message
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, cast

import httpx
from requests import PreparedRequest, Response, Session, exceptions
from requests.adapters import BaseAdapter
from requests.cookies import extract_cookies_to_jar
from requests.utils import default_user_agent, get_encoding_from_headers, select_proxy

import resolver
from resolver.adapters.fields import PlaceLogin, login_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_EXCEPTIONS: tuple[tuple[type[resolver.ResolveError], type[exceptions.RequestException]], ...] = (
    (resolver.InvalidUrl, exceptions.InvalidURL),
    (resolver.UnsupportedScheme, exceptions.InvalidSchema),
    (resolver.TimedOut, exceptions.Timeout),
    (resolver.TlsError, exceptions.SSLError),
    (resolver.NetworkError, exceptions.ConnectionError),
    (resolver.Truncated, exceptions.ChunkedEncodingError),
)


#: Settings of a `Resolver` that cannot be used for http with requests, and the object to configure instead.
_ELSEWHERE = {
    "archive": "resolver.Resolver",
    "cookies": "session.cookies",
    "credentials": "session.auth",
    "headers": "session.headers",
}
#: Fields of `Options` that cannot be used for http with requests, and the object to configure instead.
_OPTIONS_ELSEWHERE = {
    "headers": "session.headers",
    "raw": "resolver.Resolver",
    "user_agent": "session.headers",
}

#: The key for the origin of a request in `PreparedRequest.hooks`. requests copies the hooks to each
#: redirected request.
_WAY = "resolver.way"


def mount(session: Session, *, http: bool = False, **settings: Unpack[resolver.Settings]) -> Session:
    """Mount the adapter for all schemes, and return the session.

    Args:
        session: The session.
        http: Whether to mount the adapter also for http and https.
        settings: The settings of a `Resolver`.
    """
    if http:
        _settings_of_http(settings)
    adapter = Adapter(**settings)
    for scheme in resolver.schemes(web=http):
        own = f"{scheme}://"
        session.mount(own if own in session.adapters else f"{scheme}:", adapter)  # the longest prefix wins
    rebuild_auth = session.rebuild_auth

    def note_hop(request: PreparedRequest, response: Response) -> None:
        hooks: dict[str, Any] = {**request.hooks, _WAY: _Way(response)}
        request.hooks = hooks
        rebuild_auth(request, response)

    vars(session)["rebuild_auth"] = note_hop  # requests calls `rebuild_auth` for each redirect
    return session


class _Way:
    """The origin of a redirected request; `extensions` are its extensions for `HttpxTransport`."""

    def __init__(self, response: Response) -> None:
        self.referrer = response.url, None
        #: The extensions include the redirect mark of `HttpxTransport`, which contains more than the URL.
        self.extensions = {
            "origin": "derived",
            "referrer": self.referrer,
            **getattr(response, "extensions", {}),
        }
        self.extensions.pop("target", None)  # `target` is only for the previous request

    def __getstate__(self) -> dict[str, object]:
        return {"referrer": self.referrer, "extensions": {"origin": "derived", "referrer": self.referrer}}


class _Answer(Response):
    """An http response; `extensions` are the extensions of the httpx request, with the redirect mark."""

    extensions: Mapping[str, Any] = {}


class Adapter(BaseAdapter):
    """A requests adapter with the settings of a `Resolver`.

    The arguments of a request override some settings:
    - `timeout` is the idle timeout, which applies to each wait for the server.
    - `verify` is a file of certificate authorities. `verify=False` is an error, because certificates are
      always verified.
    - `cert` is a client certificate with its key.
    - `proxies` has the proxy for the scheme of the URL.
    """

    def __init__(self, **settings: Unpack[resolver.Settings]) -> None:
        super().__init__()
        self._settings = settings
        self._resolvers: dict[_RawHeaders, resolver.blocking.Resolver] = {}
        self._transports: dict[_RawHeaders, resolver.HttpxTransport] = {}
        self._web = {*resolver.schemes()}.difference(resolver.schemes(web=False))

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
        if not verify or isinstance(cert, tuple):
            words = (
                "cert must be one file that contains the key"
                if verify
                else "verify must not be False, certificates are always verified"
            )
            raise exceptions.SSLError(f"{words} (nothing was sent)")
        connect, idle = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        for seconds in (connect, idle):
            if not isinstance(seconds, (int, float, type(None))):
                raise ValueError(f"timeout must be seconds, or (connect, read), got {timeout!r}")
        said = _RawHeaders(
            connect,
            idle,
            None if verify is True else verify,
            None if cert is None else os.fsdecode(cert),
            select_proxy(request.url or "", dict(proxies or {})),
        )
        with _translate_errors(request):
            if resolver.parse(request.url or "").scheme in self._web:
                return self._send_http(request, said)
            return self._send(request, said)

    def _send_http(self, request: PreparedRequest, said: _RawHeaders) -> Response:
        """Send the request unchanged, and return the response unchanged, even if it is a redirect."""
        if said not in self._transports:
            self._transports.setdefault(
                said, resolver.HttpxTransport(**_settings_of_http(said.override_settings(self._settings)))
            )
        way = cast("_Way | None", request.hooks.get(_WAY))
        asked = httpx.Request(
            request.method or "",
            request.url or "",
            headers=[(_octets(name), _octets(value)) for name, value in request.headers.items()],
            content=cast("bytes | None", request.body),
            # the extension `target`, because httpx would normalize the request target
            extensions={"target": request.path_url.encode("ascii")} if way is None else {**way.extensions},
        )
        answer: httpx.Response = self._transports[said].handle_request(asked)
        response = _Answer()
        response.extensions = asked.extensions
        _describe(response, request, answer.status_code, answer.reason_phrase, answer.headers.items())
        response.raw = _HttpBody(answer, request)
        extract_cookies_to_jar(response.cookies, request, response.raw)
        vars(response)["connection"] = self  # for a second request with a login (HTTPDigestAuth)
        return response

    def _send(self, request: PreparedRequest, said: _RawHeaders) -> Response:
        url = request.url or ""
        if request.method != "GET" or request.body is not None:
            raise exceptions.InvalidSchema(
                f"method {request.method} is not supported, expected GET without a body (nothing was sent)"
            )
        way = cast("_Way | None", request.hooks.get(_WAY))
        if way is None:  # header fields for another host and port are not sent after a redirect (S11)
            said = said._replace(login=_login_of(request))
        if said not in self._resolvers:
            self._resolvers.setdefault(
                said, resolver.blocking.Resolver(**said.override_settings(self._settings))
            )
        opened = ExitStack()
        try:
            session = self._resolvers[said]
            reply = opened.enter_context(
                session.stream(url)
                if way is None
                else session.stream(url, origin="derived", referrer=way.referrer)
            )
        except resolver.Declined as error:
            return _make_declined_response(request, error)
        response = _describe(Response(), request, reply.status or 200, "OK", resolver.http_fields(reply))
        response.url = reply.url
        response.raw = resolver.blocking.as_file(
            reply, opened.close, partial(_translate_error, request=request)
        )
        return response


class _RawHeaders(NamedTuple):
    """The settings of a request except its URL; requests with equal settings share a connection pool."""

    connect: float | None
    idle: float | None
    cafile: str | None
    certfile: str | None
    proxy: str | None
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
        if self.proxy is not None:
            changed["proxy"] = self.proxy
        if self.login is not None:
            changed["credentials"] = self.login.override_source(settings.get("credentials"))
        return changed


def _settings_of_http(settings: resolver.Settings) -> resolver.NetworkSettings:
    """Return the settings for `HttpxTransport`.

    Raises:
        TypeError: A setting is not supported by `HttpxTransport`.
    """
    given = {name for name in _ELSEWHERE if settings.get(name) is not None}
    if given:
        name = min(given)
        raise TypeError(f"{name!r} is not supported for http by requests (use {_ELSEWHERE[name]})")
    options, default = settings.get("options") or resolver.Options(), resolver.Options()
    for name, place in _OPTIONS_ELSEWHERE.items():
        if getattr(options, name) != getattr(default, name):
            raise TypeError(f"{name!r} of options is not supported for http by requests (use {place})")
    known = resolver.NetworkSettings.__optional_keys__
    network = cast(
        resolver.NetworkSettings, {name: value for name, value in settings.items() if name in known}
    )
    if (total := settings.get("timeout")) is not None:
        network["limits"] = replace(network.get("limits") or resolver.Limits(), total=float(total))
    return network


def _login_of(request: PreparedRequest) -> PlaceLogin | None:
    fields = [(name, _octets(value).decode("latin-1")) for name, value in request.headers.items()]
    try:
        return login_of(request.url or "", fields, default_user_agent())
    except ValueError as error:
        raise exceptions.InvalidHeader(str(error), request=request) from error


def _octets(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")


class _HttpBody(io.BufferedReader):
    """The decoded body of an http response, with the interface of a urllib3 response for requests."""

    def __init__(self, answer: httpx.Response, request: PreparedRequest) -> None:
        super().__init__(_Pieces(answer, request))
        message = Message()
        for name, value in answer.headers.multi_items():
            message[name] = value
        self._original_response = SimpleNamespace(msg=message)  # requests reads cookies from this attribute

    def read(self, size: int | None = -1, decode_content: bool | None = None) -> bytes:
        return super().read(size)


class _Pieces(io.RawIOBase):
    def __init__(self, answer: httpx.Response, request: PreparedRequest) -> None:
        self._answer = answer
        self._pieces = answer.iter_bytes()
        self._request = request
        self._ahead = memoryview(b"")
        self._failure: Exception | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        room = memoryview(buffer).cast("B")
        if self._failure is not None:
            raise self._failure
        try:
            with _translate_errors(self._request):
                while not self._ahead and (piece := next(self._pieces, None)) is not None:
                    self._ahead = memoryview(piece)
        except exceptions.RequestException as error:
            self._failure = error
            self._answer.close()
            raise
        count = min(len(room), len(self._ahead))
        room[:count], self._ahead = self._ahead[:count], self._ahead[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._answer.close()


def _describe(
    response: Response, request: PreparedRequest, status: int, reason: str, fields: Iterable[tuple[str, str]]
) -> Response:
    response.request = request
    response.url = request.url or ""
    response.status_code = status
    response.reason = reason
    for name, value in fields:
        response.headers[name] = value
    response.encoding = get_encoding_from_headers(response.headers)
    return response


def _make_declined_response(request: PreparedRequest, error: resolver.Declined) -> Response:
    """Return an http error response with the error message of the server as its body."""
    status, reason = resolver.http_status(error), error.text or error.message
    response = _describe(Response(), request, status, reason, ())
    response.raw = io.BytesIO(error.message.encode())
    response.encoding = "utf-8"
    return response


@contextmanager
def _translate_errors(request: PreparedRequest) -> Iterator[None]:
    """Convert errors of this library to exceptions of requests."""
    try:
        yield
    except resolver.ResolveError as error:
        raise _translate_error(error, request) from error
    except (httpx.RequestError, httpx.InvalidURL) as error:
        cause = error.__cause__
        if isinstance(cause, resolver.ResolveError):
            raise _translate_error(cause, request) from cause
        raise exceptions.RequestException(str(error), request=request) from error


def _translate_error(error: resolver.ResolveError, request: PreparedRequest) -> exceptions.RequestException:
    kind = next((kind for ours, kind in _EXCEPTIONS if isinstance(error, ours)), exceptions.RequestException)
    return kind(str(error), request=request)
