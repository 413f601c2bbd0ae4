"""The octets of a reply to their end: what is undone in them on the way, and what is known by then.

A reply is whole with as many octets as its header counted (`length`), or behind its final period
(`terminator`). Where only the connection's end says that this is all, nothing is proved without TLS; with it,
close_notify proves it, and a peer that just vanished may have been cut off by anybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocols.errors import Disconnected, LimitExceeded, TimedOut, Truncated
from protocols.location import Finding
from protocols.step import CopiedBody, CopyBody, Dialogue, EmitBody, copy_body

if TYPE_CHECKING:  # most plans need none of it
    from protocols.gopher.attributes import BlockFilter
    from protocols.gopher.framing import GopherPlusHeader
    from protocols.gopher.periods import PeriodUnstuffer


class Completeness:
    """Findings about a reply and proofs of its completeness; both grow until its body has ended."""

    def __init__(self, *, secured: bool) -> None:
        self.secured = secured
        self.findings: list[Finding] = []
        self.verified: set[str] = set()

    def report(self, finding: Finding) -> None:
        if finding not in self.findings:
            self.findings.append(finding)

    def warn(self, rule: str, detail: str) -> None:
        self.report(Finding(rule, "warn", detail))

    def proved(self, word: str, *, close_notify: bool = False) -> None:
        self.verified |= {word, "close-notify"} if close_notify else {word}

    def closed(self, *, close_notify: bool) -> None:
        """The connection ended, and nothing else says that this is all."""
        if close_notify:
            self.verified.add("close-notify")
        elif self.secured:
            self.warn(
                "gophers:end-not-authenticated",
                "the connection ended without TLS's close_notify; whether the reply is whole is not known",
            )


class ContentFilter:
    """A `Filter`: lone periods are undone, where there are `periods`, and `blocks` that nobody asked for are
    left out."""

    def __init__(self, periods: PeriodUnstuffer | None, blocks: BlockFilter | None = None) -> None:
        self._periods = periods
        self._blocks = blocks

    def feed(self, octets: bytes) -> tuple[bytes, ...]:
        octets = octets if self._periods is None else self._periods.feed(octets)
        return (octets if self._blocks is None else self._blocks.feed(octets),)

    def finish(self) -> tuple[bytes, ...]:
        rest = b"" if self._periods is None else self._periods.finish()
        return (rest if self._blocks is None else self._blocks.feed(rest) + self._blocks.finish(),)

    def abandon(self) -> tuple[bytes, ...]:
        """The octets are cut short: what was held back, its periods as they came."""
        rest = b"" if self._periods is None else self._periods.abandon()
        return (rest if self._blocks is None else self._blocks.feed(rest) + self._blocks.finish(),)


class IdentityFilter(ContentFilter):
    """One that undoes nothing: the `header` line comes first, and lone periods are only looked at."""

    def __init__(self, periods: PeriodUnstuffer | None, header: bytes) -> None:
        super().__init__(periods)
        self._header = header

    def feed(self, octets: bytes) -> tuple[bytes, ...]:
        if self._periods is not None:
            self._periods.feed(octets)
        header, self._header = self._header, b""
        return (header + octets,)

    def finish(self) -> tuple[bytes, ...]:
        if self._periods is not None:
            self._periods.finish()
        return (self._header,)

    def abandon(self) -> tuple[bytes, ...]:
        return ()


class CollectingFilter(ContentFilter):
    """One that keeps all of it, at most `limit` octets."""

    def __init__(self, periods: PeriodUnstuffer | None, limit: int) -> None:
        super().__init__(periods)
        self.octets = bytearray()
        self._limit = limit

    def feed(self, octets: bytes) -> tuple[bytes, ...]:
        return self._keep(super().feed(octets))

    def finish(self) -> tuple[bytes, ...]:
        return self._keep(super().finish())

    def abandon(self) -> tuple[bytes, ...]:
        return self._keep(super().abandon())

    def _keep(self, pieces: tuple[bytes, ...]) -> tuple[bytes, ...]:
        self.octets += b"".join(pieces)
        if len(self.octets) > self._limit:
            raise LimitExceeded("body", f"the attributes of one item are more than {self._limit} octets")
        return ()


class GopherContent:
    """What follows the header line, or, where there is none, the whole reply; `textual`: a text then. With
    `raw` the header line, and all that follows it as it came."""

    def __init__(
        self, header: GopherPlusHeader | None, completeness: Completeness, *, textual: bool, raw: bool = False
    ) -> None:
        self._what = "the reply, until the server closes" if header is None else header.promise
        self._count = None if header is None else header.count
        self._promised = header is not None and header.has_period
        self._periods = _periods() if self._promised or (textual and header is None) else None
        self._completeness = completeness
        self._untouched = (
            IdentityFilter(self._periods, b"" if header is None else header.octets) if raw else None
        )
        self.restore = None if self._periods is None or raw else self._periods.restore

    def give(self, names: tuple[str, ...] = ()) -> Dialogue[None]:
        """The body; of attributes only the blocks with these names, if there are any."""
        blocks = _blocks(names) if names else None
        if self._periods is not None:
            return self._pass_text(self._periods, self._untouched or ContentFilter(self._periods, blocks))
        return self._pass_octets(self._untouched or (None if blocks is None else ContentFilter(None, blocks)))

    def gather(self, limit: int, ideal: bytes) -> Dialogue[bytes]:
        """The same before there is a body: octets that are facts; a willing server's are `ideal`."""
        kept = CollectingFilter(self._periods, limit)
        if self._periods is not None:
            yield from self._pass_text(self._periods, kept, ideal)
        else:
            yield from self._pass_octets(kept, ideal)
        return bytes(kept.octets)

    def _pass_octets(self, cleaning: ContentFilter | None, ideal: bytes = b"") -> Dialogue[None]:
        passed = yield from copy_body(CopyBody(self._what, self._count, filter=cleaning, ideal=ideal))
        if self._count is None:
            self._completeness.closed(close_notify=passed.close_notify)
        else:
            self._completeness.proved("length")

    def _pass_text(
        self, periods: PeriodUnstuffer, cleaning: ContentFilter, ideal: bytes = b""
    ) -> Dialogue[None]:
        """What came is always given before an error is raised. Behind a final period a reset ends any text,
        and silence one that was promised to end so."""
        passed = CopiedBody(0)
        try:
            passed = yield from copy_body(CopyBody(self._what, filter=cleaning, ideal=ideal + b".\n"))
        except (Disconnected, Truncated):
            if not periods.last_line:
                yield from _give(cleaning.abandon())
                raise
            yield from _give(cleaning.finish())
        except TimedOut:
            if not self._promised or periods.last_line != b".\r\n":
                yield from _give(cleaning.abandon())
                raise
            yield from _give(cleaning.finish())
        self._judge_text(periods, passed)

    def _judge_text(self, periods: PeriodUnstuffer, passed: CopiedBody) -> None:
        if periods.gave_up:
            detail = "too much text with doubled periods; they are left as they came"
            self._completeness.warn("gopher:periods-kept", detail)
        if periods.terminator:
            self._completeness.proved("terminator", close_notify=passed.close_notify)
        elif not self._promised:
            self._completeness.closed(close_notify=passed.close_notify)
        elif not passed.octets:
            raise Disconnected("the connection ended before the first octet of the reply")
        else:
            message = f"the reply ended after {passed.octets} octets without its final period"
            raise Truncated(message, received=passed.octets)


def _give(pieces: tuple[bytes, ...]) -> Dialogue[None]:
    for octets in pieces:
        if octets:
            yield EmitBody(octets)


def _periods() -> PeriodUnstuffer:
    from protocols.gopher.periods import PeriodUnstuffer  # a plan knows of no text

    return PeriodUnstuffer()


def _blocks(names: tuple[str, ...]) -> BlockFilter:
    from protocols.gopher.attributes import BlockFilter  # few URLs ask so

    return BlockFilter(names)
