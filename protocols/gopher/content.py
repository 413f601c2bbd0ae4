"""The body of a gopher reply: its header line, its decoding, and the proof that it is complete.

A reply is complete with as many bytes as its header announced (`length`), or at its final period
(`terminator`). Other replies end only with the connection. In plain TCP this end proves nothing, because
anyone on the path may have closed the connection. Inside TLS, close_notify is the proof.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from protocols.errors import Disconnected, LimitExceeded, ProtocolError, TimedOut, Truncated
from protocols.location import Finding
from protocols.step import CopiedBody, CopyBody, Dialogue, EmitBody, copy_body
from protocols.wire import Buffer

if TYPE_CHECKING:
    from protocols.gopher.attributes import BlockFilter


class Completeness:
    """Findings about a reply and proofs of its completeness; both are collected until the body has ended."""

    def __init__(self, *, secured: bool) -> None:
        self.secured = secured
        self.findings: list[Finding] = []
        self.verified: set[str] = set()

    def report(self, finding: Finding) -> None:
        if finding not in self.findings:
            self.findings.append(finding)

    def warn(self, rule: str, detail: str) -> None:
        self.report(Finding(rule, "warn", detail))

    def record_proof(self, word: str, *, close_notify: bool = False) -> None:
        self.verified |= {word, "close-notify"} if close_notify else {word}

    def closed(self, *, close_notify: bool) -> None:
        """Record the end of a connection, if nothing else marks the end of the reply."""
        if close_notify:
            self.verified.add("close-notify")
        elif self.secured:
            self.warn(
                "gophers:end-not-authenticated",
                "the connection ended without TLS's close_notify; the reply may be truncated",
            )


class ContentFilter:
    """A `Filter` that decodes periods, if there are `periods`, and removes unrequested `blocks`."""

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
        """Flush after a truncation: return the bytes held back, with periods as received."""
        rest = b"" if self._periods is None else self._periods.abandon()
        return (rest if self._blocks is None else self._blocks.feed(rest) + self._blocks.finish(),)


class IdentityFilter(ContentFilter):
    """A filter that changes nothing: it adds the `header` line, and only looks for lone periods."""

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
    """A filter that stores the complete body, at most `limit` bytes."""

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
            raise LimitExceeded("body", f"attributes of one item exceed {self._limit} bytes")
        return ()


class GopherContent:
    """The body after the header line, or the complete reply if it has no header line.

    `textual` marks a reply without a header as text. With `raw` the header line and all bytes are emitted as
    received.
    """

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
        """Emit the body; if there are `names`, emit only the attribute blocks with these names."""
        blocks = _blocks(names) if names else None
        if self._periods is not None:
            return self._pass_text(self._periods, self._untouched or ContentFilter(self._periods, blocks))
        return self._pass_octets(self._untouched or (None if blocks is None else ContentFilter(None, blocks)))

    def gather(self, limit: int, ideal: bytes) -> Dialogue[bytes]:
        """Return the complete body, as metadata before the reply begins; `ideal` is the expected reply."""
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
            self._completeness.record_proof("length")

    def _pass_text(
        self, periods: PeriodUnstuffer, cleaning: ContentFilter, ideal: bytes = b""
    ) -> Dialogue[None]:
        """Copy a text; emit all received bytes before an error is raised.

        After a final period, a reset of the connection counts as the end of any text. An idle timeout counts
        as the end only if the header announced a final period.
        """
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
            detail = "too much text with doubled periods; they stay as received"
            self._completeness.warn("gopher:periods-kept", detail)
        if periods.terminator:
            self._completeness.record_proof("terminator", close_notify=passed.close_notify)
        elif not self._promised:
            self._completeness.closed(close_notify=passed.close_notify)
        elif not passed.octets:
            raise Disconnected("the connection ended before the first byte of the reply")
        else:
            message = f"the reply ended after {passed.octets} bytes without its final period"
            raise Truncated(message, received=passed.octets)


def _give(pieces: tuple[bytes, ...]) -> Dialogue[None]:
    for octets in pieces:
        if octets:
            yield EmitBody(octets)


def _periods() -> PeriodUnstuffer:

    return PeriodUnstuffer()


def _blocks(names: tuple[str, ...]) -> BlockFilter:
    from protocols.gopher.attributes import BlockFilter  # Imported lazily: few URLs request attributes.

    return BlockFilter(names)


# Periods: RFC 1436 ends a text with a line of one period, and doubles a period at the start of a line.
# Servers omit the end, or double only lone periods, or double nothing. The rules apply to the complete reply:
#
# 1. If its last line is a lone period, that line is the terminator and is removed. If not, no byte changes.
# 2. If a lone period stands on an earlier line, this server doubles no periods: nothing else changes.
# 3. A line of exactly two periods becomes a line of one period.
# 4. A longer line that begins with two periods loses one, unless some line begins with a single period and
#    other text: such a line shows that at most lone periods are doubled.
#
# `PeriodUnstuffer` applies the rules while the reply arrives. Bytes are returned as soon as no rule can
# change the result: a text without lines of two periods is passed on immediately. From the first such line
# on, bytes are held until the end. If more than `HOLD_LIMIT` bytes would be held, the unstuffer returns the
# held bytes and removes only the terminator.

#: The maximum number of bytes held until the end of a reply; the lines of a longer text are not decoded.
HOLD_LIMIT = 8 * 1024 * 1024

_TERMINATOR = re.compile(rb"\n(\.(?:\r?\n)?)\Z")
_ENDED_TERMINATOR = re.compile(rb"\n(\.\r?\n)\Z")
_PERHAPS_TERMINATOR = re.compile(rb"\n\.\r?\n?\Z")
#: The number of bytes at the end of a reply that show whether it ends with a lone period: LF, period, CR, LF.
TAIL_LENGTH = 4

_DOUBLED = re.compile(rb"^\.\.", re.MULTILINE)
_DOUBLED_ALONE = re.compile(rb"^\.\.(?=\r?\n)", re.MULTILINE)
_SINGLE = re.compile(rb"^\.", re.MULTILINE)
_SINGLE_ALONE = re.compile(rb"^\.(?=\r?\n)", re.MULTILINE)


def closing_period(octets: bytes) -> bytes:
    """Return the lone period, line end included, at the end of `octets`, or empty bytes.

    `octets` is the reply received so far. If no more bytes come, the period is the terminator.
    """
    tail = octets[-TAIL_LENGTH:] if len(octets) >= TAIL_LENGTH else b"\n" + octets
    found = _ENDED_TERMINATOR.search(tail)
    return b"" if found is None else found[1]


class PeriodUnstuffer:
    """A decoder of a textual reply, fed the complete reply as it arrives.

    After `finish`, `terminator` holds the bytes of the terminator (or is empty), and `restore` returns the
    original bytes. `gave_up` is True if more than `hold` bytes would have been held.
    """

    def __init__(self, hold: int = HOLD_LIMIT) -> None:
        self._hold = hold
        # The first held byte was returned already; at the start it is a line end before the text. It shows
        # whether the next byte begins a line.
        self._held = bytearray(b"\n")
        self._searched = 0
        self._doubled: int | None = None  # Index of the first line of exactly two periods.
        self._longer: int | None = None  # Index of the first longer line with two periods.
        self._single_seen = False
        self._literal = False
        self._undoubled: re.Pattern[bytes] | None = None  # Matches the start of each line that lost a period.
        self.gave_up = False
        self.terminator = b""

    @property
    def last_line(self) -> bytes:
        """Return the lone period at the end of the bytes so far (see `closing_period`)."""
        return closing_period(bytes(self._held[-TAIL_LENGTH:]))

    def feed(self, octets: bytes) -> bytes:
        self._held += octets
        certain = 0 if self._literal else self._certain_until()
        if not self._literal and len(self._held) - certain > self._hold:
            self._literal = self.gave_up = True
        return self._give(self._literal_until() if self._literal else certain)

    def finish(self) -> bytes:
        """Return the rest of a complete reply."""
        found = _TERMINATOR.search(self._held[-TAIL_LENGTH:])
        if found is not None:
            self.terminator = bytes(found[1])
        rest = self._give(len(self._held))
        if found is None:
            return rest
        rest = rest[: -len(self.terminator)]
        return rest if self._literal else self._undouble(rest)

    def abandon(self) -> bytes:
        """Return the held bytes of a truncated reply, as received."""
        self._literal = True
        return self._give(len(self._held))

    def restore(self, cleaned: bytes) -> bytes:
        """Return the bytes as received, from the complete decoded text."""
        if self._undoubled is not None:
            cleaned = self._undoubled.sub(b"..", cleaned)
        return cleaned + self.terminator

    def _undouble(self, rest: bytes) -> bytes:
        doubled, self._undoubled = (
            (_DOUBLED_ALONE, _SINGLE_ALONE) if self._single_seen else (_DOUBLED, _SINGLE)
        )
        return doubled.sub(b".", rest)

    def _give(self, until: int) -> bytes:
        given = bytes(self._held[1:until])
        moved = len(given)
        del self._held[:moved]
        self._searched = 0 if moved > self._searched else self._searched - moved
        self._doubled = None if self._doubled is None else self._doubled - moved
        self._longer = None if self._longer is None else self._longer - moved
        return given

    def _literal_until(self) -> int:
        """Return the index from which bytes may still change: only a lone period at the end can."""
        found = _PERHAPS_TERMINATOR.search(self._held[-TAIL_LENGTH:])
        if found is None:
            return len(self._held)
        return len(self._held) - len(found[0]) + 1

    def _certain_until(self) -> int:
        """Classify every line that begins with a period; return the index of the first undecided byte."""
        waiting = len(self._held)
        while (found := self._held.find(b"\n.", self._searched)) >= 0:
            if not self._judge(found + 1):
                self._searched, waiting = found, found + 1
                break
            if self._literal:
                return waiting
            self._searched = found + 2
        else:
            self._searched = max(0, waiting - 1)
        if self._doubled is not None:
            waiting = min(waiting, self._doubled)
        if self._longer is not None and not self._single_seen:
            waiting = min(waiting, self._longer)
        return waiting

    def _judge(self, start: int) -> bool:
        """Classify the server's encoding by the line at `start`; return False if more bytes are needed."""
        after = bytes(self._held[start + 1 : start + TAIL_LENGTH])
        if after in (b"", b"\r", b".", b".\r"):
            return False
        if after.startswith((b"\n", b"\r\n")):
            self._literal = start + 1 + after.index(b"\n") + 1 < len(self._held)
            return self._literal
        if after.startswith((b".\n", b".\r\n")):
            self._doubled = start if self._doubled is None else self._doubled
        elif after.startswith(b"."):
            self._longer = start if self._longer is None else self._longer
        else:
            self._single_seen = True
        return True


