"""The transport for httpx: it checks, sends and answers each request, with httpx's errors and timeouts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, Unpack, cast
from weakref import ReferenceType, ref

import httpx

from protocols.contract import FirstResult, Options, Reply
from protocols.conversation.driver import hold
from protocols.errors import (
    Disconnected,
    InvalidUrl,
    LimitExceeded,
    LocalError,
    ProtocolError,
    Refused,
    ResolveError,
    TimedOut,
    TlsError,
    Truncated,
    Unreachable,
    UnsupportedScheme,
)
from protocols.http.codings import ALWAYS
from protocols.http.dialogue import relay
from protocols.http.request import HttpRequest, prepare, target_of
from protocols.http.url import HttpUrl
from protocols.location import Origin, Referrer, Url
from protocols.step import Dialogue
from resolver.blocking.portal import (
    OpenResource,
    Portal,
    PortalContext,
    ThreadLost,
    ask,
    make_thread_listener,
    portal,
)
from resolver.blocking.portal import PortalBody as WaitingBody
from resolver.loops import CancelScope
from resolver.network.admission import Admission
from resolver.network.clock import Clock
from resolver.network.lookup import Lookup, look_up
from resolver.network.stream_settings import Phase
from resolver.network.url_gate import UrlGate
from resolver.policy.redirects import check_hops, may_carry_credentials, select_harmless
from resolver.policy.settings import Policy
from resolver.transfer import extras as codings
from resolver.transfer import extras as http2
from resolver.transfer.network import Network
from resolver.transfer.redirects import RetrievalRequest as HopRequest
from resolver.transfer.settings import NetworkSettings, check_names
from resolver.url.parsing import parse, strip_user
from resolver.url.tracebacks import trim_traceback

if TYPE_CHECKING:
    from resolver.transfer.archives import TryRecording


# The library's errors are converted to the exceptions that httpx promises its users, only in this module.


class RequestRefused(Refused, httpx.TransportError):
    """A request of httpx that the policy refused: an error of both libraries."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.rule, refused.message)
        vars(self).update(vars(refused))

    def __setattr__(self, name: str, value: object) -> None:
        """Allow httpx to set the request on each of its errors."""
        if name == "request":
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)


_TRANSLATIONS: tuple[tuple[type[ResolveError], type[httpx.TransportError]], ...] = (
    (Unreachable, httpx.ConnectError),
    (TlsError, httpx.ConnectError),
    (Disconnected, httpx.ReadError),
    (ProtocolError, httpx.RemoteProtocolError),
    (Truncated, httpx.RemoteProtocolError),
    (InvalidUrl, httpx.UnsupportedProtocol),
    (UnsupportedScheme, httpx.UnsupportedProtocol),
    (LocalError, httpx.LocalProtocolError),
)


def translate_error(
    error: ResolveError, timed_out: Callable[[str], httpx.TimeoutException]
) -> httpx.TransportError:
    """Return the httpx exception for an error; for a timeout, `timed_out` makes it from the message."""
    if isinstance(error, Refused):
        return RequestRefused(error)
    if isinstance(error, TimedOut):
        return timed_out(error.message)
    for ours, theirs in _TRANSLATIONS:
        if isinstance(error, ours):
            return theirs(error.message)
    return httpx.TransportError(error.message)


# Redirects that a client follows, and the headers that are sent along (S10, S11).
#
# httpx makes each hop a separate request, with headers that it selects and with the extensions of the
# redirected request. Each request with a redirect as its response is therefore marked in its extensions. A
# request with the mark of another request is a hop, regardless of how the client came to send it. The same
# request sent again, for example for authentication, is not a hop.

_MARK = "resolver.hop"
Headers: TypeAlias = "tuple[tuple[bytes, bytes], ...]"


