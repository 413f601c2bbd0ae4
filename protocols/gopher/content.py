"""The body of a gopher reply: the proofs of completeness, the filters, dot-stuffing, and the header line.

A gopher reply is complete if one of these proofs exists:

- `length`: the body has as many bytes as the header announced.
- `terminator`: the body ends with a line of one period.
- `close-notify`: the connection uses TLS, and the server sent close_notify.

Without TLS, a closed connection does not prove that the reply is complete: any host on the network path can
close a TCP connection early (truncation attack).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from protocols.errors import Disconnected, LimitExceeded, ProtocolError
from protocols.location import Finding
from protocols.wire import Buffer

if TYPE_CHECKING:
    from protocols.gopher.attributes import BlockFilter


class Completeness:
    """The findings about a reply, and the proofs that the reply is complete."""

    def __init__(self, *, is_encrypted: bool) -> None:
        self.is_encrypted = is_encrypted
        self.findings: list[Finding] = []
        self.verified: set[str] = set()

    def report(self, finding: Finding) -> None:
        if finding not in self.findings:
            self.findings.append(finding)

    def warn(self, rule: str, detail: str) -> None:
        self.report(Finding(rule, "warn", detail))

    def record_proof(self, proof: str, *, close_notify: bool = False) -> None:
        self.verified |= {proof, "close-notify"} if close_notify else {proof}

    def record_close(self, *, close_notify: bool) -> None:
        """Record that the connection was closed, which marks the end of a reply without a length."""
        if close_notify:
            self.verified.add("close-notify")
        elif self.is_encrypted:
            self.warn(
                "gophers:end-not-authenticated",
                "the connection ended without TLS's close_notify; the reply may be truncated",
            )


class ContentFilter:
    """A `Filter` that removes the dot-stuffing of a text, and attribute blocks that were not requested.

    Args:
        periods: The decoder of the dot-stuffing; None to keep all periods.
        blocks: The filter of attribute blocks; None to keep all blocks.
    """

    def __init__(self, periods: PeriodUnstuffer | None, blocks: BlockFilter | None = None) -> None:
        self._periods = periods
        self._blocks = blocks

    def feed(self, octets: bytes) -> tuple[bytes, ...]:
        (octets,) = (octets,) if self._periods is None else self._periods.feed(octets)
        return (octets if self._blocks is None else self._blocks.feed(octets),)

    def finish(self) -> tuple[bytes, ...]:
        (rest,) = (b"",) if self._periods is None else self._periods.finish()
        return (rest if self._blocks is None else self._blocks.feed(rest) + self._blocks.finish(),)

    def abandon(self) -> tuple[bytes, ...]:
        """Return the buffered bytes of a truncated reply, with the periods as received."""
        (rest,) = (b"",) if self._periods is None else self._periods.abandon()
        return (rest if self._blocks is None else self._blocks.feed(rest) + self._blocks.finish(),)


class IdentityFilter(ContentFilter):
    """A filter for raw output that emits the `header` line and unchanged bytes, and detects lone periods."""

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
    """A filter that stores the complete body, up to `limit` bytes."""

    def __init__(self, periods: PeriodUnstuffer | None, limit: int) -> None:
        super().__init__(periods)
        self.octets = bytearray()
        self._limit = limit

    def feed(self, octets: bytes) -> tuple[bytes, ...]:
        return self._store(super().feed(octets))

    def finish(self) -> tuple[bytes, ...]:
        return self._store(super().finish())

    def abandon(self) -> tuple[bytes, ...]:
        return self._store(super().abandon())

    def _store(self, pieces: tuple[bytes, ...]) -> tuple[bytes, ...]:
        self.octets += b"".join(pieces)
        if len(self.octets) > self._limit:
            raise LimitExceeded("body", f"attributes of one item exceed {self._limit} bytes")
        return ()


# Dot-stuffing: RFC 1436 ends a text with a line of one period (a lone period), and doubles a period at the
# start of a line. Some servers omit the terminator, or double only lone periods, or double no periods. The
# following rules apply to the complete reply:
#
# 1. If the last line is a lone period, that line is the terminator and is removed. If the last line is not a
#    lone period, the reply is not changed.
# 2. If an earlier line is a lone period, the server does not double periods. Only the terminator is removed.
# 3. A line of exactly two periods becomes a line of one period.
# 4. A longer line that begins with two periods loses one period. An exception is a reply with a line that
#    begins with one period and has further text. The server of such a reply doubles at most lone periods.
#
# `PeriodUnstuffer` applies the rules while the reply arrives. A text in which no line begins with two periods
# is returned immediately. From the first line with two periods, the bytes are buffered until the end of the
# reply. If the buffered bytes would exceed `BUFFER_LIMIT`, they are returned unchanged. Only the terminator
# is then removed.

#: The maximum number of bytes that are buffered until the end of a reply. In a longer text, doubled periods
#: stay doubled.
BUFFER_LIMIT = 8 * 1024 * 1024

_TERMINATOR = re.compile(rb"\n(\.(?:\r?\n)?)\Z")
_ENDED_TERMINATOR = re.compile(rb"\n(\.\r?\n)\Z")
_PERHAPS_TERMINATOR = re.compile(rb"\n\.\r?\n?\Z")
#: The size in bytes of a final lone period with its line ends: LF, period, CR, LF.
TAIL_LENGTH = 4

_DOUBLED = re.compile(rb"^\.\.", re.MULTILINE)
_DOUBLED_ALONE = re.compile(rb"^\.\.(?=\r?\n)", re.MULTILINE)
_SINGLE = re.compile(rb"^\.", re.MULTILINE)
_SINGLE_ALONE = re.compile(rb"^\.(?=\r?\n)", re.MULTILINE)


def closing_period(octets: bytes) -> bytes:
    """Return the lone period at the end of `octets`, with its line end.

    The result is empty without such a period.

    Args:
        octets: The bytes of the reply that were received so far. The lone period is the terminator if no
            bytes follow.
    """
    tail = octets[-TAIL_LENGTH:] if len(octets) >= TAIL_LENGTH else b"\n" + octets
    match = _ENDED_TERMINATOR.search(tail)
    return b"" if match is None else match[1]


class PeriodUnstuffer:
    """An incremental decoder of the dot-stuffing in a textual reply; a `Filter`.

    After `finish`, `terminator` holds the bytes of the terminator, or is empty. `restore` then returns the
    original bytes. `is_over_limit` is True if the decoder needed to buffer more than `limit` bytes.
    """

    def __init__(self, limit: int = BUFFER_LIMIT) -> None:
        self._limit = limit
        # The first byte in this buffer was already returned. This byte shows whether the next byte begins a
        # line. At the start of the reply, this byte is a virtual LF, which is not part of the reply.
        self._buffer = bytearray(b"\n")
        self._searched = 0
        self._doubled: int | None = None  # Index of the first line that consists of exactly two periods.
        self._longer: int | None = None  # Index of the first longer line that begins with two periods.
        self._has_single = False
        self._is_literal = False
        self._undoubled: re.Pattern[bytes] | None = None  # Matches the start of each line that lost a period.
        self.is_over_limit = False
        self.terminator = b""

    @property
    def last_line(self) -> bytes:
        """Return the lone period at the end of the received bytes (see `closing_period`)."""
        return closing_period(bytes(self._buffer[-TAIL_LENGTH:]))

    def feed(self, octets: bytes) -> tuple[bytes]:
        self._buffer += octets
        certain = 0 if self._is_literal else self._find_certain_end()
        if not self._is_literal and len(self._buffer) - certain > self._limit:
            self._is_literal = self.is_over_limit = True
        return (self._take(self._find_literal_end() if self._is_literal else certain),)

    def finish(self) -> tuple[bytes]:
        """Return the remaining decoded bytes at the end of a complete reply."""
        match = _TERMINATOR.search(self._buffer[-TAIL_LENGTH:])
        if match is None:
            return self.abandon()
        self.terminator = bytes(match[1])
        rest = self._take(len(self._buffer) - len(self.terminator))
        is_doubled = self._doubled is not None or self._longer is not None
        return (self._undouble(rest) if is_doubled and not self._is_literal else rest,)

    def abandon(self) -> tuple[bytes]:
        """Return the buffered bytes of a truncated reply, as received."""
        return (self._take(len(self._buffer)),)

    def restore(self, cleaned: bytes) -> bytes:
        """Encode the complete decoded text `cleaned` to its original bytes."""
        if self._undoubled is not None:
            cleaned = self._undoubled.sub(b"..", cleaned)
        return cleaned + self.terminator

    def _undouble(self, rest: bytes) -> bytes:
        doubled, self._undoubled = (
            (_DOUBLED_ALONE, _SINGLE_ALONE) if self._has_single else (_DOUBLED, _SINGLE)
        )
        return doubled.sub(b".", rest)

    def _take(self, end: int) -> bytes:
        octets = bytes(self._buffer[1:end])
        count = len(octets)
        del self._buffer[:count]
        self._searched = 0 if count > self._searched else self._searched - count
        self._doubled = None if self._doubled is None else self._doubled - count
        self._longer = None if self._longer is None else self._longer - count
        return octets

    def _find_literal_end(self) -> int:
        """Return the index of the period at the buffer's end that may be the terminator."""
        match = _PERHAPS_TERMINATOR.search(self._buffer[-TAIL_LENGTH:])
        if match is None:
            return len(self._buffer)
        return len(self._buffer) - len(match[0]) + 1

    def _find_certain_end(self) -> int:
        """Classify the lines that begin with a period, and return the index that needs more data."""
        end = len(self._buffer)
        while (index := self._buffer.find(b"\n.", self._searched)) >= 0:
            if not self._classify_line(index + 1):
                self._searched, end = index, index + 1
                break
            if self._is_literal:
                return end
            self._searched = index + 2
        else:
            self._searched = max(0, end - 1)
        if self._doubled is not None:
            end = min(end, self._doubled)
        if self._longer is not None and not self._has_single:
            end = min(end, self._longer)
        return end

    def _classify_line(self, start: int) -> bool:
        """Detect dot-stuffing from the line at `start`. Return False if more bytes are needed."""
        following = bytes(self._buffer[start + 1 : start + TAIL_LENGTH])
        if following in (b"", b"\r", b".", b".\r"):
            return False
        if following.startswith((b"\n", b"\r\n")):
            self._is_literal = start + 1 + following.index(b"\n") + 1 < len(self._buffer)
            return self._is_literal
        if following.startswith((b".\n", b".\r\n")):
            self._doubled = start if self._doubled is None else self._doubled
        elif following.startswith(b"."):
            self._longer = start if self._longer is None else self._longer
        else:
            self._has_single = True
        return True