# The header line of a Gopher+ reply (Gopher+ memo 2.3): its recognition, and the length it announces.
#
# A header is expected only if the request was Gopher+, because a document may also begin with `+44`. A reply
# without a header is *unframed*: the server does not support Gopher+, or does not support it for this
# request. Then every examined byte is part of the reply.

#: The maximum size of a header in bytes: enough for a sign, 18 digits and blanks.
HEADER_LIMIT = 64

_HEADER = re.compile(rb"([+-])(-1|-2|[0-9]{1,18})[ \t]*\r?\n")
_BEGINNING = re.compile(rb"[+-](?:-|(?:-1|-2|[0-9]{1,18})[ \t]*\r?)?\Z")


class DataEnding(enum.Enum):
    """How the end of the data is marked."""

    COUNT = "count"
    PERIOD = "lone period"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class GopherPlusHeader:
    """The header line of a Gopher+ reply.

    If `refused` is set, an error text follows. `count` is the number of bytes that follow; it is None unless
    `ending` is COUNT. `octets` are the line as received.
    """

    ending: DataEnding
    count: int | None = None
    refused: bool = False
    octets: bytes = field(default=b"", compare=False)

    @property
    def written(self) -> str:
        """Return the header as written on the wire, without its line end."""
        how = {DataEnding.PERIOD: "-1", DataEnding.CLOSE: "-2"}.get(self.ending, str(self.count))
        return ("-" if self.refused else "+") + how

    @property
    def has_period(self) -> bool:
        """Return whether the data end with a final period."""
        return self.ending is DataEnding.PERIOD

    @property
    def promise(self) -> str:
        """Return the meaning of the header for the user."""
        what = "an error text" if self.refused else "the reply"
        match self.ending:
            case DataEnding.COUNT:
                return f"{what}, {self.count} bytes"
            case DataEnding.PERIOD:
                return f"{what}, up to a line with a lone period, until the server closes"
            case DataEnding.CLOSE:
                return f"{what}, until the server closes"


