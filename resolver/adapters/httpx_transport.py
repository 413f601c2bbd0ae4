"""The http transport for httpx and httpx2, with policy checks (SSRF protection).

The transport applies the timeouts of the client, and raises exceptions of the client's library.
"""

from __future__ import annotations

import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, Unpack, cast
from weakref import ReferenceType, ref

from protocols.contract import FirstResult, Options, Reply
from protocols.conversation.driver import Conversation, hold
from protocols.errors import (
    LimitExceeded,
    NotConfigured,
    ResolveError,
    TimedOut,
    UnsupportedScheme,
)
from protocols.http.codings import ALWAYS
from protocols.http.dialogue import relay
from protocols.http.request import HttpRequest, format_target, prepare
from protocols.http.response import SWITCHING
from protocols.http.url import HttpUrl
from protocols.location import Origin, Referrer, Url
from protocols.wire import encode_payload
from resolver.adapters.httpx_errors import RequestRefused, translate_error
from resolver.adapters.httpx_family import (
    HttpxFamily,
    TransportBase,
    find_family,
    join_classes,
)
from resolver.adapters.httpx_trace import RequestTrace
from resolver.adapters.httpx_upgrade import AsyncUpgradedStream, UpgradedStream
from resolver.blocking.portal import (
    BLOCK_SIZE,
    COLLECT_SECONDS,
    OpenResource,
    Portal,
    PortalClosed,
    PortalContext,
    call_in_caller,
    make_thread_listener,
    portal,
)
from resolver.blocking.portal import PortalBody as WaitingBody
from resolver.loops import CancelScope
from resolver.network.admission import Admission
from resolver.network.clock import Clock
from resolver.network.lookup import Lookup, look_up
from resolver.network.pool import ReusableConnection
from resolver.network.stream import SocketStream
from resolver.network.stream_settings import Phase
from resolver.network.url_gate import UrlGate
from resolver.policy.redirects import check_hops, may_carry_credentials, select_harmless
from resolver.policy.settings import Policy
from resolver.transfer import extras as codings
from resolver.transfer import extras as http2
from resolver.transfer.network import Network
from resolver.transfer.redirects import RetrievalRequest as HopRequest
from resolver.transfer.settings import NetworkSettings, check_settings
from resolver.url.parsing import parse, strip_user
from resolver.url.tracebacks import trim_traceback

if TYPE_CHECKING:
    import httpx

    from resolver.adapters.httpx_family import AnyRequest
    from resolver.transfer.archives import TryRecording


# Redirects that the httpx client follows, and the headers of the redirected requests (S10, S11).
#
# For each redirect, httpx creates a new request, and copies the extensions of the old request to the new
# request. So if the response to a request is a redirect, this transport stores a mark in the extensions of
# the request. A request with the mark of another request is a redirected request. A request with its own mark
# is the same request, sent again, for example for authentication.

_MARK = "resolver.hop"
#: A pattern for the URL schemes of WebSocket. A WebSocket connection begins with an http request (RFC 6455
#: 4.1), so the scheme is replaced by http or https.
_WEBSOCKET = re.compile(r"\Aws(s?)(?=:)")
Headers: TypeAlias = "tuple[tuple[bytes, bytes], ...]"


class _RedirectMark(NamedTuple):
    """The mark of a request whose response is a redirect.

    Attributes:
        request: The request whose response is a redirect.
        referrer: The URL and IP address of this request.
        hops: The number of redirects so far.
        has_left_host: Whether a redirect has led to a host or port other than those of the first request.
        clock: The clock for the time limit of the first request and all its redirects.
    """

    request: ReferenceType[httpx.Request]
    referrer: Referrer
    hops: int
    has_left_host: bool
    clock: Clock


