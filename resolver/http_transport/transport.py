"""The transport: each request judged, sent, and answered as httpx wants it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Unpack, cast

import httpx

from protocols.contract import Options, Origin, Referrer, Reply
from protocols.conversation import hold
from protocols.errors import ResolveError, UnsupportedScheme
from protocols.http.codings import ALWAYS
from protocols.http.relay import relay
from protocols.http.request import HttpRequest, prepare, target_of
from protocols.http.url import HttpUrl
from protocols.step import Dialogue
from protocols.values import replace
from resolver import codings, http2
from resolver.gate import Lookup, Network
from resolver.gate.lookup import look_up
from resolver.http_transport.faults import translated
from resolver.http_transport.hop import RequestRoute, route_of
from resolver.http_transport.streams import HeldBody, RequestBody, ResponseBody
from resolver.http_transport.timeouts import TimeoutGate
from resolver.policy import check_hops
from resolver.portal import OpenResource, Portal, PortalContext, ThreadLost, portal, told
from resolver.retrieval.hops import RetrievalRequest as HopRequest
from resolver.settings import NetworkSettings, check_names
from resolver.tracebacks import outermost
from resolver.url import parse

if TYPE_CHECKING:
    from resolver.retrieval.recorded import CaptureRecording


class HttpxTransport(httpx.AsyncBaseTransport, httpx.BaseTransport):
    """A transport for `httpx.AsyncClient`, under trio or asyncio, or for `httpx.Client`, in any thread: one
    object for one of the two, as its first request has it.

    Raises `RequestRefused`, which is a `Refused` and an `httpx.TransportError`, where the policy says no;
    nothing was sent then. Any other error is httpx's, with ours as its cause. `origin` is who chooses the
    URLs. `limits.body` binds only with `body_everywhere`. Timeouts are the client's and the limits',
    whichever ends first.

    Examples:
        >>> import httpx
        >>> safe = resolver.HttpxTransport(policy=resolver.Policy.untrusted())
        >>> async with httpx.AsyncClient(transport=safe) as client:
        ...     await client.get("http://169.254.169.254/latest/meta-data/")
        Traceback (most recent call last):
        resolver.http_transport.faults.RequestRefused: ...: S08: 169.254.169.254 is link-local, ...
    """

    def __init__(
        self, *, origin: Origin = "user", lookup: Lookup = look_up, **settings: Unpack[NetworkSettings]
    ) -> None:
        check_names(settings, NetworkSettings.__optional_keys__)
        if (on_event := settings.get("on_event")) is not None:
            settings["on_event"] = told(on_event)
        self._origin = origin
        self._network = Network(lookup=lookup, **settings)
        self._options = Options(codings=codings.installed())
        self._undone = frozenset({**ALWAYS, **self._options.codings})
        self._framed = replace(self._options, http2=http2.installed())
        self._client: str | None = None
        self._portal: Portal | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """What an `httpx.AsyncClient` calls for each request, also for each that follows a redirect."""
        self._serve("httpx.AsyncClient")
        return await self._answer(request)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """What an `httpx.Client` calls for each request, also for each that follows a redirect."""
        self._serve("httpx.Client")

        async def answer() -> AbstractAsyncContextManager[httpx.Response]:
            return self._answered(request)

        return PortalContext(self._home, answer, _held).__enter__()

    def _serve(self, client: str) -> None:
        """What is kept for the one is of no use for the other: its loop, or its thread, is not there."""
        if self._client not in (None, client):
            raise RuntimeError(f"this HttpxTransport serves {self._client}: make another one for {client}")
        self._client = client

    def _home(self) -> Portal:
        if self._portal is None:
            self._portal = portal()
            self._portal.close_at_end(self)
        return self._portal

    @asynccontextmanager
    async def _answered(self, request: httpx.Request) -> AsyncIterator[httpx.Response]:
        response = await self._answer(request)
        body = response.stream
        assert isinstance(body, ResponseBody)
        try:
            yield response
        finally:
            await body.aclose()

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        await self._network.__aenter__()
        sent = RequestBody(request)
        try:
            route, gate, url, dialogue = self._prepare(request, sent)
        except BaseException:
            await sent.aclose()
            raise
        recording = None if self._network.recorder is None else self._record(route, gate, url)
        try:
            conversation = hold(dialogue if recording is None else recording.watched(dialogue), gate)
            reply = await _begin(conversation, gate)
        except BaseException as error:
            await sent.aclose()
            if recording is not None:
                recording.end(error.__cause__ or error)
            raise
        body = ResponseBody(
            reply if recording is None else recording.body_of(reply), conversation, gate, recording
        )
        try:
            await sent.aclose()
            response = _response(reply, gate, body)
            if response.has_redirect_location:
                route.mark(request, Referrer(url.shown, gate.source), gate.clock)
        except BaseException:
            await body.aclose()
            raise
        return response

    def _record(self, route: RequestRoute, gate: TimeoutGate, url: HttpUrl) -> CaptureRecording:
        from resolver.retrieval.recorded import CaptureRecording  # few keep what is said

        assert self._network.recorder is not None
        recording = CaptureRecording(self._network.recorder, gate.mask, 1)
        request = HopRequest(url, route.origin, route.referrer, gate.options)
        led_by = None if route.hops == 0 or route.referrer is None else route.referrer.url
        recording.begin(request, gate, led_by)
        return recording

    def _prepare(
        self, request: httpx.Request, sent: RequestBody
    ) -> tuple[RequestRoute, TimeoutGate, HttpUrl, Dialogue[None]]:
        """How the client came here, the way out for its request, and what will be said."""
        try:
            route, gate, url, relayed = self._judge(request, sent)
        except ResolveError as error:
            raise translated(error, httpx.ReadTimeout) from outermost(error)
        return route, gate, url, relay(relayed, gate.options, gate.limits, tls=url.secured)

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        await self._network.__aexit__(None, None, None)

    def close(self) -> None:
        """Close the connections that are kept, of an `httpx.Client`."""
        if self._portal is not None and self._portal.usable:
            with suppress(ThreadLost):
                self._portal.run(self.aclose)

    def __del__(self) -> None:
        if (home := vars(self).get("_portal")) is not None:
            home.cast(self.aclose)

    def _judge(
        self, request: httpx.Request, body: RequestBody
    ) -> tuple[RequestRoute, TimeoutGate, HttpUrl, HttpRequest]:
        """What is allowed of it, and what will be sent."""
        route = route_of(request, self._origin)
        check_hops(route.hops, self._network.limits.hops)
        route, url, headers = route.retry(
            parse(str(request.url)), tuple(request.headers.raw), self._network.policy
        )
        limits = self._network.limits_of(url)
        in_frames = isinstance(url, HttpUrl) and url.secured and _goes_in_frames(request, body)
        in_frames = in_frames and self._network.recorder is None
        options = self._framed if in_frames else self._options
        if limits.body_everywhere:
            options = replace(options, most=limits.body)
        judged = self._network.judged(url, origin=route.origin, referrer=route.referrer, options=options)
        if not isinstance(url, HttpUrl):
            raise UnsupportedScheme(url.scheme, f"httpx has no use for {url.scheme} URLs")
        given = None if route.hops else cast("bytes | None", request.extensions.get("target"))
        target = target_of(url) if given is None else given
        fields = [
            (name, _accepted(value, self._undone) if name.lower() == b"accept-encoding" else value)
            for name, value in headers
        ]
        content = body.next_piece if body.octets is None else body.octets
        gate = TimeoutGate(judged, request.extensions.get("timeout", {}), route.clock)
        return route, gate, url, prepare(request.method.encode(), target, fields, content)


@lru_cache(maxsize=64)
def _accepted(value: bytes, undone: frozenset[str]) -> bytes:
    """Of the content codings that a client takes only those that can be undone here."""
    named = [coding.strip() for coding in value.decode("latin-1").split(",")]
    known = [coding for coding in named if coding.partition(";")[0].strip().lower() in undone]
    return ", ".join(known).encode("latin-1") or b"identity"


def _held(response: httpx.Response, held: OpenResource) -> httpx.Response:
    """The same for a client that waits."""
    body = response.stream
    assert isinstance(body, ResponseBody)
    response.stream = HeldBody(body, held)
    return response


async def _begin(conversation: AbstractAsyncContextManager[Reply], gate: TimeoutGate) -> Reply:
    try:
        return await gate.enter(conversation)
    except ResolveError as error:
        raise translated(error, gate.timed_out) from outermost(error)


def _goes_in_frames(request: httpx.Request, body: RequestBody) -> bool:
    """May it be put in HTTP/2? Not with a body, for which the peer has to make room, piece by piece, nor
    where it has other fields there (RFC 9113 8.5)."""
    bodiless = body.octets == b"" and "transfer-encoding" not in request.headers
    return bodiless and request.method != "CONNECT"


def _response(reply: Reply, gate: TimeoutGate, body: ResponseBody) -> httpx.Response:
    """httpx has its own words for a status that came without."""
    facts = reply.extra or {}
    reason = str(facts["reason"]).encode("latin-1")
    return httpx.Response(
        cast(int, facts["status"]),
        headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in reply.meta],
        stream=body,
        extensions={
            "http_version": str(facts["version"]).encode("ascii"),
            **({"reason_phrase": reason} if facts["version"] == "HTTP/1.1" else {}),
            "findings": tuple(gate.findings),
            "verified": reply.verified,
            "peer": gate.peer,
        },
    )