# The header line of a Gopher+ reply (Gopher+ memo 2.3). The header line contains the length of the data.
#
# The client looks for a header line only after a Gopher+ request, because an ordinary document may begin with
# `+44`, too. A reply without a header is *unframed*: the server does not support Gopher+ for this request.
# All bytes of an unframed reply belong to the body.

#: The maximum size of a header in bytes: enough for a sign, 18 digits and blanks.
HEADER_LIMIT = 64

_HEADER = rb"([+-])(-1|-2|[0-9]{1,18})[ \t]*\r?\n"
_BEGINNING = rb"[+-](?:-|(?:-1|-2|[0-9]{1,18})[ \t]*\r?)?\Z"


class DataEnding(enum.Enum):
    """The marker for the end of the data in a Gopher+ reply."""

    COUNT = "count"
    PERIOD = "lone period"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class GopherPlusHeader:
    """The header line of a Gopher+ reply.

    Attributes:
        is_error: Set if an error text follows instead of the data.
        ending: How the end of the data is marked.
        count: The number of bytes after the header if `ending` is COUNT, otherwise None.
        octets: The header line as received.
    """

    ending: DataEnding
    count: int | None = None
    is_error: bool = False
    octets: bytes = field(default=b"", compare=False)

    @property
    def description(self) -> str:
        """Describe for the user how the server announced the end of the data."""
        subject = "an error text" if self.is_error else "the reply"
        match self.ending:
            case DataEnding.COUNT:
                return f"{subject}, {self.count} bytes"
            case DataEnding.PERIOD:
                return f"{subject}, up to a line with a lone period, until the server closes"
            case DataEnding.CLOSE:
                return f"{subject}, until the server closes"


