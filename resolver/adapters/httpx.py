"""Transports of httpx for what is not of the web, for both of its clients.

    httpx.Client(mounts=resolver.adapters.httpx.mounts())
    httpx.AsyncClient(mounts=resolver.adapters.httpx.mounts())

`resolver.HttpxTransport` is the one for http. A peer without status codes answers in those of http: 200,
404 for what is not there, 401 and 403 for what needs a login or is denied, 503 for "not now", 502 for any
other no. What fails is an exception of httpx, with ours as its cause. Only GET is done, and of the header
fields a login is passed on: everything else that a request has is an error before anything is sent.
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
    """For the argument `mounts` of one client: every scheme that httpx has not. The settings are those of a
    `Resolver`."""
    transport = Transport(**settings)
    return {f"{scheme}://": transport for scheme in resolver.schemes(web=False)}


class _Given(resolver.Settings, total=False):
    """What `resolver.stream` takes beside the URL."""

    origin: Literal["user", "chosen", "derived"]
    referrer: tuple[str, str | None] | None


#: As `HttpxTransport` marks a request that it answers with a redirect: httpx hands the mark on to the hop.
_MARK = "resolver.hop"
_AGENT = f"python-httpx/{httpx.__version__}"


class Transport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Of a client's time limits `connect` and `read` hold here, each for one wait; what is written is a line,
    and there is no pool to wait for. Of the extensions of a request `origin` and `referrer` hold, as those of
    `resolver.stream`."""

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
                f"{request.method}: only GET is done here: nothing was sent", request=request
            )
        extensions = dict(request.extensions)
        said = cast(_Given, self._settings.copy())
        limits = said.get("limits") or resolver.Limits()
        asked = extensions.pop("timeout", {})
        said["limits"] = limits.waiting(asked.get("connect"), asked.get("read"))
        if (hop := extensions.pop(_MARK, None)) is not None:  # the fields of another place stay there (S11)
            said["origin"], said["referrer"] = "derived", hop.referrer
            return said
        if "origin" in extensions:
            said["origin"] = extensions.pop("origin")
        if "referrer" in extensions:
            said["referrer"] = extensions.pop("referrer")
        for name in extensions:
            words = f"the extension {name!r} cannot be passed on: nothing was sent"
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
    """The peer said no: its words in place of a body."""
    return httpx.Response(resolver.http_status(error), text=error.message)


@contextmanager
def _translate_errors(request: httpx.Request) -> Iterator[None]:
    """What fails inside is an exception of httpx."""
    try:
        yield
    except resolver.ResolveError as error:
        kind = next((kind for ours, kind in _EXCEPTIONS if isinstance(error, ours)), httpx.TransportError)
        raise kind(str(error), request=request) from error