class _RedirectMark(NamedTuple):
    """The mark of a request with a redirect as its response.

    Attributes:
        request: The redirected request.
        referrer: The location of the redirect.
        hops: The number of hops so far.
        left: Whether a hop has left the host and port of the first request.
        clock: The clock that started with the first request.
    """

    request: ReferenceType[httpx.Request]
    referrer: Referrer
    hops: int
    left: bool
    clock: Clock


class RequestRoute(NamedTuple):
    """The origin of a request: `hops` redirects precede it; `left` and `clock` as in `_RedirectMark`."""

    origin: Origin
    referrer: Referrer | None
    hops: int = 0
    left: bool = False
    clock: Clock | None = None

    def retry(self, url: Url, headers: Headers, policy: Policy) -> tuple[RequestRoute, Url, Headers]:
        """Return the URL and headers that may be sent with a hop to `url`.

        Credentials for one host and port are not sent to another. After a hop to another host or port they
        are not sent again, even if a later hop returns. httpx would repeat a user name in a redirect; the
        user name is removed here (S06: passwords sent without encryption).
        """
        if self.origin != "derived" or self.referrer is None:
            return self, url, headers
        stays = may_carry_credentials(parse(self.referrer.url), url, policy)
        there = parse(strip_user(url)) if stays else url
        if stays and not self.left:
            return self, there, headers
        return self._replace(left=True), there, select_harmless(headers)

    def mark(self, request: httpx.Request, found_in: Referrer, clock: Clock) -> None:
        """Mark a redirected request, because the client may follow the redirect."""
        mark = _RedirectMark(ref(request), found_in, self.hops + 1, self.left, clock)
        request.extensions = {**request.extensions, _MARK: mark}


def route_of(request: httpx.Request, origin: Origin) -> RequestRoute:
    """Return the route of a request: a hop by its mark, otherwise by its extensions or the default."""
    mark = cast("_RedirectMark | None", request.extensions.get(_MARK))
    if mark is not None and mark.request() is not request:
        return RequestRoute("derived", mark.referrer, mark.hops, mark.left, mark.clock)
    led_by = cast("tuple[str, str | None] | None", request.extensions.get("referrer"))
    chosen = cast(Origin, request.extensions.get("origin", origin))
    return RequestRoute(chosen, None if led_by is None else Referrer(*led_by))


# The gate of one httpx request: its connections observe the timeouts of the client.
#
# httpx has a timeout for each phase: to connect, for one write, for one read. The shorter of that timeout and
# our limit ends the request. The time for the response head begins when the request is completely sent.

A = TypeVar("A")
B = TypeVar("B")

_NEVER = float("inf")
_TIMED_OUT: Mapping[Phase, type[httpx.TimeoutException]] = {
    "connect": httpx.ConnectTimeout,
    "write": httpx.WriteTimeout,
    "read": httpx.ReadTimeout,
}


