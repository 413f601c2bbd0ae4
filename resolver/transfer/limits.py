"""A response body with the limits of the retrieval (time, minimum rate, size) and progress reports.

The limits are not checked by scheme handlers. The same limits apply whether the caller iterates over the body
or copies the body in bulk. During a bulk copy, a second task checks the limits every 0.2 s.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import TypeAlias

from protocols.contract import Limits, Reply, Sink
from protocols.conversation.driver import Conversation
from protocols.errors import LimitExceeded, ResolveError, Truncated
from protocols.text import Masked
from resolver.loops import CancelScope
from resolver.network.clock import Clock, RateCheck, Throttle
from resolver.network.connecting import first_of
from resolver.url.tracebacks import trim_traceback

_SKIP_SIZE = 1_048_576

#: Seconds between two progress checks during a bulk copy. 0.2 s gives a smooth progress bar.
_CHECK_INTERVAL = 0.2


#: The maximum number of bytes of an error response's body that an error object stores. Typical error pages
#: have several thousand bytes.
_MAX_ERROR_BODY = 65_536

#: Maximum time in seconds to wait for the body of an error response. The status code has already been
#: received, and some servers never send the body.
_ERROR_BODY_SECONDS = 5.0


#: A function that returns the maximum size of a body in bytes, from the limits of a host. The result None
#: means no limit.
SizeLimit: TypeAlias = Callable[[Limits], "int | None"]


def ignore_limits(_limits: Limits) -> None:
    """Return None (no limit), because a response with only metadata does not need a body limit."""


def max_collected(limits: Limits) -> int:
    """Return the maximum size in bytes of a body that is collected in memory."""
    return limits.body


def max_streamed(limits: Limits) -> int | None:
    """Return the maximum size of a streamed or saved body, which only `Limits.body_everywhere` sets."""
    return limits.body if limits.body_everywhere else None


class Quota:
    """The maximum total size in bytes of all bodies of a session."""

    def __init__(self, max_size: int) -> None:
        self._size = max_size
        self._spent = 0

    def check(self, announced: int) -> None:
        """Raise `LimitExceeded` if the quota is exceeded, or if `announced` more bytes would exceed it."""
        free = self._size - self._spent
        if free < 0:
            raise LimitExceeded("quota", f"nothing was requested: the quota of {self._size} bytes is used up")
        if announced > free:
            words = f"{announced} bytes are announced, {free} bytes are left of the quota of {self._size}"
            raise LimitExceeded("quota", words)

    def spend(self, count: int, url: Masked) -> None:
        """Count received bytes. Raises `LimitExceeded` if the quota is exceeded."""
        self._spent += count
        if self._spent > self._size:
            words = f"received more bytes than the quota of {self._size} for the complete run"
            raise LimitExceeded("quota", words, url=url)


class LimitedBody:
    """A response body with the limits of the retrieval. The body can be read only once.

    Iterate over the body, or `take` a number of bytes, or `drain` all remaining bytes. `received` is the
    current offset in the object. If the body is a range, the offset still counts from the start of the
    object. The function `report` is called with the current offset, to report progress.

    After `closed` is set, the connection can be reused for another request. Reading a closed body raises
    `ClosedResourceError` of trio or anyio.
    """

    def __init__(
        self,
        reply: Reply,
        url: Masked,
        clock: Clock,
        max_size: int | None,
        min_rate: int | None,
        report: Callable[[int], None] | None,
        hide: Callable[[str], Masked],
        throttle: Throttle | None = None,
        quota: Quota | None = None,
    ) -> None:
        self._body = reply.body
        self._url = url
        self._hide = hide
        self._clock = clock
        self._loop = clock.loop
        self._max_size = max_size
        self._quota = quota
        self._rate = None if min_rate is None else RateCheck(min_rate)
        self._is_unlimited = min_rate is None and not clock.is_bound
        self._throttle = throttle
        self._start = reply.start
        self._report = report
        self._unread = b""
        self.closed = False
        self.received = reply.start

    def __aiter__(self) -> LimitedBody:
        return self

    def _check_open(self) -> None:
        if self.closed:
            raise self._loop.closed("the reply is closed: read its body inside the with block")

    async def __anext__(self) -> bytes:
        if self.closed:
            self._check_open()
        if self._unread:
            octets, self._unread = self._unread, b""
            return octets
        try:
            if self._is_unlimited:
                octets = await self._body.__anext__()
            else:
                with self._clock.limit_time():
                    octets = await (anext(self._body) if self._rate is None else self._read_next(self._rate))
        except ResolveError as error:
            raise trim_traceback(self._locate_error(error)) from error.__cause__
        self._count(len(octets))
        return octets

    def take_whole(self) -> bytes:
        """Return the body if it arrived completely with the head. Otherwise return an empty value."""
        whole = self._body.take_whole() if isinstance(self._body, Conversation) else b""
        if whole:
            self._count(len(whole))
        return whole

    async def _read_next(self, check: RateCheck) -> bytes:
        start, waited = self._loop.current_time(), self._wait_time
        with self._loop.move_on_after(check.max_wait) as scope, self._pause_deadline(scope):
            octets = await anext(self._body)
            check.record_wait(self._loop.current_time() - start - (self._wait_time - waited), len(octets))
            return octets
        raise check.make_timeout()

    @property
    def _wait_time(self) -> float:
        """Return the seconds for which the caller's rate limit has delayed the retrieval."""
        return 0.0 if self._throttle is None else self._throttle.waited

    def _pause_deadline(self, scope: CancelScope) -> AbstractContextManager[None]:
        return nullcontext() if self._throttle is None else self._throttle.pause_deadline(scope)

    async def take(self, count: int) -> bytes:
        """Return the next `count` bytes, or all remaining bytes if there are fewer."""
        chunks: list[bytes] = []
        while count > 0:
            octets = await anext(self, b"")
            if not octets:
                break
            chunks.append(octets[:count])
            self._unread = octets[count:]
            count -= len(chunks[-1])
        return b"".join(chunks)

    async def skip(self, count: int) -> None:
        """Discard the next `count` bytes."""
        while count > 0 and (octets := await self.take(min(count, _SKIP_SIZE))):
            count -= len(octets)

    async def drain(self, sink: Sink) -> int:
        """Write the remaining bytes of the body to `sink`, and return their number.

        The bytes are copied in bulk, unless the body has a size limit.
        """
        self._check_open()
        if self._max_size is not None or self._quota is not None:
            return await _write_chunks(self, sink)
        unread, self._unread = self._unread, b""
        sink.write(unread)
        try:
            with self._clock.limit_time():
                moved = await self._move(sink)
        except ResolveError as error:
            raise trim_traceback(self._locate_error(error)) from error.__cause__
        return len(unread) + moved

    async def _move(self, sink: Sink) -> int:
        """Copy the body in bulk to `sink`; check the limits and report progress every 0.2 s."""
        before, start = self.received, _find_position(sink)

        def count_new() -> int | None:
            position = _find_position(sink)
            if start is None or position is None:
                return None
            octets = before + position - start - self.received
            self._count(octets)
            return octets

        async def check_limits() -> None:
            while True:
                waited = self._wait_time
                await self._loop.sleep(_CHECK_INTERVAL)
                if (octets := count_new()) is not None and self._rate is not None:
                    self._rate.record_wait(max(0.0, _CHECK_INTERVAL - (self._wait_time - waited)), octets)

        try:
            moved, _ = await first_of(partial(self._body.drain, sink), check_limits)
        except ResolveError:
            count_new()
            raise
        assert moved is not None, "the checks do not end"
        self._count(before + moved.value - self.received)
        return moved.value

    def _count(self, octets: int) -> None:
        self.received += octets
        if self._max_size is not None and self.received > self._max_size:
            raise LimitExceeded(
                "body",
                f"the body is larger than the limit of {self._max_size} bytes",
                url=self._url,
            )
        if self._quota is not None:
            self._quota.spend(octets, self._url)
        if self._report is not None:
            self._report(self.received)

    def _locate_error(self, error: ResolveError) -> ResolveError:
        """Add the URL to an error, and convert offsets in a truncated body to those in the object."""
        if isinstance(error, Truncated) and self._start:
            located = Truncated(
                f"{error.message}, in addition to {self._start} bytes received before",
                received=self._start + error.received,
                expected=None if error.expected is None else self._start + error.expected,
            )
            located.__cause__ = error
            error = located
        return locate_error(error, self._url, self._hide)


