"""The reply to one gopher request: the detection of its format, its metadata, and its body.

The reader of a reply starts after the header line. The reader detects the format of the reply by peeking into
the buffer, without consuming bytes.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TYPE_CHECKING, Literal, NamedTuple

from protocols.contract import Reply
from protocols.errors import Declined, Disconnected, NotFound, TimedOut, Truncated, TryLater
from protocols.gopher.content import (
    TAIL_LENGTH,
    CollectingFilter,
    Completeness,
    ContentFilter,
    DataEnding,
    IdentityFilter,
    PeriodUnstuffer,
    closing_period,
)
from protocols.gopher.menu import (
    ATTRIBUTES_VIEW,
    MenuLines,
    MenuReader,
    display_text,
    kind_of_view,
    line_text,
    make_link,
    parse_item,
)
from protocols.gopher.request import (
    SAFE_REQUEST,
    GopherPlusCommand,
    command_in,
    parse_command,
)
from protocols.gopher.url import ITEM_TYPES, SIGNATURE_LENGTH, GopherUrl, find_media_type
from protocols.location import Kind
from protocols.step import CopiedBody, CopyBody, Dialogue, EmitBody, StartBody
from protocols.wire import Buffer

if TYPE_CHECKING:
    from protocols.gopher.content import GopherPlusHeader
    from protocols.gopher.menu import TextLine
    from protocols.location import EntryReader


class ReplyShape(NamedTuple):
    """The format of a reply: its kind, its media type and its encoding.

    A `listing` consists of menu items or of attribute records. `textual` is set if the reply is dot-stuffed
    text without a header line.
    """

    kind: Kind
    media_type: str | None
    listing: Literal["items", "records"] | None
    textual: bool


#: The expected format of the reply in a plan: a document of binary data.
OCTETS = ReplyShape(Kind.DOCUMENT, None, None, textual=False)
RECORDS = ReplyShape(Kind.DIRECTORY, ATTRIBUTES_VIEW, "records", textual=True)


class GopherAnswer:
    """The reply to one gopher request: its metadata and its body.

    Args:
        sent: The length of the request line in bytes.
        header: The header line; None for an unframed reply.
        shape: The format of the reply. A textual reply without a header line is decoded as text.
        line_limit: The maximum length of a line of a listing, in bytes.
        raw: Whether to emit the header line and all bytes as received, without parsing.

    Attributes:
        has_records: Whether the reply consists of attribute records.
        restore: The function that encodes the decoded body to its original bytes, or None.
    """

    def __init__(
        self,
        url: GopherUrl,
        command: GopherPlusCommand,
        sent: int,
        header: GopherPlusHeader | None,
        shape: ReplyShape,
        line_limit: int,
        raw: bool,
    ) -> None:
        self.url = url
        self.command = command
        self.shape = shape._replace(listing=None) if raw else shape
        self.has_records = self.shape.listing == "records"
        self._raw = raw
        self.line_limit = line_limit
        self.completeness = Completeness(is_encrypted=url.scheme == "gophers")
        self._header = header
        self._label = "the reply, until the server closes" if header is None else header.description
        self._count = None if header is None else header.count
        self._expects_period = header is not None and header.ending is DataEnding.PERIOD
        is_stuffed = self._expects_period or (shape.textual and header is None)
        self._periods = PeriodUnstuffer() if is_stuffed else None
        self.restore = None if self._periods is None or raw else self._periods.restore
        if sent > SAFE_REQUEST:
            self.completeness.warn(
                "gopher:long-request", f"request of {sent} bytes; some servers read only {SAFE_REQUEST}"
            )
        if header is None and url.gopherplus:
            self.completeness.warn(
                "gopher:unframed", "the server did not honor Gopher+: its reply has no header line"
            )

    def emit(self, records: EntryReader | None = None) -> Dialogue[None]:
        """Return the dialogue that emits the metadata and the body of the reply.

        The reader `records` converts attribute records, which are streamed. Only the requested attribute
        blocks are emitted.
        """
        command, is_menu = self.command, self.shape.listing == "items"
        legible = self.has_records and command.requested == "directory"
        names = command.attributes if legible else ()
        reply = Reply(
            kind=self.shape.kind,
            media_type=self.shape.media_type,
            size=None if names else self._count,
            listing=MenuReader(self.url, self.line_limit) if is_menu else records,
            legible=legible,
            raw=None if names else self.restore,
            findings=self.completeness.findings,
            verified=self.completeness.verified,
        )
        if command.view:
            view = command.view.decode("latin-1")
            reply.meta, reply.extra = (("view-requested", view),), {"view_requested": view}
        body_filter: ContentFilter | None = None
        if names:
            from protocols.gopher.attributes import BlockFilter  # Imported lazily: few URLs name attributes.

            body_filter = ContentFilter(self._periods, BlockFilter(names))
        elif self._raw:
            octets = b"" if self._header is None else self._header.octets
            body_filter = IdentityFilter(self._periods, octets)
            reply.size = None if reply.size is None else reply.size + len(octets)
        if self._periods is None:
            return self._copy_octets(reply, body_filter)
        return self._copy_text(reply, self._periods, body_filter or self._periods)

    def read_all(self, limit: int, ideal: bytes) -> Dialogue[bytes]:
        """Read the complete body into memory, and return it.

        Args:
            limit: The maximum size of the body in bytes.
            ideal: The body that a plan expects.
        """
        collector = CollectingFilter(self._periods, limit)
        if self._periods is not None:
            yield from self._copy_text(None, self._periods, collector, ideal)
        else:
            yield from self._copy_octets(None, collector, ideal)
        return bytes(collector.octets)

    def _copy_octets(
        self, reply: Reply | None, body_filter: ContentFilter | None, ideal: bytes = b""
    ) -> Dialogue[None]:
        if reply is not None:
            yield StartBody(reply)
        body: CopiedBody = yield CopyBody(self._label, self._count, filter=body_filter, ideal=ideal)
        if self._count is None:
            self.completeness.record_close(close_notify=body.close_notify)
        else:
            self.completeness.record_proof("length")

    def _copy_text(
        self,
        reply: Reply | None,
        periods: PeriodUnstuffer,
        body_filter: ContentFilter | PeriodUnstuffer,
        ideal: bytes = b"",
    ) -> Dialogue[None]:
        """Copy a text; all received bytes are emitted before an error is raised.

        If the connection is reset after a final period, the text is complete. If an idle timeout expires
        after a final period, the text is complete only if a header line announced a final period.
        """
        body = _NO_BODY
        if reply is not None:
            yield StartBody(reply)
        try:
            body = yield CopyBody(self._label, filter=body_filter, ideal=ideal + b".\n")
        except (Disconnected, Truncated):
            if not periods.last_line:
                yield from _emit(body_filter.abandon())
                raise
            yield from _emit(body_filter.finish())
        except TimedOut:
            if not self._expects_period or periods.last_line != b".\r\n":
                yield from _emit(body_filter.abandon())
                raise
            yield from _emit(body_filter.finish())
        self._check_text_end(periods, body)

    def _check_text_end(self, periods: PeriodUnstuffer, body: CopiedBody) -> None:
        if periods.is_over_limit:
            detail = "too much text with doubled periods; they stay as received"
            self.completeness.warn("gopher:periods-kept", detail)
        if periods.terminator:
            self.completeness.record_proof("terminator", close_notify=body.close_notify)
        elif not self._expects_period:
            self.completeness.record_close(close_notify=body.close_notify)
        elif not body.octets:
            raise Disconnected("the connection ended before the first byte of the reply")
        else:
            message = f"the reply ended after {body.octets} bytes without its final period"
            raise Truncated(message, received=body.octets)


_NO_BODY = CopiedBody(0)


def _emit(pieces: tuple[bytes, ...]) -> Dialogue[None]:
    for octets in pieces:
        if octets:
            yield EmitBody(octets)


# Format detection. The requested view determines the format of a Gopher+ reply. The item type determines the
# format of any other reply. The client examines the bytes without consuming them. The client waits only for
# the bytes that are needed to detect the format.
#
# Basic Gopher has no status code. A server reports an error with a Gopher+ error (memo 2.3) or with an error
# line, for example for a missing item. The client distinguishes an error line from content by the syntax of
# the line, never by its text. The client examines the start of a reply only until it is certain that the
# reply is content.

#: The number of bytes that distinguish attribute records from other replies.
RECORD_MARK_LENGTH = 6

_RECORD_MARK = re.compile(rb"\+INFO[: ]")


#: The maximum size of an error text in bytes. A longer text is truncated.
ERROR_LIMIT = 8192
#: The maximum size of an error reply in bytes. A longer reply is not an error reply.
ERROR_REPLY_LIMIT = 8_192
#: The number of bytes that the splitter processes in one step.
_STEP_SIZE = 1_024

_TERMINATOR_LENGTH = 3
_TERMINATOR = re.compile(rb"(?:\.(?:\r?\n?)?)?")


def read_unframed(url: GopherUrl, buffer: Buffer) -> Generator[None, None, ReplyShape]:
    """Detect the format of a reply without a header line.

    The bytes of the reply stay in the buffer.

    Raises:
        Declined: The reply is an error.
        ResolveError: The connection failed before the first byte of the reply.
    """
    item_type = ITEM_TYPES[url.gophertype]
    count = SIGNATURE_LENGTH if item_type.sniffed else RECORD_MARK_LENGTH if url.gopherplus else 0
    first = (yield from read_first_octets(count, buffer)) if count else b""
    detector = MenuDetector() if item_type.reading == "menu" else LineDetector()
    offset = 0
    while detector.is_refusal is None and offset <= ERROR_REPLY_LIMIT:
        if octets := bytes(buffer[offset : offset + _STEP_SIZE]):
            detector.feed(octets)
            offset += len(octets)
        elif buffer.is_all:
            check_begun(buffer)
            if _is_complete(buffer):
                detector.finish()
            break
        else:
            yield
    if detector.is_refusal:
        raise detector.refusal
    return shape_of_unframed(url, first) if url.gopherplus else shape_by_type(url, first)


def read_first_octets(count: int, buffer: Buffer) -> Generator[None, None, bytes]:
    """Wait for the first `count` bytes, and return them, or fewer if the connection ends early."""
    while len(buffer) < count and not buffer.is_all:
        yield
    return buffer.peek(count)


def _is_complete(buffer: Buffer) -> bool:
    """Return whether the connection was closed normally, or was reset after a final period."""
    if isinstance(buffer.broken, Disconnected):
        return closing_period(buffer.tail(TAIL_LENGTH)) != b""
    return buffer.at_end


def check_begun(buffer: Buffer) -> None:
    if buffer.broken is not None and not buffer:
        raise buffer.broken


def shape_of_unframed(url: GopherUrl, first: bytes) -> ReplyShape:
    """Return the format of a reply without a header line.

    A reply without a header line may consist of attribute records: the University of Minnesota's server sends
    such a reply to a Gopher+ search.
    """
    shape = shape_by_type(url, first)
    command = parse_command(url.gopherplus)
    expected = command.requests_records or (command.requested != "plain" and shape.listing is not None)
    return RECORDS if expected and _RECORD_MARK.match(first) else shape


def shape_by_type(url: GopherUrl, first: bytes) -> ReplyShape:
    """Return the format of a reply from the item type in its URL."""
    item_type = ITEM_TYPES[url.gophertype]
    media_type = find_media_type(item_type, first)
    if item_type.reading != "menu":
        return ReplyShape(Kind.DOCUMENT, media_type, None, item_type.reading == "text")
    is_incomplete = item_type.kind is Kind.SEARCH and not url.search
    return ReplyShape(Kind.SEARCH if is_incomplete else Kind.DIRECTORY, media_type, "items", True)


class ErrorDetector:
    """A detector that examines the start of an unframed reply until the reply is an error or content.

    `is_refusal` is the decision, or None before the decision. `refusal` is the error to raise if the reply is
    an error.
    """

    is_refusal: bool | None = None
    _messages: tuple[str, ...] = ()

    def feed(self, octets: bytes) -> None:
        """Examine the next bytes before the decision."""
        raise NotImplementedError

    def finish(self) -> None:
        """Decide whether the complete reply is an error, unless it was decided before."""
        raise NotImplementedError

    @property
    def refusal(self) -> NotFound:
        assert self.is_refusal
        text = "\n".join(self._messages)[:ERROR_LIMIT]
        return NotFound(f"the server answered with an error line: {text!r}", text=text)


class MenuDetector(ErrorDetector):
    """A detector for menus.

    A menu is an error if it has an item of type 3 and all its items have type 3 or type i (informational
    line).
    """

    def __init__(self) -> None:
        self._lines = MenuLines()

    def feed(self, octets: bytes) -> None:
        self._examine(self._lines.feed(octets))

    def finish(self) -> None:
        self._examine(self._lines.finish())
        if self.is_refusal is None:
            self.is_refusal = bool(self._messages)

    def _examine(self, lines: list[TextLine]) -> None:
        for line in lines:
            if line.octets[:1] == b"3":
                self._messages += (display_text(parse_item(line.octets).display),)
            elif line.octets not in (b"", b".") and line.octets[:1] != b"i":
                self.is_refusal = False


class LineDetector(ErrorDetector):
    """A detector for replies other than menus.

    The reply is an error if it is a single menu line of type 3. The line may also have type 0. It then has
    the host and port that the University of Minnesota's server writes into errors. A lone period may follow
    the line.
    """

    _line = b""
    _tail: bytes | None = None

    def feed(self, octets: bytes) -> None:
        if self._tail is None:
            line, end, octets = octets.partition(b"\n")
            self._line += line
            if self._line and self._line[0] not in b"30":
                self.is_refusal = False
            if not end or self.is_refusal is False:
                return
            self._tail = b""
            if not self._is_error_line():
                self.is_refusal = False
        self._tail += octets[: _TERMINATOR_LENGTH + 1]
        if not _TERMINATOR.fullmatch(self._tail):
            self.is_refusal = False

    def finish(self) -> None:
        if self.is_refusal is None:
            self.is_refusal = self._is_error_line()

    def _is_error_line(self) -> bool:
        item = parse_item(self._line.removesuffix(b"\r"))
        self._messages = (display_text(item.display),)
        if item.port is None:
            return False
        return item.character == "3" or (item.host, item.port) == (b"error.host", b"1")


# Replies with a Gopher+ header line: the detection of their format, and the parser for their errors (memo
# 2.3).

_CODE = rb"(?s)([0-9]{1,9})(?:[ \t]+(.*))?\Z"


def read_framed(
    url: GopherUrl, header: GopherPlusHeader, buffer: Buffer
) -> Generator[None, None, ReplyShape]:
    """Detect the format of a reply after its header line.

    The bytes of the reply stay in the buffer.

    Raises:
        Declined: The header announces an error.
        ResolveError: The connection failed before the first byte of the data.
    """
    if header.is_error:
        count = ERROR_LIMIT if header.count is None else min(header.count, ERROR_LIMIT)
        raise parse_refusal(
            (yield from read_first_octets(count, buffer)), url
        )  # The error text may be truncated anywhere.
    count = SIGNATURE_LENGTH if ITEM_TYPES[url.gophertype].sniffed else 0
    if header.count is not None:
        count = min(count, header.count)
    shape = shape_of_framed(url, (yield from read_first_octets(count, buffer)))
    check_begun(buffer)
    return shape


def shape_of_framed(url: GopherUrl, first: bytes = b"") -> ReplyShape:
    """Return the format of a reply with a header line and the data that begin with `first`."""
    command = command_in(url)
    if command.requests_records:
        return RECORDS
    view = kind_of_view(command.view)
    if view is None:
        return shape_by_type(url, first)
    kind, media_type = view
    if media_type == ATTRIBUTES_VIEW:
        return RECORDS
    return ReplyShape(kind, media_type, "items" if kind is Kind.DIRECTORY else None, True)


def parse_refusal(text: bytes, url: GopherUrl) -> Declined:
    """Parse a Gopher+ error into an exception.

    The first line of the text is `code SP anything`; lines of text follow. The text may be truncated at any
    byte. A text without a code becomes an error of an unknown kind.
    """
    lines = [line.removesuffix(b"\r") for line in text.split(b"\n")]
    match = re.match(_CODE, lines[0])
    code, detail = (int(match[1]), match[2] or b"") if match else (None, lines[0])
    words = _words(lines[1:]) or _words([detail])
    message = f"the server declined with code {code}" if code is not None else "the server declined"
    shown = None if code is None else str(code)
    match code:
        case 1:
            return NotFound(f"{message}, item not available: {words!r}", code=shown, text=words)
        case 2:
            return TryLater(f"{message}, try later: {words!r}", code=shown, text=words)
        case 3:
            target = _find_new_url([detail, *lines[1:2]], url)
            return Declined(f"{message}, the item has moved to {target}", code=shown, text=words)
    return Declined(f"{message}: {words!r}", code=shown, text=words)


def _words(lines: list[bytes]) -> str:
    return "\n".join(line_text(line) for line in lines if line not in (b"", b"."))


def _find_new_url(candidates: list[bytes], url: GopherUrl) -> str:
    """Return the new URL of a moved item, from its first line with a URL. The client never follows it."""
    for line in candidates:
        item = parse_item(line)
        if item.port is not None and (target := make_link(item, item.character, url).url) is not None:
            return target
    return "an unknown location"
