"""A retrieval: one attempt, including redirects, from a checked URL to the end of the body.

A retrieval returns a `StreamingResponse`. `Resolver.stream` passes this response to the caller. Other methods
of `Resolver` read the body and return completed responses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from protocols.contract import Alternative, Finding, Limits, Moved, Reply, Url
from protocols.conversation.driver import hold
from protocols.errors import (
    IntegrityError,
    LimitExceeded,
    LocalError,
    ResolveError,
    TimedOut,
)
from protocols.step import Dialogue
from protocols.text import Masked
from resolver.network.clock import Clock
from resolver.network.events import PROGRESS, Finished, OnEvent, Progress, Started, select_listener
from resolver.network.mask import Mask
from resolver.network.url_gate import UrlGate
from resolver.policy.schemes import no_handler, through_gateway
from resolver.transfer.limits import LimitedBody, collect_error_body, locate_error
from resolver.transfer.network import Network
from resolver.transfer.redirects import RetrievalRequest as RetrievalRequest
from resolver.transfer.redirects import next_request
from resolver.transfer.streaming import OpenRetrieval, StreamingResponse
from resolver.url import registry
from resolver.url.tracebacks import trim_traceback

if TYPE_CHECKING:
    from resolver.transfer.archives import TryRecording

#: The errors after which no other location of the object is requested. Either a limit of the caller was
#: exceeded, this machine failed, or a body was damaged after its start.
_FINAL = (LimitExceeded, LocalError, IntegrityError)


#: Pairs of a URL and a warning that were reported.
ReportedFindings: TypeAlias = "set[tuple[str, Finding]]"


@dataclass(slots=True, eq=False, repr=False)
class RedirectPoint:
    """A redirect response with one or more alternative locations.

    - `request` is the request that was redirected.
    - `alternatives` are the locations that were not requested yet.
    - `failed` is the error of the first alternative.
    - `final`: whether an alternative timed out. A retry would then most likely fail too.
    """

    request: RetrievalRequest
    url_gate: UrlGate
    moved: Moved
    earlier: tuple[Url, ...]
    alternatives: list[Alternative]
    failed: ResolveError | None = None
    final: bool = False

    def fail(self, error: ResolveError) -> None:
        self.failed = self.failed or error
        self.final |= type(error).retryable and not error.retryable


class Retrieval(OpenRetrieval):
    """An attempt to retrieve a URL: an async context manager that returns a `StreamingResponse`.

    Exiting the context closes the response and its connection.

    The target of a redirect is checked against the policy like the first URL. One timeout applies to all
    requests. A redirect may have several alternative locations. The retrieval stores them in a stack of
    `RedirectPoint`:
    - A redirect adds a `RedirectPoint`, and its first alternative is requested.
    - If an alternative fails, the next alternative of the last `RedirectPoint` is requested.
    - If a `RedirectPoint` has no further alternatives, the `RedirectPoint` is removed. The next alternative
      of the previous `RedirectPoint` is then requested. If all alternatives fail, the first error is raised.
    - The limit on the number of redirects also limits the number of requested alternatives.

    If `reported` is not None, the retrieval is a segment of a segmented download. The retrieval of a segment
    does not report start, progress and end, because the segmented download reports these events. The
    retrieval of a segment reports only policy warnings that are not in `reported`.
    """

    def __init__(
        self,
        network: Network,
        request: RetrievalRequest,
        clock: Clock | None = None,
        attempt: int = 1,
        *,
        reported: ReportedFindings | None = None,
    ) -> None:
        self._network = network
        self._limits = network.limits_of(request.url)
        self._listener = network.on_attempt if reported is None else None
        self._reported = reported
        self._clock = clock
        self._attempt = attempt
        self.requested = request
        self._request = request
        self.earlier: tuple[Url, ...] = ()
        self._points: list[RedirectPoint] = []
        self._alternative_count = 0
        self._failures: list[Finding] = []
        self._mask = Mask()
        self._hide = self._mask.hide_in_text
        self._conversation: AbstractAsyncContextManager[Reply] | None = None
        self._recording: TryRecording | None = None
        if network.recorder is not None:
            self._recording = network.recorder.recording(self._mask, attempt)
        self._body: LimitedBody | None = None

    async def __aenter__(self) -> StreamingResponse:
        clock = self._clock or Clock(self._limits.total, loop=self._network.check_run())
        self._head_clock = None if self._limits.head is None else Clock.for_head(self._limits)
        if self._listener is not None:
            self._listener(Started(self.requested.url.shown, self._attempt, transfer=self.requested.transfer))
        try:
            return await self._open(clock)
        except ResolveError as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise trim_traceback(error) from error.__cause__
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise

    async def _open(self, clock: Clock) -> StreamingResponse:
        alternative: Alternative | None = None
        while True:
            request, earlier = self._request, self.earlier
            try:
                if alternative is None or isinstance(alternative, str):
                    url_gate, dialogue, reported = self._make_dialogue(clock)
                else:  # the server that sent the redirect also serves this location
                    url_gate, self.shown = self._points[-1].url_gate, request.url.shown
                    dialogue, reported = alternative(), len(url_gate.findings)
                reply = await self._enter(url_gate, dialogue, clock)
                if url_gate.findings:
                    self._warn(url_gate, reported)
                if reply.moved is None:
                    if reply.failure is not None and not request.options.refusals:
                        max_recorded = None if self._recording is None else self._limits.body
                        body = await collect_error_body(reply, clock, max_recorded)
                        await self._close()
                        raise reply.failure.with_body(body)
                    return await self._limit_reply(url_gate, reply, clock)
                await self._close()
                self._end_record(None)
                self._add_redirect(reply.moved, url_gate)
                alternative = self._try_next()
            except ResolveError as error:
                self._end_record(error, clock)
                alternative = self._find_alternative(self._locate_error(error, request, earlier))

    def _make_dialogue(self, clock: Clock) -> tuple[UrlGate, Dialogue[object], int]:
        """Return the gate and the dialogue of the next request, and the number of reported warnings."""
        request = self._request
        if self._network.quota is not None:
            self._network.quota.check(0)
        url_gate = self._admit(request, clock)
        gateways = self._network.gateways
        through = through_gateway(request.url, gateways) if gateways else None
        if through is not None:  # the origin is "user", because the user configured the gateway
            request = self._request = RetrievalRequest(
                through, options=request.options, transfer=request.transfer, limit=request.limit
            )
            url_gate = self._admit(request, clock)
        scheme = url_gate.row
        if scheme is None or scheme.converse is None:
            raise no_handler(request.url)
        reported = self._warn(url_gate, 0) if url_gate.findings else 0
        dialogue = registry.converse(scheme, request.url, url_gate.options, url_gate.limits)
        return url_gate, dialogue, reported

    def _end_record(self, error: BaseException | None, clock: Clock | None = None) -> None:
        if self._recording is not None:
            self._recording.end(error, late=clock is not None and clock.is_over)

    async def _conclude_record(self, recording: TryRecording, error: BaseException | None) -> None:
        if error is None and not (self._clock is not None and self._clock.is_over):
            await recording.conclude()
        else:
            self._end_record(error, self._clock)

    def _enter(self, url_gate: UrlGate, dialogue: Dialogue[object], clock: Clock) -> Awaitable[Reply]:
        """Start the protocol exchange, recorded in or replayed from an archive, and return the response.

        If the limits set a minimum rate, the body must begin within the idle timeout. Otherwise, a server
        could delay the body forever by sending single bytes (slow-loris).
        """
        limits = url_gate.limits
        if self._recording is None:
            dialogue = url_gate.wrap_dialogue(dialogue)
        else:
            via = self.earlier[-1].shown if self.earlier else None
            self._recording.begin(self._request, url_gate, via)
            dialogue = self._recording.watch_dialogue(dialogue)
        conversation = self._conversation = hold(dialogue, url_gate)
        if limits.min_rate is None and self._head_clock is None and not clock.is_bound:
            return conversation.__aenter__()
        return self._enter_in_time(conversation, limits, clock)

    async def _enter_in_time(
        self, conversation: AbstractAsyncContextManager[Reply], limits: Limits, clock: Clock
    ) -> Reply:
        with clock.limit_time(), nullcontext() if self._head_clock is None else self._head_clock.limit_time():
            if limits.min_rate is None:
                return await conversation.__aenter__()
            with clock.loop.move_on_after(limits.idle):
                return await conversation.__aenter__()
            words = f"timed out: no body within {limits.idle:g} s, with a minimum rate"
            raise TimedOut(words).with_setting("idle_timeout")

    def _admit(self, request: RetrievalRequest, clock: Clock) -> UrlGate:
        limits, options = self._limits, request.options
        if request is not self.requested:
            limits = self._network.limits_of(request.url)
        if self._recording is not None:
            options = self._recording.options(request.url, options)
        max_size = request.limit(limits)
        admission = self._network.judge_url(
            request.url,
            origin=request.origin,
            referrer=request.referrer,
            options=options if options.most == max_size else replace(options, most=max_size),
            in_clear=request.in_clear,
            mask=self._mask,
            loop=clock.loop,
        )
        self.shown = admission.shown
        if self._network.archive is None:
            return UrlGate(admission)
        return self._network.archive.gate(admission)

    def _add_redirect(self, moved: Moved, url_gate: UrlGate) -> None:
        point = RedirectPoint(self._request, url_gate, moved, self.earlier, [moved.location, *moved.others])
        if moved.failed is not None:
            point.fail(moved.failed)
            self._note_failure(moved.failed)
        self._points.append(point)

    def _try_next(self) -> Alternative:
        """Set the next request to the next alternative of the last redirect, and return it."""
        point = self._points[-1]
        alternative = point.alternatives.pop(0)
        self._alternative_count += 1
        self._request, self.earlier = point.request, point.earlier
        if isinstance(alternative, str):
            policy, hops = self._network.policy, self._limits.hops
            moved = point.moved._replace(location=alternative)
            reported, source = point.url_gate.reported_in_clear, point.url_gate.source
            following = next_request(
                point.request, moved, source, point.earlier, policy, hops, in_clear=reported
            )
            self._request, self.earlier = following, (*point.earlier, point.request.url)
        return alternative

    def _find_alternative(self, error: ResolveError) -> Alternative:
        """Return the next alternative location after a failure.

        The alternative belongs to the last redirect that has a remaining alternative. If no alternative
        remains, the method raises the first error.
        """
        while self._points and not isinstance(error, _FINAL):
            point = self._points[-1]
            point.fail(error)
            if not point.alternatives or self._alternative_count >= self._limits.hops:
                first = point.failed or error
                error = first.final() if point.final else first
                self._points.pop()
                continue
            self._note_failure(error)
            try:
                return self._try_next()
            except ResolveError as next_error:
                error = self._locate_error(next_error, point.request, point.earlier)
        raise error from error.__cause__

    def _locate_error(
        self, error: ResolveError, request: RetrievalRequest, earlier: tuple[Url, ...]
    ) -> ResolveError:
        """Return the error with the redacted URL, and with exit status 15 after a redirect."""
        failed = error.of_hop() if earlier else error
        return locate_error(failed, self._redact_url(request, earlier), self._hide)

    def _note_failure(self, error: ResolveError) -> None:
        scheme = self._request.url.scheme
        self._failures.append(Finding(f"{scheme}:failed", "warn", f"{self._shown_request}: {error.message}"))

    @property
    def _shown_request(self) -> Masked:
        return self._redact_url(self._request, self.earlier)

    def _redact_url(self, request: RetrievalRequest, earlier: tuple[Url, ...]) -> Masked:
        """Return the redacted URL of a request. A redirect may copy secrets of earlier requests."""
        return self._hide(request.url.shown) if earlier else request.url.shown

    async def _limit_reply(self, url_gate: UrlGate, reply: Reply, clock: Clock) -> StreamingResponse:
        max_size, min_rate = url_gate.options.most, url_gate.limits.min_rate
        if max_size is not None and reply.size is not None and reply.size > max_size:
            await self._close()
            raise LimitExceeded("body", f"{reply.size} bytes are announced, the limit is {max_size}")
        quota = self._network.quota
        if quota is not None and self._request.options.want != "facts" and not reply.unchanged:
            end = reply.size if reply.stop is None else reply.stop
            try:
                quota.check(max(0, (end or 0) - reply.start))
            except LimitExceeded:
                await self._close()
                raise
        if self._recording is not None:
            reply = self._recording.record_body(reply)
        url = self._hide(self.shown) if self.earlier else self.shown
        reply.findings[:0] = self._failures
        listener = self._network.caller_listener
        report = None if listener is None else self._make_report(listener, reply, url)
        body = self._body = LimitedBody(
            reply, url, clock, max_size, min_rate, report, self._hide, url_gate.throttle, quota
        )
        if self.earlier:
            peers = {len(point.earlier): point.url_gate.peer for point in self._points}
            self.peers = tuple([peers.get(number) for number in range(len(self.earlier))])
        self.facts, self.reply, self.url_gate, self.clock = self._mask.facts(reply), reply, url_gate, clock
        return StreamingResponse(self, self._request, body)

    def _make_report(self, listener: OnEvent, reply: Reply, url: Masked) -> Callable[[int], None] | None:
        """Return a function that reports progress, or None. The log does not show progress."""
        if self._reported is not None or select_listener(listener, PROGRESS) is None:
            return None
        expected, start, transfer = reply.size, reply.start, self.requested.transfer
        return lambda received: listener(Progress(url, received, expected, start, transfer=transfer))

    async def _close(self) -> None:
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            await conversation.__aexit__(None, None, None)

    def _warn(self, url_gate: UrlGate, reported: int) -> int:
        """Report the policy warnings after the first `reported`, and return their total number."""
        findings = url_gate.findings
        for finding in findings[reported:]:
            if self._reported is None or (self._shown_request, finding) not in self._reported:
                self._network.warn(self._shown_request, finding)
            if self._reported is not None:
                self._reported.add((self._shown_request, finding))
        return len(findings)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._body is not None:
            self._body.closed = True
        try:
            if self._conversation is not None:
                await self._conversation.__aexit__(kind, error, trace)
        except ResolveError as failure:
            raise trim_traceback(
                locate_error(failure, self._shown_request, self._hide)
            ) from failure.__cause__
        finally:
            if self._recording is not None:
                await self._conclude_record(self._recording, error)
                self._recording = None  # the response may outlive the recorded blocks
            if self._listener is not None:
                failed = error if isinstance(error, Exception) else None
                self._listener(Finished(self.requested.url.shown, failed, transfer=self.requested.transfer))
