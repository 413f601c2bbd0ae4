"""What is kept of a retrieval in an archive: each hop as a capture of its own, body and all."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, TypeVar

from protocols.contract import Body, Options, Reply, Sink, Url
from protocols.errors import ResolveError
from protocols.step import Dialogue
from protocols.values import replace
from resolver import registry
from resolver.gate import Mask, UrlGate
from resolver.loops import running
from resolver.retrieval.hops import RetrievalRequest
from resolver.warc.group import CaptureSubject
from resolver.warc.target import target_of

if TYPE_CHECKING:
    from resolver.warc.capture import Capture
    from resolver.warc.recorder import Recorder

T = TypeVar("T")


class CaptureRecording:
    """The captures of one try: at most one at a time is under way."""

    def __init__(self, recorder: Recorder, mask: Mask, attempt: int) -> None:
        self._recorder = recorder
        self._mask = mask
        self._attempt = attempt
        self._capture: Capture | None = None

    def begin(self, request: RetrievalRequest, url_gate: UrlGate, via: str | None = None) -> None:
        """All that is said from now on is kept. `via` has redirected to it."""
        row = url_gate.row
        assert row is not None, "a dialogue is of a scheme"
        url = request.url
        is_redirect = via is not None
        if via is None and request.referrer is not None:
            via = request.referrer.url
        hide = self._mask.hide_in_text if is_redirect else str
        subject = CaptureSubject(
            target=target_of(url, has_user=row.userinfo, hide=hide),
            shown=self._mask.hide_in_text(url.shown),
            origin=request.origin,
            attempt=self._attempt,
            via=None if via is None else self._mask.hide_in_text(via),
            hop="R" if is_redirect else "" if via is None else "L",
            kept_as=row.kept_as,
            listing_kept=row.listing_kept,
            protocol=row.archived_as,
            wants=request.options.want,
        )
        self._capture = self._recorder.begin(subject, self._mask)
        url_gate.tap(self._capture)

    def watched(self, dialogue: Dialogue[T]) -> Dialogue[T]:
        """The same dialogue, of which each step is looked at."""
        return dialogue if self._capture is None else self._capture.watched(dialogue)

    @staticmethod
    def options(url: Url, options: Options) -> Options:
        """What is asked for is asked for so that all of it can be kept as it comes: by nobody else's side, in
        no frames, with the body of a refusal, and from its beginning where a part does not say that it is
        one."""
        row = registry.find(url.scheme)
        if (options.start or options.stop is not None) and (row is None or row.kept_as != "exchange"):
            options = replace(options, start=0, stop=None)
        return replace(options, refusals=True, http2=None, prompt=False)

    def body_of(self, reply: Reply) -> Reply:
        """The same, with a body of which each octet that is read is kept."""
        return reply if self._capture is None else reply.with_body(RecordedBody(reply.body, self._capture))

    async def refuse(self, reply: Reply, error: ResolveError, most: int) -> NoReturn:
        """Raise the error that an answer stands for, when what the peer says to it was kept, too: at most so
        many octets, and as far as it comes."""
        count = 0
        with suppress(ResolveError):
            async for octets in reply.body:
                count += len(octets)
                if count > most:
                    break
        raise error

    async def conclude(self) -> None:
        """The same as `end` where nothing failed, in a thread: to pack, and a disk that stands still, keeps
        nobody else waiting. A connection that is closed meanwhile is told of or not."""
        if self._capture is None:
            return
        try:
            await running().in_thread(self._capture.end, None)
        finally:
            self.end(None)  # what a cancel kept from beginning

    def end(self, error: BaseException | None, *, late: bool = False) -> None:
        """The hop is over, and all of it written. Raises `LocalError` where the disk takes no more."""
        capture, self._capture = self._capture, None
        if capture is not None:
            capture.end(error, late=late)


class RecordedBody:
    """A body of which each octet is kept as it is read; it is never moved past that in bulk."""

    def __init__(self, body: Body, capture: Capture) -> None:
        self._body = body
        self._capture = capture

    def __aiter__(self) -> RecordedBody:
        return self

    async def __anext__(self) -> bytes:
        try:
            octets = await anext(self._body)
        except StopAsyncIteration:
            self._capture.body_ended()
            raise
        self._capture.given(octets)
        return octets

    async def drain(self, sink: Sink) -> int:
        count = 0
        async for octets in self:
            sink.write(octets)
            count += len(octets)
        return count