class RequestRoute(NamedTuple):
    """The origin and the redirects of a request.

    `hops` is the number of redirects before the request. `has_left_host` and `clock` have the same meaning
    as in `_RedirectMark`.
    """

    origin: Origin
    referrer: Referrer | None
    hops: int = 0
    has_left_host: bool = False
    clock: Clock | None = None

    def retry(self, url: Url, headers: Headers, policy: Policy) -> tuple[RequestRoute, Url, Headers]:
        """Return the route, URL and headers for a redirect to `url`.

        Credentials for one host and port are not sent to another host or port. After a redirect to another
        host or port, the credentials are never sent again, even if a later redirect leads back to the first
        host. A user name in a redirect URL is removed, because httpx would send the user name as a login
        (S06: passwords sent without encryption).
        """
        if self.origin != "derived" or self.referrer is None:
            return self, url, headers
        stays = may_carry_credentials(parse(self.referrer.url), url, policy)
        target = parse(strip_user(url)) if stays else url
        if stays and not self.has_left_host:
            return self, target, headers
        return self._replace(has_left_host=True), target, select_harmless(headers)

    def mark(self, request: httpx.Request, found_in: Referrer, clock: Clock) -> None:
        """Mark a request whose response is a redirect, because the client may follow the redirect."""
        mark = _RedirectMark(ref(request), found_in, self.hops + 1, self.has_left_host, clock)
        request.extensions = {**request.extensions, _MARK: mark}


def find_route(request: httpx.Request, origin: Origin) -> RequestRoute:
    """Return the route of a request.

    The source is the redirect mark, or else the request extensions, or else the default origin.
    """
    mark: _RedirectMark | None = request.extensions.get(_MARK)
    if mark is not None and mark.request() is not request:
        return RequestRoute("derived", mark.referrer, mark.hops, mark.has_left_host, mark.clock)
    referrer: tuple[str, str | None] | None = request.extensions.get("referrer")
    request_origin: Origin = request.extensions.get("origin", origin)
    return RequestRoute(request_origin, None if referrer is None else Referrer(*referrer))


# The network gate of one httpx request. The connections of this gate apply the timeouts of the httpx client.
#
# httpx has a timeout for each phase: connect, one write, and one read. If a timeout of httpx or a limit of
# this library is reached, the request fails. The timeout for the response head starts when the complete
# request has been sent.

A = TypeVar("A")
B = TypeVar("B")

_NEVER = float("inf")