async def collect_error_body(reply: Reply, clock: Clock, max_recorded: int | None) -> bytes:
    """Return the start of the body of an error response. An interrupted or invalid body is not an error.

    Args:
        reply: the error response.
        clock: the time limit of the retrieval.
        max_recorded: the maximum number of bytes to read for an archive; None without an archive.
    """
    content = bytearray()
    count, max_count, loop = 0, _MAX_ERROR_BODY if max_recorded is None else max_recorded, clock.loop
    seconds = _ERROR_BODY_SECONDS if max_recorded is None else float("inf")
    with loop.move_on_at(min(clock.deadline, loop.current_time() + seconds)), suppress(ResolveError):
        async for octets in reply.body:
            content += octets[: _MAX_ERROR_BODY - len(content)]
            count += len(octets)
            if count >= max_count:
                break
    return bytes(content)


def locate_error(
    error: ResolveError, url: Masked, hide: Callable[[str], Masked] | None = None
) -> ResolveError:
    """Return the error with the URL, and with secrets redacted by `hide`."""
    reported = error.at(url) if error.url is None else error
    return reported if hide is None else reported.hiding(hide)


async def _write_chunks(chunks: AsyncIterable[bytes], sink: Sink) -> int:
    """Write all chunks to the sink; return the number of bytes."""
    count = 0
    async for octets in chunks:
        sink.write(octets)
        count += len(octets)
    return count


def _find_position(sink: Sink) -> int | None:
    """Return the number of bytes in a sink, with those of splice; None if the sink has no position."""
    try:
        return os.lseek(sink.fileno(), 0, os.SEEK_CUR)
    except OSError:
        return None