class HttpxTimeouts:
    """The timeouts of one request; see `Bounds`.

    Args:
        timeouts: httpx's timeouts in seconds by phase; None is no timeout.
        clock: The clock of all hops of a request.
        head: Seconds for the response head; None is no limit.
    """

    def __init__(self, timeouts: Mapping[str, float | None], clock: Clock, head: float | None) -> None:
        self._timeouts = timeouts
        self._clock = clock
        self._head = head
        self._until: dict[Phase, float] = {}
        self.scope: CancelScope | None = None
        self._late: Phase = "read"
        self._saying = False

    @property
    def late(self) -> Phase:
        """Return the phase whose timeout counts.

        A request may still be sent while its response is already read. During that time a read timeout is not
        an error, but it may occur in the same turn as an actual timeout.
        """
        return self._late

    @late.setter
    def late(self, phase: Phase) -> None:
        if phase != "read" or not self._saying:
            self._late = phase

    def begin_saying(self) -> None:
        """Start sending and receiving concurrently."""
        self._saying = True
        self.leave_head()

    def end_saying(self) -> None:
        """End sending; the time for the response head starts."""
        self._saying = False
        self.await_head()

    def begin(self, phase: Phase) -> None:
        """Start the client's timeout for a phase."""
        seconds = self._timeouts.get(phase)
        self._until[phase] = _NEVER if seconds is None else self._clock.loop.current_time() + seconds
        if phase == "connect":
            self.leave_head()

    def record_connected(self) -> None:
        """Start the time for the response head: a short request follows the connection."""
        self.await_head()

    def deadline(self, phase: Phase) -> float:
        """Return the end of the client's timeout for a phase."""
        return self._until.get(phase, _NEVER)

    def compute_deadline(self, phase: Phase, silent: float) -> float:
        """Return the end of one wait in a phase."""
        return silent if phase == "connect" else min(silent, self.deadline(phase))

    def make_timeout(self, phase: Phase) -> TimedOut:
        """Return the error for a phase that exceeded the client's timeout."""
        return TimedOut(f"timed out after {self._timeouts[phase]:g} s (timeout of the client)")

    def leave_head(self) -> None:
        """Suspend the time for the response head: the peer cannot have responded yet."""
        if self.scope is not None:
            self.scope.deadline = self._clock.deadline

    def await_head(self) -> None:
        """Start the time for the response head: the request is completely sent."""
        if self.scope is not None and self._head is not None:
            self.scope.deadline = min(self._clock.deadline, self._clock.loop.current_time() + self._head)


