"""httpx transports for schemes other than http, for `httpx.Client` and `httpx.AsyncClient`.

    httpx.Client(mounts=resolver.adapters.httpx.mounts())
    httpx.AsyncClient(mounts=resolver.adapters.httpx.mounts())

The clients of httpx2 are supported too; their classes have the same names.

For http and https, `resolver.HttpxTransport` is the transport. Results of other schemes are converted to http
status codes: 200 for success, 404 for a missing resource, 401 for a required login, 403 for denied access,
503 for a temporary refusal, and 502 for any other refusal. A failure raises an exception of httpx or httpx2,
with the error of this library as its cause. Only GET is supported. The only supported header field is a login
(`Authorization`). Other header fields, a request body and unknown extensions raise an error before data is
sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

import resolver
from resolver.adapters.fields import find_login
from resolver.adapters.httpx_family import (
    HttpxFamily,
    TransportBase,
    error_class,
    find_family,
    join_classes,
)

if TYPE_CHECKING:
    import httpx

    from resolver.adapters.httpx_family import AnyRequest

_EXCEPTIONS: tuple[tuple[type[resolver.ResolveError], str], ...] = (
    (resolver.InvalidUrl, "UnsupportedProtocol"),
    (resolver.UnsupportedScheme, "UnsupportedProtocol"),
    (resolver.Refused, "UnsupportedProtocol"),
    (resolver.TimedOut, "ReadTimeout"),
    (resolver.Unreachable, "ConnectError"),
    (resolver.TlsError, "ConnectError"),
    (resolver.NetworkError, "ReadError"),
    (resolver.ProtocolError, "RemoteProtocolError"),
    (resolver.IntegrityError, "RemoteProtocolError"),
)


def mounts(**settings: Unpack[resolver.Settings]) -> dict[str, Transport]:
    """Return the argument `mounts` for a client of httpx or httpx2.

    It has a transport for each scheme other than http and https.

    Args:
        settings: The settings of a `Resolver`.
    """
    transport = Transport(**settings)
    return {f"{scheme}://": transport for scheme in resolver.schemes(web=False)}


class _StreamSettings(resolver.Settings, total=False):
    """The arguments of `resolver.stream` except the URL."""

    origin: Literal["user", "chosen", "derived"]
    referrer: tuple[str, str | None] | None


#: The key in the extensions of a request with which `HttpxTransport` marks a redirected request. httpx copies
#: the extensions to the next request.
_MARK = "resolver.hop"


class Transport(TransportBase):
    """A transport of httpx and httpx2 for schemes without header fields.

    The client's timeouts `connect` and `read` apply to each wait separately. The timeout `write` is ignored,
    because a request is a single line. The timeout `pool` is ignored too. The request extensions `origin` and
    `referrer` have the same meaning as the arguments of `resolver.stream`.
    """

    def __init__(self, **settings: Unpack[resolver.Settings]) -> None:
        self._settings = settings

    def handle_request(self, request: AnyRequest) -> Any:
        family = find_family(request)
        opened = ExitStack()
        with _translate_errors(request, family):
            try:
                reply = opened.enter_context(
                    resolver.blocking.stream(str(request.url), **self._read_settings(request, family))
                )
            except resolver.Declined as error:
                return _make_declined_response(error, family)
        body = join_classes(_SyncBody, family.SyncByteStream)(reply, opened, request, family)
        return _response(reply, body, family)

    async def handle_async_request(self, request: AnyRequest) -> Any:
        family = find_family(request)
        opened = AsyncExitStack()
        with _translate_errors(request, family):
            try:
                stream = resolver.stream(str(request.url), **self._read_settings(request, family))
                reply = await opened.enter_async_context(stream)
            except resolver.Declined as error:
                return _make_declined_response(error, family)
        body = join_classes(_AsyncBody, family.AsyncByteStream)(reply, opened, request, family)
        return _response(reply, body, family)

    def _read_settings(self, request: AnyRequest, family: HttpxFamily) -> _StreamSettings:
        unsupported = error_class(family, "UnsupportedProtocol")
        if request.method != "GET":
            raise unsupported(
                f"method {request.method} is not supported, expected GET (nothing was sent)",
                request=cast("httpx.Request", request),
            )
        extensions = dict(request.extensions)
        settings = cast(_StreamSettings, self._settings.copy())
        limits = settings.get("limits") or resolver.Limits()
        timeouts = extensions.pop("timeout", {})
        settings["limits"] = limits.waiting(timeouts.get("connect"), timeouts.get("read"))
        # After a redirect, the header fields are ignored, because they may belong to another host (S11).
        if (hop := extensions.pop(_MARK, None)) is not None:
            settings["origin"], settings["referrer"] = "derived", hop.referrer
            return settings
        if "origin" in extensions:
            settings["origin"] = extensions.pop("origin")
        if "referrer" in extensions:
            settings["referrer"] = extensions.pop("referrer")
        for name in extensions:
            words = f"extension {name!r} is not supported (nothing was sent)"
            raise unsupported(words, request=cast("httpx.Request", request))
        try:
            agent = f"python-{family.__name__}/{family.__version__}"  # the default of its clients
            login = find_login(str(request.url), request.headers.multi_items(), agent)
        except ValueError as error:
            raise unsupported(str(error), request=cast("httpx.Request", request)) from error
        if login is not None:
            settings["credentials"] = login.override_source(settings.get("credentials"))
        return settings


class _SyncBody:
    def __init__(
        self,
        reply: resolver.blocking.LiveReply,
        opened: ExitStack,
        request: AnyRequest,
        family: HttpxFamily,
    ) -> None:
        self._reply = reply
        self._opened = opened
        self._translated = partial(_translate_errors, request, family)

    def __iter__(self) -> Iterator[bytes]:
        with self._translated():
            yield from self._reply.body

    def close(self) -> None:
        self._opened.close()


class _AsyncBody:
    def __init__(
        self,
        reply: resolver.StreamingResponse,
        opened: AsyncExitStack,
        request: AnyRequest,
        family: HttpxFamily,
    ) -> None:
        self._reply = reply
        self._opened = opened
        self._translated = partial(_translate_errors, request, family)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with self._translated():
            async for octets in self._reply.body:
                yield octets

    async def aclose(self) -> None:
        await self._opened.aclose()


def _response(
    reply: resolver.blocking.LiveReply | resolver.StreamingResponse,
    body: _SyncBody | _AsyncBody,
    family: HttpxFamily,
) -> httpx.Response:
    return family.Response(200, headers=list(resolver.http_fields(reply)), stream=body)


def _make_declined_response(error: resolver.Declined, family: HttpxFamily) -> httpx.Response:
    """Return an http error response with the error message of the server as its body."""
    return family.Response(resolver.http_status(error), text=error.message)


@contextmanager
def _translate_errors(request: AnyRequest, family: HttpxFamily) -> Iterator[None]:
    """Convert errors of this library to exceptions of httpx or httpx2."""
    try:
        yield
    except resolver.ResolveError as error:
        kind = next((kind for base, kind in _EXCEPTIONS if isinstance(error, base)), "TransportError")
        raise error_class(family, kind)(str(error), request=cast("httpx.Request", request)) from error
