"""A transport adapter of requests for every scheme.

    session = requests.Session()
    resolver.adapters.requests.mount(session)
    session.get("gopher://gopher.example/0/about.txt").text

http and https, where they are mounted, use `resolver.HttpxTransport`. Method, header fields and body are sent
as requests made them; redirects, logins and cookies are those of the session.

The results of protocols without status codes are mapped to http's, with the peer's text as the `reason`: 200
for success, 404 for a missing resource, 401 and 403 for a required login or denied access, 503 for a
temporary refusal, 502 for any other refusal. Only GET is supported there. Of the header fields only a login
is passed on; other parts of a request are an error before anything is sent.

A failure raises an exception of requests with the library's error as its cause. A redirect is checked as
derived from the URL that led there (S10), regardless of the adapter that received the redirect.
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


#: Settings of a `Resolver` that http by requests takes from another object, and that object.
_ELSEWHERE = {
    "archive": "resolver.Resolver",
    "cookies": "session.cookies",
    "credentials": "session.auth",
    "headers": "session.headers",
}
#: The same for fields of `Options`.
_OPTIONS_ELSEWHERE = {
    "headers": "session.headers",
    "raw": "resolver.Resolver",
    "user_agent": "session.headers",
}

#: The key for the request's origin in `PreparedRequest.hooks`, which requests copies to each hop.
_WAY = "resolver.way"


def mount(session: Session, *, http: bool = False, **settings: Unpack[resolver.Settings]) -> Session:
    """Mount the adapter for every scheme and return the session.

    Args:
        session: The session.
        http: Whether to mount http and https, too.
        settings: The settings of a `Resolver`.
    """
    if http:
        _settings_of_http(settings)
    adapter = Adapter(**settings)
    for scheme in resolver.schemes(web=http):
        own = f"{scheme}://"
        session.mount(own if own in session.adapters else f"{scheme}:", adapter)  # the longest prefix is used
    rebuild_auth = session.rebuild_auth

    def note_hop(request: PreparedRequest, response: Response) -> None:
        hooks: dict[str, Any] = {**request.hooks, _WAY: _Way(response)}
        request.hooks = hooks
        rebuild_auth(request, response)

    vars(session)["rebuild_auth"] = note_hop  # requests calls it for each hop of any adapter
    return session


class _Way:
    """The origin of a hop; `extensions` are those of its request to `HttpxTransport`."""

    def __init__(self, response: Response) -> None:
        self.referrer = response.url, None
        #: The extensions of the redirected request have the marks of `HttpxTransport`, which contain more
        #: than the URL.
        self.extensions = {
            "origin": "derived",
            "referrer": self.referrer,
            **getattr(response, "extensions", {}),
        }
        self.extensions.pop("target", None)  # of the redirected request

    def __getstate__(self) -> dict[str, object]:
        return {"referrer": self.referrer, "extensions": {"origin": "derived", "referrer": self.referrer}}


class _Answer(Response):
    """A response of http; `extensions` are those of the httpx request, with the marks of its transport."""

    extensions: Mapping[str, Any] = {}


class Adapter(BaseAdapter):
    """An adapter with the settings of a `Resolver`.

    A request may override some settings: `timeout` applies to each wait for the peer, `verify` is a file of
    certificate authorities, `cert` a certificate with its key, `proxies` the proxy of its scheme.
    Certificates are always verified: `verify=False` is an error.
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
        """Send the request unchanged, and return the response unchanged, even a redirect."""
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
            # httpx would rewrite the target
            extensions={"target": request.path_url.encode("ascii")} if way is None else {**way.extensions},
        )
        answer = self._transports[said].handle_request(asked)
        response = _Answer()
        response.extensions = asked.extensions
        _describe(response, request, answer.status_code, answer.reason_phrase, answer.headers.items())
        response.raw = _HttpBody(answer, request)
        extract_cookies_to_jar(response.cookies, request, response.raw)
        vars(response)["connection"] = self  # for logins that need a second request, as HTTPDigestAuth
        return response

    def _send(self, request: PreparedRequest, said: _RawHeaders) -> Response:
        url = request.url or ""
        if request.method != "GET" or request.body is not None:
            raise exceptions.InvalidSchema(
                f"method {request.method} is not supported, expected GET without a body (nothing was sent)"
            )
        way = cast("_Way | None", request.hooks.get(_WAY))
        if way is None:  # the fields of another host and port are not sent (S11)
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
    """The settings of a request besides its URL; requests with equal settings share connections."""

    connect: float | None
    idle: float | None
    cafile: str | None
    certfile: str | None
    proxy: str | None
    login: PlaceLogin | None = None

    def override_settings(self, settings: resolver.Settings) -> resolver.Settings:
        """Return the settings with these values in place of the existing ones."""
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
        TypeError: A setting would be dropped.
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
    """The decoded body of an http response, as requests reads one of urllib3."""

    def __init__(self, answer: httpx.Response, request: PreparedRequest) -> None:
        super().__init__(_Pieces(answer, request))
        message = Message()
        for name, value in answer.headers.multi_items():
            message[name] = value
        self._original_response = SimpleNamespace(msg=message)  # requests reads cookies from it

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
    """Return a response with the peer's refusal as its body."""
    status, reason = resolver.http_status(error), error.text or error.message
    response = _describe(Response(), request, status, reason, ())
    response.raw = io.BytesIO(error.message.encode())
    response.encoding = "utf-8"
    return response


@contextmanager
def _translate_errors(request: PreparedRequest) -> Iterator[None]:
    """Raise errors of the library as exceptions of requests."""
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