class TimeoutGate(UrlGate):
    """A gate with the timeouts of one request; see `UrlGate`."""

    def __init__(
        self, admission: Admission, timeouts: Mapping[str, float | None], clock: Clock | None
    ) -> None:
        super().__init__(admission)
        self.clock = clock or Clock(self.limits.total)
        self._times = self._connector.bounds = HttpxTimeouts(timeouts, self.clock, self.limits.head)

    def timed_out(self, message: str) -> httpx.TimeoutException:
        """Return httpx's error for the phase that timed out."""
        return _TIMED_OUT[self._times.late](message)

    async def enter(self, conversation: AbstractAsyncContextManager[Reply]) -> Reply:
        """Receive the response head within its time limit, if there is one."""
        if self.limits.head is None:
            with self.clock.limit_time():
                return await conversation.__aenter__()
        with self.clock.loop.move_on_at(self.clock.deadline) as scope:
            self._times.scope = scope
            return await conversation.__aenter__()
        raise (
            self.clock if scope.deadline == self.clock.deadline else Clock.for_head(self.limits)
        ).make_timeout()

    async def first_of(
        self, first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[FirstResult[A] | None, FirstResult[B] | None]:
        """Run both concurrently; only a request that is still being sent uses this method."""
        self._times.begin_saying()
        try:
            return await super().first_of(first, second)
        finally:
            self._times.end_saying()


class RequestBody:
    """The body of a request.

    `octets` is the body if it is known in advance, else None; `next_piece` then returns the body in pieces.
    Closing it also closes the client's iterator, which may not be exhausted.
    """

    def __init__(self, request: httpx.Request) -> None:
        stream = request.stream
        self.octets: bytes | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        if isinstance(stream, httpx.ByteStream):
            self.octets = b"".join(stream)
        else:
            self._pieces = (
                aiter(stream)
                if isinstance(stream, httpx.AsyncByteStream)
                else _iterate_in_thread(iter(stream))
            )

    async def next_piece(self) -> bytes:
        """Return the next bytes; empty at the end."""
        assert self._pieces is not None, "the body is known in advance"
        async for octets in self._pieces:
            if octets:
                return octets
        return b""

    async def aclose(self) -> None:
        """Close the client's iterator; no more of the body is sent."""
        if isinstance(self._pieces, AsyncGenerator):  # httpx's bodies are async generators
            await self._pieces.aclose()


async def _iterate_in_thread(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of a blocking client's body, each read in the client's own thread."""
    while (octets := await ask(partial(next, pieces, None))) is not None:
        yield octets


class ResponseBody(httpx.AsyncByteStream):
    """The body of a response; closing it returns its connection to the pool or closes the connection."""

    def __init__(
        self,
        reply: Reply,
        opened: AbstractAsyncContextManager[Reply],
        gate: TimeoutGate,
        recording: TryRecording | None = None,
    ) -> None:
        self._opened: AbstractAsyncContextManager[Reply] | None = opened
        self._body = reply.body
        self._gate = gate
        self._most = gate.options.most
        self._received = 0
        self._recording = recording

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            with self._gate.clock.limit_time():
                octets = await anext(self._body)
            self._received += len(octets)
            if self._most is not None and self._received > self._most:
                raise LimitExceeded("body", f"body exceeds the limit of {self._most} bytes")
        except ResolveError as error:
            self._end_record(error)
            raise translate_error(error, self._gate.timed_out) from trim_traceback(error)
        return octets

    async def aclose(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.__aexit__(None, None, None)
            self._end_record(None)

    def _end_record(self, error: ResolveError | None) -> None:
        if self._recording is not None:
            self._recording.end(error)


class HeldBody(httpx.SyncByteStream):
    """The response body for a blocking client; closing it closes the response."""

    def __init__(self, body: ResponseBody, held: OpenResource) -> None:
        self._body = WaitingBody(body, held)
        self._held = held

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        self._held.leave()


class HttpxTransport(httpx.AsyncBaseTransport, httpx.BaseTransport):
    """A transport for `httpx.AsyncClient`, under trio or asyncio, or for `httpx.Client`, in any thread.

    One object serves one of the two: that of its first request. If the policy refuses a request,
    `RequestRefused` is raised, a `Refused` and an `httpx.TransportError`, and nothing was sent. Any other
    error is an exception of httpx, with the library's error as its cause. The timeouts of the client and the
    limits both apply; the earlier one ends the request.

    Args:
        origin: The origin of the URLs.
        lookup: The DNS lookup.
        settings: The settings of a network session. `limits.body` applies only with `body_everywhere`.

    Examples:
        >>> import httpx
        >>> safe = resolver.HttpxTransport(policy=resolver.Policy.untrusted())
        >>> async with httpx.AsyncClient(transport=safe) as client:
        ...     await client.get("http://169.254.169.254/latest/meta-data/")
        Traceback (most recent call last):
        resolver.adapters.httpx_transport.RequestRefused: ...: S08: 169.254.169.254 is link-local, ...
    """

    def __init__(
        self, *, origin: Origin = "user", lookup: Lookup = look_up, **settings: Unpack[NetworkSettings]
    ) -> None:
        check_names(settings, NetworkSettings.__optional_keys__)
        if (on_event := settings.get("on_event")) is not None:
            settings["on_event"] = make_thread_listener(on_event)
        self._origin = origin
        self._network = Network(lookup=lookup, **settings)
        self._options = Options(codings=codings.find_codings())
        self._undone = frozenset({**ALWAYS, **self._options.codings})
        self._framed = replace(self._options, http2=http2.find_frames())
        self._client: str | None = None
        self._portal: Portal | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Handle a request of an `httpx.AsyncClient`, also each one that follows a redirect."""
        self._serve("httpx.AsyncClient")
        return await self._answer(request)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Handle a request of an `httpx.Client`, also each one that follows a redirect."""
        self._serve("httpx.Client")

        async def answer() -> AbstractAsyncContextManager[httpx.Response]:
            return self._answered(request)

        return PortalContext(self._home, answer, _hold_response).__enter__()

    def _serve(self, client: str) -> None:
        """Refuse to serve both clients: pooled connections are bound to the loop or the thread of one."""
        if self._client not in (None, client):
            raise RuntimeError(f"HttpxTransport already serves {self._client} (create another for {client})")
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
            conversation = hold(dialogue if recording is None else recording.watch_dialogue(dialogue), gate)
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

    def _record(self, route: RequestRoute, gate: TimeoutGate, url: HttpUrl) -> TryRecording:
        assert self._network.recorder is not None
        recording = self._network.recorder.recording(gate.mask, 1)
        request = HopRequest(url, route.origin, route.referrer, gate.options)
        led_by = None if route.hops == 0 or route.referrer is None else route.referrer.url
        recording.begin(request, gate, led_by)
        return recording

    def _prepare(
        self, request: httpx.Request, sent: RequestBody
    ) -> tuple[RequestRoute, TimeoutGate, HttpUrl, Dialogue[None]]:
        """Return the route, gate and URL of a request, and its protocol exchange."""
        try:
            route, gate, url, relayed = self._judge(request, sent)
        except ResolveError as error:
            raise translate_error(error, httpx.ReadTimeout) from trim_traceback(error)
        return route, gate, url, relay(relayed, gate.options, gate.limits, tls=url.secured)

    async def aclose(self) -> None:
        """Close the pooled connections."""
        await self._network.__aexit__(None, None, None)

    def close(self) -> None:
        """Close the pooled connections of an `httpx.Client`."""
        if self._portal is not None and self._portal.usable:
            with suppress(ThreadLost):
                self._portal.run(self.aclose)

    def __del__(self) -> None:
        if (home := vars(self).get("_portal")) is not None:
            home.cast(self.aclose)

    def _judge(
        self, request: httpx.Request, body: RequestBody
    ) -> tuple[RequestRoute, TimeoutGate, HttpUrl, HttpRequest]:
        """Check a request against the policy, and prepare it."""
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
        judged = self._network.judge_url(url, origin=route.origin, referrer=route.referrer, options=options)
        if not isinstance(url, HttpUrl):
            raise UnsupportedScheme(url.scheme, f"httpx does not support {url.scheme} URLs")
        given = None if route.hops else cast("bytes | None", request.extensions.get("target"))
        target = target_of(url) if given is None else given
        fields = [
            (name, _filter_codings(value, self._undone) if name.lower() == b"accept-encoding" else value)
            for name, value in headers
        ]
        content = body.next_piece if body.octets is None else body.octets
        gate = TimeoutGate(judged, request.extensions.get("timeout", {}), route.clock)
        return route, gate, url, prepare(request.method.encode(), target, fields, content)


@lru_cache(maxsize=64)
def _filter_codings(value: bytes, undone: frozenset[str]) -> bytes:
    """Keep only those content codings of the client that can be decoded here."""
    named = [coding.strip() for coding in value.decode("latin-1").split(",")]
    known = [coding for coding in named if coding.partition(";")[0].strip().lower() in undone]
    return ", ".join(known).encode("latin-1") or b"identity"


def _hold_response(response: httpx.Response, held: OpenResource) -> httpx.Response:
    """Return the response for a blocking client."""
    body = response.stream
    assert isinstance(body, ResponseBody)
    response.stream = HeldBody(body, held)
    return response


async def _begin(conversation: AbstractAsyncContextManager[Reply], gate: TimeoutGate) -> Reply:
    try:
        return await gate.enter(conversation)
    except ResolveError as error:
        raise translate_error(error, gate.timed_out) from trim_traceback(error)


def _goes_in_frames(request: httpx.Request, body: RequestBody) -> bool:
    """Return whether a request may use HTTP/2.

    A request with a body may not use it, because the peer must grant flow-control window for each piece.
    CONNECT may not use it either, because its fields differ in HTTP/2 (RFC 9113 8.5).
    """
    bodiless = body.octets == b"" and "transfer-encoding" not in request.headers
    return bodiless and request.method != "CONNECT"


def _response(reply: Reply, gate: TimeoutGate, body: ResponseBody) -> httpx.Response:
    """Convert a response; httpx chooses the reason phrase of a status that has none."""
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