class HttpxTimeouts:
    """The timeouts of one httpx request, as an implementation of `Bounds`.

    Args:
        timeouts: The timeouts of httpx in seconds by phase; a phase with the value None does not time out.
        clock: The clock for the time limit of a request and its redirects.
        head: The timeout for the response head in seconds, or None.
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
        """Return the phase of the timeout that ended the request.

        While the request body is being sent, a read timeout is not recorded, because the server may respond
        after the complete body.
        """
        return self._late

    @late.setter
    def late(self, phase: Phase) -> None:
        if phase != "read" or not self._saying:
            self._late = phase

    def forget(self) -> None:
        """Remove the http timeouts, because the connection has switched to another protocol."""
        self._timeouts, self._until = {}, {}

    def begin_saying(self) -> None:
        """Start the phase in which the client sends the request and concurrently reads the response."""
        self._saying = True
        self.leave_head()

    def end_saying(self) -> None:
        """End the phase in which the request is sent, and start the timeout for the response head."""
        self._saying = False
        self.await_head()

    def begin(self, phase: Phase) -> None:
        """Start the httpx timeout for a phase."""
        seconds = self._timeouts.get(phase)
        self._until[phase] = _NEVER if seconds is None else self._clock.loop.current_time() + seconds
        if phase == "connect":
            self.leave_head()

    def deadline(self, phase: Phase) -> float:
        """Return the deadline of the httpx timeout for a phase."""
        return self._until.get(phase, _NEVER)

    def compute_deadline(self, phase: Phase, silent: float) -> float:
        """Return the deadline of a wait.

        It is the earlier of the httpx deadline for the phase and `silent`.

        `silent` is the deadline of the idle timeout. In the phase `connect`, the result is `silent`.
        """
        return silent if phase == "connect" else min(silent, self.deadline(phase))

    def make_timeout(self, phase: Phase) -> TimedOut:
        """Return the error for a phase that exceeded its httpx timeout."""
        return TimedOut(f"timed out after {self._timeouts[phase]:g} s (timeout of the client)")

    def leave_head(self) -> None:
        """Suspend the timeout for the response head, because the request is not yet completely sent."""
        if self.scope is not None:
            self.scope.deadline = self._clock.deadline

    def await_head(self) -> None:
        """Start the timeout for the response head, because the complete request has been sent."""
        if self.scope is not None and self._head is not None:
            self.scope.deadline = min(self._clock.deadline, self._clock.loop.current_time() + self._head)

    #: A short request is sent immediately after the connection was opened.
    record_connected = await_head


class TimeoutGate(UrlGate):
    """A network gate for one request, with its httpx timeouts and its library (httpx or httpx2)."""

    trace: RequestTrace | None = None

    def __init__(
        self,
        admission: Admission,
        timeouts: Mapping[str, float | None],
        clock: Clock | None,
        family: HttpxFamily,
    ) -> None:
        super().__init__(admission)
        self.family = family
        self.clock = clock or Clock(self.limits.total, loop=admission.loop)
        self._times = self._connector.bounds = HttpxTimeouts(timeouts, self.clock, self.limits.head)

    @property
    def stream(self) -> SocketStream:
        """Return the connection on which the response was received."""
        assert self._connector.first is not None, "a response was received"
        return self._connector.first

    def switch_protocols(self) -> None:
        """Remove the http timeouts after a 101 response."""
        self._times.forget()
        self.stream.drop_idle_limit()

    def translate_error(self, error: ResolveError) -> httpx.TransportError | RequestRefused:
        """Return the httpx or httpx2 exception for an error; the phase determines the class of a timeout."""
        return translate_error(error, self.family, self._times.late)

    async def enter(self, conversation: AbstractAsyncContextManager[Reply]) -> Reply:
        """Receive the response head, within the timeout for the response head."""
        with self.clock.loop.move_on_at(self.clock.deadline) as scope:
            self._times.scope = scope
            return await conversation.__aenter__()
        is_total = scope.deadline == self.clock.deadline
        raise (self.clock if is_total else Clock.for_head(self.limits)).make_timeout()

    async def first_of(
        self, first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[FirstResult[A] | None, FirstResult[B] | None]:
        """Run two functions concurrently: one sends the request, and the other reads the response."""
        self._times.begin_saying()
        try:
            return await super().first_of(first, second)
        finally:
            self._times.end_saying()


class TracedGate(TimeoutGate):
    """A network gate for one request that reports its steps to the trace function of the caller."""

    trace: RequestTrace

    async def open_connection(self, host: str, port: int, tls: bool) -> SocketStream:
        stream: SocketStream | None = None
        try:
            async with self.trace.watch("connection.connect_tcp", {"host": host, "port": port}):
                stream = await super().open_connection(host, port, tls)
        except BaseException:
            if stream is not None:  # The `trace` function failed.
                await stream.aclose()
            raise
        return stream

    @asynccontextmanager
    async def connect(self, *, tls: bool) -> AsyncIterator[SocketStream]:
        async with super().connect(tls=tls) as stream:
            yield cast(SocketStream, self.trace.wrap(stream))

    @asynccontextmanager
    async def acquire(
        self, pool_key: Hashable, *, tls: bool, suits: Callable[[object], bool] | None = None
    ) -> AsyncIterator[ReusableConnection]:
        async with super().acquire(pool_key, tls=tls, suits=suits) as pooled:
            stream = pooled.stream
            pooled.stream = cast(SocketStream, self.trace.wrap(stream))
            try:
                yield pooled
            finally:
                pooled.stream = stream

    async def first_of(
        self, first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[FirstResult[A] | None, FirstResult[B] | None]:
        self.trace.is_sending = True
        try:
            return await super().first_of(first, second)
        finally:
            self.trace.is_sending = False


class RequestBody:
    """The body of a request: the complete bytes (`octets`), or a stream of chunks (`next_piece`).

    `aclose` closes the iterator of the client, even if the iterator has more chunks.
    """

    def __init__(self, request: httpx.Request, family: HttpxFamily) -> None:
        stream = request.stream
        self.octets: bytes | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        if isinstance(stream, family.ByteStream):
            self.octets = b"".join(stream)
        else:
            self._pieces = (
                aiter(stream)
                if isinstance(stream, family.AsyncByteStream)
                else _iterate_in_thread(iter(cast("Iterable[bytes]", stream)))
            )

    async def next_piece(self) -> bytes:
        """Return the next chunk of a streaming body, or empty bytes at the end of the body."""
        assert self._pieces is not None, "the body is known in advance"
        async for octets in self._pieces:
            if octets:
                return octets
        return b""

    async def aclose(self) -> None:
        """Close the client's iterator for the request body, so that no more chunks are sent."""
        # httpx uses async generators for streaming bodies.
        if self.octets is None and isinstance(self._pieces, AsyncGenerator):
            await self._pieces.aclose()


