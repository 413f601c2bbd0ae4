"""The bodies of a gopher reply, and what is known of how they ended.

Octets that nothing is done to are a `StreamBody` and can be drained in bulk. A `TextBody` undoes lone
periods on the way; whether the reply was whole it knows from the last of them.
"""

from __future__ import annotations

from protocols.body import StreamBody, pour
from protocols.contract import Body, Finding, Sink, Stream
from protocols.errors import Disconnected, NetworkError, ResolveError, TimedOut, Truncated
from protocols.gopher.periods import Periods


class Evidence:
    """Findings about a reply and proofs of its completeness; both grow until its body has ended."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.findings: list[Finding] = []
        self.verified: set[str] = set()

    def report(self, finding: Finding) -> None:
        if finding not in self.findings:
            self.findings.append(finding)

    def warn(self, rule: str, detail: str) -> None:
        self.report(Finding(rule, "warn", detail))

    async def counted(self) -> None:
        """As many octets came as were promised."""
        self.verified.add("length")

    def terminated(self) -> None:
        """The final period came."""
        self.verified.add("terminator")
        if self._stream.close_notify_seen:
            self.verified.add("close-notify")

    async def closed(self) -> None:
        """The connection ended, and that is all that is known of the end of the data. Without TLS
        nothing can be proved; with it, a peer that just vanished may have been cut off by anybody."""
        if self._stream.close_notify_seen:
            self.verified.add("close-notify")
        elif self._stream.secured:
            self.warn(
                "gophers:end-not-authenticated",
                "the connection ended without TLS's close_notify; whether the reply is whole is not known",
            )


class Cut:
    """Octets that came before the connection failed, and then the failure."""

    def __init__(self, octets: bytes, error: NetworkError, expected: int | None = None) -> None:
        self._octets = octets
        self._error: ResolveError = error
        if isinstance(error, Disconnected):
            self._error = Truncated(
                f"the connection was reset after {len(octets)} octets of the body",
                received=len(octets),
                expected=expected,
            )

    def __aiter__(self) -> Cut:
        return self

    async def __anext__(self) -> bytes:
        octets, self._octets = self._octets, b""
        if not octets:
            raise self._error
        return octets

    async def drain(self, sink: Sink) -> int:
        sink.write(self._octets)
        raise self._error


class TextBody:
    """A textual body without its terminator, periods undoubled; what came is always given out before
    an error is raised.

    `promised`: the header announced a final period (`+-1`). Then a reply without one is `Truncated`,
    and one that goes quiet behind one is complete. A reset behind a final period ends any text.
    """

    def __init__(
        self, body: StreamBody | Cut, periods: Periods, evidence: Evidence, *, promised: bool
    ) -> None:
        self._body: Body = body
        self._periods = periods
        self._evidence = evidence
        self._promised = promised
        self._received = 0
        self._ended = False
        self._failure: ResolveError | None = None

    def __aiter__(self) -> TextBody:
        return self

    async def __anext__(self) -> bytes:
        while not self._ended:
            if octets := await self._next():
                return octets
        if self._failure is not None:
            raise self._failure
        raise StopAsyncIteration

    async def drain(self, sink: Sink) -> int:
        return await pour(self, sink)

    def restore(self, cleaned: bytes) -> bytes:
        """The octets as they were sent, from all that was given out."""
        return self._periods.restore(cleaned)

    async def _next(self) -> bytes:
        try:
            octets = await anext(self._body)
        except StopAsyncIteration:
            return await self._finish()
        except (Disconnected, Truncated) as error:
            return await self._finish() if self._periods.last_line else self._abandon(error)
        except TimedOut as error:
            quiet = self._promised and self._periods.last_line == b".\r\n"
            return await self._finish() if quiet else self._abandon(error)
        self._received += len(octets)
        return self._periods.feed(octets)

    def _abandon(self, error: ResolveError) -> bytes:
        self._ended = True
        self._failure = error
        return self._periods.abandon()

    async def _finish(self) -> bytes:
        self._ended = True
        rest = self._periods.finish()
        if self._periods.gave_up:
            self._evidence.warn(
                "gopher:periods-kept", "too much text with doubled periods; they are left as they came"
            )
        if self._periods.terminator:
            self._evidence.terminated()
        elif self._promised and self._received == 0:
            self._failure = Disconnected("the connection ended before the first octet of the reply")
        elif self._promised:
            self._failure = Truncated(
                f"the reply ended after {self._received} octets without its final period",
                received=self._received,
            )
        else:
            await self._evidence.closed()
        return rest