def read_header(buffer: Buffer) -> Generator[None, None, GopherPlusHeader | None]:
    """Take the header line from the buffer; for an unframed reply, take nothing and return None.

    The reader waits for more bytes only while the received ones can still become a header. An empty reply
    also returns None; the caller decides whether an empty reply is allowed.
    """
    while True:
        first = buffer.peek(HEADER_LIMIT)
        found = _HEADER.match(first)
        if found is not None:
            return _header(found[1], found[2], buffer.take(found.end()))
        hopeless = len(first) == HEADER_LIMIT or bool(first and not _BEGINNING.match(first))
        if hopeless or buffer.at_end:
            return None
        yield


def read_promised_header(buffer: Buffer) -> Generator[None, None, GopherPlusHeader | None]:
    """Take the header line of the reply to a request that certainly was Gopher+.

    Raises:
        ProtocolError: The reply is empty.
        Disconnected: The connection ended inside a header.
    """
    header = yield from read_header(buffer)
    if header is None and buffer.at_end and _BEGINNING.match(buffer.peek(HEADER_LIMIT)):
        raise Disconnected("the connection ended inside the header line of a Gopher+ reply")
    if header is None and not buffer:
        raise ProtocolError(
            "the server closed the connection without an answer to a Gopher+ request",
            # An empty reply may be permanent or a truncation; the client cannot distinguish the two.
            retryable=True,
        )
    return header


def _header(sign: bytes, how: bytes, octets: bytes) -> GopherPlusHeader:
    refused = sign == b"-"
    if how == b"-1":
        return GopherPlusHeader(DataEnding.PERIOD, None, refused, octets)
    if how == b"-2":
        return GopherPlusHeader(DataEnding.CLOSE, None, refused, octets)
    return GopherPlusHeader(DataEnding.COUNT, int(how), refused, octets)
