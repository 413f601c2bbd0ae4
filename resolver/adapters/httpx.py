"""httpx transports for schemes other than http, for `httpx.Client` and `httpx.AsyncClient`.

    httpx.Client(mounts=resolver.adapters.httpx.mounts())
    httpx.AsyncClient(mounts=resolver.adapters.httpx.mounts())

`resolver.HttpxTransport` is the transport for http. Results of other schemes are converted to http status
codes: 200 for success, 404 for a missing resource, 401 for a required login, 403 for denied access, 503 for a
temporary refusal, and 502 for any other refusal. A failure raises an exception of httpx, with the error of
this library as its cause. Only GET is supported. The only supported header field is a login. All other parts
of a request (header fields, body, extensions) raise an error before data is sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Literal, Unpack, cast

import httpx

import resolver
from resolver.adapters.fields import login_of

_EXCEPTIONS: tuple[tuple[type[resolver.ResolveError], type[httpx.TransportError]], ...] = (
    (resolver.InvalidUrl, httpx.UnsupportedProtocol),
    (resolver.UnsupportedScheme, httpx.UnsupportedProtocol),
    (resolver.Refused, httpx.UnsupportedProtocol),
    (resolver.TimedOut, httpx.ReadTimeout),
    (resolver.Unreachable, httpx.ConnectError),
    (resolver.TlsError, httpx.ConnectError),
    (resolver.NetworkError, httpx.ReadError),
    (resolver.ProtocolError, httpx.RemoteProtocolError),
    (resolver.IntegrityError, httpx.RemoteProtocolError),
)


def mounts(**settings: Unpack[resolver.Settings]) -> dict[str, Transport]:
    """Return the argument `mounts` of an httpx client, with all schemes that httpx does not support.

    Args:
        settings: The settings of a `Resolver`.
    """
    transport = Transport(**settings)
    return {f"{scheme}://": transport for scheme in resolver.schemes(web=False)}


class _Given(resolver.Settings, total=False):
    """The arguments of `resolver.stream` except the URL."""

    origin: Literal["user", "chosen", "derived"]
    referrer: tuple[str, str | None] | None


#: The extension key by which `HttpxTransport` marks a redirected request. httpx copies the extensions to the
#: next request.
_MARK = "resolver.hop"
_AGENT = f"python-httpx/{httpx.__version__}"


class Transport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """An httpx transport for schemes without header fields.

    The client's timeouts `connect` and `read` apply to each single wait. The timeouts `write` and `pool` are
    ignored, because a request is a single line. The request extensions `origin` and `referrer` have the same
    meaning as for `resolver.stream`.
    """

    def __init__(self, **settings: Unpack[resolver.Settings]) -> None:
        self._settings = settings

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        opened = ExitStack()
        with _translate_errors(request):
            try:
                reply = opened.enter_context(
                    resolver.blocking.stream(str(request.url), **self._read_settings(request))
                )
            except resolver.Declined as error:
                return _make_declined_response(error)
        return _response(reply, _SyncBody(reply, opened, request))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        opened = AsyncExitStack()
        with _translate_errors(request):
            try:
                stream = resolver.stream(str(request.url), **self._read_settings(request))
                reply = await opened.enter_async_context(stream)
            except resolver.Declined as error:
                return _make_declined_response(error)
        return _response(reply, _AsyncBody(reply, opened, request))

    def _read_settings(self, request: httpx.Request) -> _Given:
        if request.method != "GET":
            raise httpx.UnsupportedProtocol(
                f"method {request.method} is not supported, expected GET (nothing was sent)", request=request
            )
        extensions = dict(request.extensions)
        said = cast(_Given, self._settings.copy())
        limits = said.get("limits") or resolver.Limits()
        asked = extensions.pop("timeout", {})
        said["limits"] = limits.waiting(asked.get("connect"), asked.get("read"))
        # header fields for another host and port are not sent after a redirect (S11)
        if (hop := extensions.pop(_MARK, None)) is not None:
            said["origin"], said["referrer"] = "derived", hop.referrer
            return said
        if "origin" in extensions:
            said["origin"] = extensions.pop("origin")
        if "referrer" in extensions:
            said["referrer"] = extensions.pop("referrer")
        for name in extensions:
            words = f"extension {name!r} is not supported (nothing was sent)"
            raise httpx.UnsupportedProtocol(words, request=request)
        try:
            login = login_of(str(request.url), request.headers.multi_items(), _AGENT)
        except ValueError as error:
            raise httpx.UnsupportedProtocol(str(error), request=request) from error
        if login is not None:
            said["credentials"] = login.override_source(said.get("credentials"))
        return said


class _SyncBody(httpx.SyncByteStream):
    def __init__(self, reply: resolver.blocking.LiveReply, opened: ExitStack, request: httpx.Request) -> None:
        self._reply = reply
        self._opened = opened
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        with _translate_errors(self._request):
            yield from self._reply.body

    def close(self) -> None:
        self._opened.close()


class _AsyncBody(httpx.AsyncByteStream):
    def __init__(
        self, reply: resolver.StreamingResponse, opened: AsyncExitStack, request: httpx.Request
    ) -> None:
        self._reply = reply
        self._opened = opened
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translate_errors(self._request):
            async for octets in self._reply.body:
                yield octets

    async def aclose(self) -> None:
        await self._opened.aclose()


def _response(
    reply: resolver.blocking.LiveReply | resolver.StreamingResponse, body: _SyncBody | _AsyncBody
) -> httpx.Response:
    return httpx.Response(200, headers=list(resolver.http_fields(reply)), stream=body)


def _make_declined_response(error: resolver.Declined) -> httpx.Response:
    """Return an http error response with the error message of the server as its body."""
    return httpx.Response(resolver.http_status(error), text=error.message)


@contextmanager
def _translate_errors(request: httpx.Request) -> Iterator[None]:
    """Convert errors of this library to exceptions of httpx."""
    try:
        yield
    except resolver.ResolveError as error:
        kind = next((kind for ours, kind in _EXCEPTIONS if isinstance(error, ours)), httpx.TransportError)
        raise kind(str(error), request=request) from error