async def _iterate_in_thread(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks of a blocking client's request body; the client's thread produces each chunk."""
    while (octets := await call_in_caller(partial(next, pieces, None))) is not None:
        yield octets


class ResponseBody:
    """The body of `response`. `aclose` returns the connection to the pool, or closes the connection."""

    response: httpx.Response

    def __init__(
        self,
        reply: Reply,
        opened: AbstractAsyncContextManager[Reply],
        gate: TimeoutGate,
        recording: TryRecording | None = None,
    ) -> None:
        self._opened: AbstractAsyncContextManager[Reply] | None = opened
        self._body = reply.body
        self.gate = gate
        self._max_size = gate.options.most
        self._received = 0
        self._recording = recording
        self._buffered: list[bytes] = []
        self._failure: ResolveError | None = None
        facts = reply.extra or {}
        self.upgraded = SwitchedConnection(self, gate) if facts["status"] == SWITCHING else None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._buffered:
            return self._buffered.pop(0)
        if self.upgraded is not None:
            raise StopAsyncIteration
        if (trace := self.gate.trace) is not None:
            await trace.begin_body()
        try:
            with self.gate.clock.limit_time():
                return await self._read()
        except StopAsyncIteration:
            if trace is not None:
                await trace.end_body()
            raise
        except ResolveError as error:
            self._end_record(error)
            failure = self.gate.translate_error(error)
            if trace is not None:
                await trace.fail(failure)
            raise failure from trim_traceback(error)

    async def read_switched(self) -> bytes:
        """Return received bytes of the new protocol, or empty bytes at the end."""
        with self.gate.clock.limit_time():
            return await anext(self._body, b"")

    async def buffer_received(self) -> bool:
        """Read the bytes of the body that have already arrived, at most about 1 MiB.

        If the response has a `Content-Length`, the method waits up to 2 ms, because the body may arrive
        shortly after the response head. If an error occurs, a later read raises the error.

        Returns:
            Whether the body is complete.
        """
        # The `trace` function must not run within the short time limit.
        if self.upgraded is not None or self.gate.trace is not None:
            return False
        loop = self.gate.clock.loop
        try:
            # A body that arrived with its head needs no time limit.
            if type(self._body) is Conversation and (whole := self._body.take_whole()):
                self._buffered.append(self._count(whole))
                return True
            has_length = "content-length" in self.response.headers
            with loop.move_on_at(loop.current_time() + COLLECT_SECONDS if has_length else -_NEVER):
                while self._received < BLOCK_SIZE:
                    self._buffered.append(await self._read())
        except StopAsyncIteration:
            return True
        except ResolveError as error:
            self._end_record(error)
            self._failure = error
        return False

    def take_response(self) -> httpx.Response:
        """Return the response, and forget it, because it and its body would form a reference cycle."""
        response = self.response
        del self.response
        return response

    def take_buffered(self) -> bytes:
        """Return and clear the bytes that `buffer_received` has read."""
        octets, self._buffered = b"".join(self._buffered), []
        return octets

    async def _read(self) -> bytes:
        if self._failure is not None:
            raise self._failure
        return self._count(await anext(self._body))

    def _count(self, octets: bytes) -> bytes:
        self._received += len(octets)
        if self._max_size is not None and self._received > self._max_size:
            raise LimitExceeded("body", f"body exceeds the limit of {self._max_size} bytes")
        return octets

    @property
    def is_closed(self) -> bool:
        return self._opened is None

    async def __aenter__(self) -> ResponseBody:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.__aexit__(None, None, None)
            self._end_record(None)

    def _end_record(self, error: ResolveError | None) -> None:
        if self._recording is not None:
            self._recording.end(error)


class SwitchedConnection:
    """The connection after a 101 response, as an implementation of `UpgradedConnection`."""

    def __init__(self, body: ResponseBody, gate: TimeoutGate) -> None:
        gate.switch_protocols()
        self._stream = gate.stream
        self.loop = self._stream.loop
        self.read = body.read_switched
        self.aclose = body.aclose

    async def write(self, octets: bytes) -> None:
        await self._stream.send(encode_payload(octets))

    def describe(self, name: str) -> object:
        return self._stream.describe(name)


class UnreadBody:
    """The unread response body for a blocking client; `close` also closes the response."""

    def __init__(self, body: ResponseBody, resource: OpenResource) -> None:
        # The `trace` function must not run within the short time limit in which `WaitingBody` collects bytes.
        self._body = WaitingBody(body, resource, BLOCK_SIZE if body.gate.trace is None else 1)
        self._buffered = body.take_buffered()
        self.close = resource.leave

    def __iter__(self) -> Iterator[bytes]:
        if self._buffered:
            yield self._buffered
        yield from self._body


class HttpxTransport(TransportBase):
    """A transport for `httpx.AsyncClient` (with trio or asyncio) or `httpx.Client` (in any thread).

    The clients of httpx2 are supported too. The class of a request determines whether its response and
    exceptions belong to httpx or httpx2.

    A transport object cannot be used with both asynchronous and blocking clients; the first request
    determines the kind of client. If the policy refuses a request, `RequestRefused` is raised before data is
    sent. `RequestRefused` is a subclass of `Refused` and of `TransportError` of the client's library. All
    other errors are exceptions of the client's library, with the error of this library as their cause. Both
    the timeouts of the client and the limits of this library apply.

    Args:
        origin: The origin of the URLs.
        lookup: The DNS lookup function.
        settings: The network settings. `limits.body` applies only with `body_everywhere`.

    Raises:
        NotConfigured: `limits.quota` is set, or another setting is invalid.

    Examples:
        >>> import httpx
        >>> safe = resolver.HttpxTransport(policy=resolver.Policy.untrusted())
        >>> async with httpx.AsyncClient(transport=safe) as client:
        ...     await client.get("http://169.254.169.254/latest/meta-data/")
        Traceback (most recent call last):
        resolver.adapters.httpx_errors.RequestRefused: ...: S08: 169.254.169.254 is link-local, ...
    """

    def __init__(
        self, *, origin: Origin = "user", lookup: Lookup = look_up, **settings: Unpack[NetworkSettings]
    ) -> None:
        check_settings(settings, NetworkSettings.__optional_keys__)
        if (on_event := settings.get("on_event")) is not None:
            settings["on_event"] = make_thread_listener(on_event)
        self._origin = origin
        self._network = Network(lookup=lookup, **settings)
        if self._network.quota is not None:
            raise NotConfigured("limits.quota is not available here: only a Resolver counts its bodies")
        self._options = Options(codings=codings.find_codings)
        self._codings = frozenset({**ALWAYS, **self._options.codings()})
        self._http2_options = replace(self._options, http2=http2.find_frames())
        self._kind: str | None = None
        self._client = ""
        self._portal: Portal | None = None

    async def handle_async_request(self, request: AnyRequest) -> Any:
        """Handle a request of an `AsyncClient`, including requests after a redirect."""
        self._serve(request, "AsyncClient")
        return (await self._answer(cast("httpx.Request", request))).take_response()

    def handle_request(self, request: AnyRequest) -> Any:
        """Handle a request of a `Client`, including requests after a redirect."""
        self._serve(request, "Client")
        answer, settle = partial(self._answer, cast("httpx.Request", request)), ResponseBody.buffer_received
        return PortalContext(self._home, answer, _make_unread_response, settle).__enter__()

    def _serve(self, request: AnyRequest, kind: str) -> None:
        """Raise an error if both asynchronous and blocking clients use this transport.

        The reason is that each pooled connection belongs to one event loop.
        """
        if self._kind == kind:
            return
        client = f"{find_family(request).__name__}.{kind}"
        if self._kind is not None:
            raise RuntimeError(f"HttpxTransport already serves {self._client} (create another for {client})")
        self._kind, self._client = kind, client

    def _home(self) -> Portal:
        if self._portal is None:
            self._portal = portal()
            self._portal.close_at_end(self)
        return self._portal

    async def _answer(self, request: httpx.Request) -> ResponseBody:
        await self._network.__aenter__()
        family = find_family(request)
        sent = RequestBody(request, family)
        try:
            route, gate, url, relayed = self._check(request, sent, family)
        except BaseException as error:
            await sent.aclose()
            if isinstance(error, ResolveError):
                raise translate_error(error, family) from trim_traceback(error)
            raise
        dialogue = relay(relayed, gate.options, gate.limits, tls=url.secured)
        recording = None if self._network.recorder is None else self._record(route, gate, url)
        try:
            conversation = hold(dialogue if recording is None else recording.watch_dialogue(dialogue), gate)
            is_limited = gate.limits.head is not None or gate.clock.is_bound
            reply = await (gate.enter(conversation) if is_limited else conversation.__aenter__())
        except BaseException as error:
            await sent.aclose()
            if recording is not None:
                recording.end(error)
            failure = gate.translate_error(error) if isinstance(error, ResolveError) else error
            if gate.trace is not None and isinstance(failure, Exception):
                await gate.trace.fail(failure)
            if failure is error:
                raise
            raise failure from trim_traceback(error)
        body = join_classes(ResponseBody, family.AsyncByteStream)(
            reply if recording is None else recording.record_body(reply), conversation, gate, recording
        )
        try:
            await sent.aclose()
            response = body.response = _response(reply, gate, body)
            if gate.trace is not None:
                version, reason = response.http_version.encode(), response.reason_phrase.encode()
                head = (version, response.status_code, reason, list(response.headers.raw))
                await gate.trace.end_headers(head)
            if response.has_redirect_location:
                route.mark(request, Referrer(url.shown, gate.source), gate.clock)
        except BaseException:
            await body.aclose()
            raise
        return body

    def _record(self, route: RequestRoute, gate: TimeoutGate, url: HttpUrl) -> TryRecording:
        assert self._network.recorder is not None
        recording = self._network.recorder.recording(gate.mask, 1)
        request = HopRequest(url, gate.options, route.origin, route.referrer)
        referrer = None if route.hops == 0 or route.referrer is None else route.referrer.url
        recording.begin(request, gate, referrer)
        return recording

    def _trace(self, request: httpx.Request) -> RequestTrace | None:
        """Return the trace of a request, or None.

        The `trace` function of a blocking client runs in the client's thread.
        """
        function: Callable[[str, Mapping[str, Any]], Any] | None = request.extensions.get("trace")
        if function is None:
            return None
        if self._kind == "Client":

            async def report(name: str, facts: Mapping[str, Any]) -> None:
                await call_in_caller(partial(function, name, facts))

            return RequestTrace(report)
        return RequestTrace(function)

    async def aclose(self) -> None:
        """Close the pooled connections."""
        await self._network.__aexit__(None, None, None)

    def close(self) -> None:
        """Close the pooled connections of an `httpx.Client`."""
        if self._portal is not None and self._portal.is_usable:
            with suppress(PortalClosed):
                self._portal.run(self.aclose)

    def __del__(self) -> None:
        if (home := vars(self).get("_portal")) is not None:
            home.try_start(self.aclose)

    def _check(
        self, request: httpx.Request, body: RequestBody, family: HttpxFamily
    ) -> tuple[RequestRoute, TimeoutGate, HttpUrl, HttpRequest]:
        """Check a request against the policy, and prepare it."""
        route = find_route(request, self._origin)
        check_hops(route.hops, self._network.limits.hops)
        text = str(request.url)
        route, url, headers = route.retry(
            parse(_WEBSOCKET.sub(r"http\1", text) if text.startswith("ws") else text),
            tuple(request.headers.raw),
            self._network.policy,
        )
        limits = self._network.limits_of(url)
        uses_http2 = isinstance(url, HttpUrl) and url.secured and _can_use_http2(request, body)
        uses_http2 = uses_http2 and self._network.recorder is None
        options = self._http2_options if uses_http2 else self._options
        if limits.body_everywhere:
            options = replace(options, most=limits.body)
        admitted = self._network.judge_url(url, origin=route.origin, referrer=route.referrer, options=options)
        if not isinstance(url, HttpUrl):
            raise UnsupportedScheme(url.scheme, f"httpx does not support {url.scheme} URLs")
        custom_target: bytes | None = None if route.hops else request.extensions.get("target")
        target = format_target(url) if custom_target is None else custom_target
        fields = [
            (name, _filter_codings(value, self._codings) if name.lower() == b"accept-encoding" else value)
            for name, value in headers
        ]
        content = body.next_piece if body.octets is None else body.octets
        trace = self._trace(request)
        make_gate = TimeoutGate if trace is None else TracedGate
        gate = make_gate(admitted, request.extensions.get("timeout", {}), route.clock, family)
        gate.trace = trace
        return route, gate, url, prepare(request.method.encode(), target, fields, content)


@lru_cache(maxsize=64)
def _filter_codings(value: bytes, supported: frozenset[str]) -> bytes:
    """Return an `Accept-Encoding` value without the content codings that this library cannot decode."""
    codings = [coding.strip() for coding in value.decode("latin-1").split(",")]
    decodable = [coding for coding in codings if coding.partition(";")[0].strip().lower() in supported]
    return ", ".join(decodable).encode("latin-1") or b"identity"


def _make_unread_response(body: ResponseBody, resource: OpenResource) -> httpx.Response:
    """Return the response for a blocking client."""
    response, family = body.take_response(), body.gate.family
    if body.upgraded is not None:
        upgraded = response.extensions["network_stream"]
        response.extensions["network_stream"] = UpgradedStream(upgraded, resource.portal)
    if body.is_closed:
        response.stream = family.ByteStream(body.take_buffered())
    else:
        unread = join_classes(UnreadBody, family.SyncByteStream)(body, resource)
        response.stream = cast("httpx.SyncByteStream", unread)
    return response


def _can_use_http2(request: httpx.Request, body: RequestBody) -> bool:
    """Return whether a request may use HTTP/2.

    A request with a body uses HTTP/1.1, because in HTTP/2 each chunk may have to wait for the server's
    flow-control window. CONNECT uses HTTP/1.1, because HTTP/2 has other header fields for CONNECT (RFC 9113
    8.5). A request with the header field `Upgrade` uses HTTP/1.1, because HTTP/2 does not have this header
    field (RFC 9113 8.6).
    """
    bodiless = body.octets == b"" and "transfer-encoding" not in request.headers
    return bodiless and request.method != "CONNECT" and "upgrade" not in request.headers


def _response(reply: Reply, gate: TimeoutGate, body: ResponseBody) -> httpx.Response:
    """Convert a response to an httpx response; if the reason phrase is missing, httpx adds it."""
    facts: Mapping[str, Any] = reply.extra or {}
    reason = str(facts["reason"]).encode("latin-1")
    # Without 101, the stream has no methods to read and write, which would break the next request.
    stream: object = SimpleNamespace(get_extra_info=gate.stream.describe)
    if body.upgraded is not None:
        stream = AsyncUpgradedStream(body.upgraded, gate.family)
    return gate.family.Response(
        facts["status"],
        headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in reply.meta],
        stream=body,
        extensions={
            "http_version": str(facts["version"]).encode("ascii"),
            **({"reason_phrase": reason} if facts["version"] == "HTTP/1.1" else {}),
            "findings": tuple(gate.findings),
            "verified": reply.verified,
            "peer": gate.peer,
            "network_stream": stream,
        },
    )