def read_header(buffer: Buffer) -> Generator[None, None, GopherPlusHeader | None]:
    """Read the header line of a reply, or return None for an empty reply or no header line.

    The bytes of an unframed reply stay in the buffer. The reader waits for more bytes only while the received
    bytes may be the start of a header line.
    """
    while True:
        first = buffer.peek(HEADER_LIMIT)
        match = re.match(_HEADER, first)
        if match is not None:
            return _build_header(match[1], match[2], buffer.take(match.end()))
        is_unframed = len(first) == HEADER_LIMIT or bool(first and not re.match(_BEGINNING, first))
        if is_unframed or buffer.at_end:
            return None
        yield


def read_promised_header(buffer: Buffer) -> Generator[None, None, GopherPlusHeader | None]:
    """Read the header line of the reply to a Gopher+ request.

    The result is `None` if the reply has no header line.

    Raises:
        ProtocolError: The reply is empty.
        Disconnected: The connection ended inside a header.
    """
    header = yield from read_header(buffer)
    if header is None and buffer.at_end and re.match(_BEGINNING, buffer.peek(HEADER_LIMIT)):
        raise Disconnected("the connection ended inside the header line of a Gopher+ reply")
    if header is None and not buffer:
        raise ProtocolError(
            "the server closed the connection without an answer to a Gopher+ request",
            # A retry may help, because the client cannot distinguish an empty reply from a truncated reply.
            retryable=True,
        )
    return header


def _build_header(sign: bytes, length: bytes, octets: bytes) -> GopherPlusHeader:
    ending = {b"-1": DataEnding.PERIOD, b"-2": DataEnding.CLOSE}.get(length, DataEnding.COUNT)
    count = int(length) if ending is DataEnding.COUNT else None
    return GopherPlusHeader(ending, count, is_error=sign == b"-", octets=octets)
