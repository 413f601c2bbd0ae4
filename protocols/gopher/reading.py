"""What a reply is read as: decided by the view asked for if the server honoured Gopher+, else by the type of
the item; or that it is an error.

Nothing is taken of it for that: the octets are looked at where they are, and no more of them is waited for
than may tell.

A Gopher server says no with a Gopher+ error (memo 2.3), or with a reply that looks like one: basic Gopher has
no status. What servers send for a missing item is an error line, and it is told from content by its shape
alone; words are not guessed at. Telling needs the start of a reply, and only while that can still be nothing
but an error.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TYPE_CHECKING

from protocols.errors import Disconnected, NotFound
from protocols.gopher.answer import RECORDS, GopherListing, ReplyShape
from protocols.gopher.item_types import SIGNATURE_LENGTH, ReplyReading, find_type, media_type_of
from protocols.gopher.request import RequestedView, parse_command
from protocols.gopher.url import GopherUrl
from protocols.location import Kind
from protocols.wire import Buffer

if TYPE_CHECKING:
    from protocols.gopher.lines import TextLine

#: As many octets as tell attribute records from anything else.
RECORD_MARK_LENGTH = 6

_RECORD_MARK = re.compile(rb"\+INFO[: ]")


#: What is kept of the words of an error; more would be no message.
ERROR_LIMIT = 8192
#: A reply that is longer than this is no error, whatever its lines look like.
WATCH_LIMIT = 8_192
#: Octets whose lines are split before the first of them is judged.
_LOOKED_AT_ONCE = 1_024

_TERMINATOR_LENGTH = 3
_TERMINATOR = re.compile(rb"(?:\.(?:\r?\n?)?)?")


def read_unframed(url: GopherUrl, buffer: Buffer) -> Generator[None, None, ReplyShape]:
    """A reader for what a reply without a header line is; it takes nothing. Raises `Declined` where it is an
    error, and what broke the connection where that was before its first octet."""
    item_type = find_type(url.gophertype)
    wanted = SIGNATURE_LENGTH if item_type.sniffed else RECORD_MARK_LENGTH if url.gopherplus else 0
    first = (yield from first_octets(wanted, buffer)) if wanted else b""
    detector = MenuDetector() if item_type.reading is ReplyReading.MENU else LineDetector()
    yield from _show(detector, buffer)
    if detector.is_refusal:
        raise detector.refusal
    check_begun(buffer)
    return shape_of_unframed(url, first)


def first_octets(count: int, buffer: Buffer) -> Generator[None, None, bytes]:
    """The first `count` octets, fewer only if no more come."""
    while len(buffer) < count and not buffer.is_all:
        yield
    return buffer.peek(count)


def _show(detector: ErrorDetector, buffer: Buffer) -> Generator[None, None, None]:
    """Let `detector` see the reply until it has made up its mind, or no more comes."""
    seen = 0
    while detector.is_refusal is None:
        if (came := len(buffer)) > seen:
            detector.feed(buffer.tail(came - seen))
            seen = came
        elif buffer.is_all:
            break
        else:
            yield
    if detector.is_refusal is None and _is_whole(buffer):
        detector.finish()


def _is_whole(buffer: Buffer) -> bool:
    """Is this all of the reply, as far as can be known: to the end of the connection, or to a final period
    behind which the connection was reset?"""
    if isinstance(buffer.broken, Disconnected):
        from protocols.gopher.periods import TAIL_LENGTH, closing_period  # a connection seldom breaks so soon

        return closing_period(buffer.tail(TAIL_LENGTH)) != b""
    return buffer.at_end


def check_begun(buffer: Buffer) -> None:
    if buffer.broken is not None and not buffer:
        raise buffer.broken


def shape_of_unframed(url: GopherUrl, first: bytes) -> ReplyShape:
    """The shape of a reply without a header. Minnesota's answers to a search in Gopher+ are attribute
    records without one."""
    shape = shape_by_type(url, first)
    if not url.gopherplus:
        return shape
    command = parse_command(url.gopherplus)
    expected = command.requests_records or (
        command.requested is not RequestedView.PLAIN and shape.listing is not None
    )
    return RECORDS if expected and _RECORD_MARK.match(first) else shape


def shape_by_type(url: GopherUrl, first: bytes) -> ReplyShape:
    """The shape that the item type alone gives."""
    item_type = find_type(url.gophertype)
    media_type = media_type_of(item_type, first)
    if item_type.reading is not ReplyReading.MENU:
        return ReplyShape(Kind.DOCUMENT, media_type, None, item_type.reading is ReplyReading.TEXT)
    is_incomplete = item_type.kind is Kind.SEARCH and not url.search
    return ReplyShape(Kind.SEARCH if is_incomplete else Kind.DIRECTORY, media_type, GopherListing.ITEMS, True)


class ErrorDetector:
    """Looks at the start of an unframed reply until it is certainly an error or certainly content.

    `is_refusal` is None while it may be either; `refusal` is the error once it is one.
    """

    def __init__(self) -> None:
        self.is_refusal: bool | None = None
        self._seen = 0
        self._words: list[str] = []

    def feed(self, octets: bytes) -> None:
        for start in range(0, len(octets), _LOOKED_AT_ONCE):
            if self.is_refusal is not None:
                return
            piece = octets[start : start + _LOOKED_AT_ONCE]
            self._seen += len(piece)
            self._look(piece)
            if self.is_refusal is None and self._seen > WATCH_LIMIT:
                self.is_refusal = False

    def finish(self) -> None:
        """The reply has ended."""
        if self.is_refusal is None:
            self.is_refusal = self._verdict()

    @property
    def refusal(self) -> NotFound:
        assert self.is_refusal
        words = "\n".join(self._words)[:ERROR_LIMIT]
        return NotFound(f"the server answered with an error line: {words!r}", text=words)

    def _look(self, octets: bytes) -> None:
        raise NotImplementedError

    def _verdict(self) -> bool:
        raise NotImplementedError


class MenuDetector(ErrorDetector):
    """A menu is an error if it has an item of type 3 and none but such and prose."""

    def __init__(self) -> None:
        from protocols.gopher.lines import MenuLines  # a document has none

        super().__init__()
        self._lines = MenuLines()

    def _look(self, octets: bytes) -> None:
        self._judge(self._lines.feed(octets))

    def _verdict(self) -> bool:
        self._judge(self._lines.finish())
        return bool(self._words) and self.is_refusal is None

    def _judge(self, lines: list[TextLine]) -> None:
        from protocols.gopher.item import display_text, parse_item  # nor items

        for line in lines:
            if line.octets[:1] == b"3":
                self._words.append(display_text(parse_item(line.octets).display))
            elif line.octets not in (b"", b".") and line.octets[:1] != b"i":
                self.is_refusal = False


class LineDetector(ErrorDetector):
    """Any other reply is an error if it is a single menu line, of type 3, or of type 0 with the place
    that Minnesota servers put into theirs. A lone period may follow it."""

    def __init__(self) -> None:
        super().__init__()
        self._line = bytearray()
        self._behind: bytearray | None = None

    def _look(self, octets: bytes) -> None:
        if self._behind is None:
            line, end, octets = octets.partition(b"\n")
            self._line += line
            if not self._line.startswith((b"3", b"0")) and self._line:
                self.is_refusal = False
            if not end or self.is_refusal is False:
                return
            self._behind = bytearray()
            if not self._is_error_line():
                self.is_refusal = False
        self._behind += octets[: _TERMINATOR_LENGTH + 1]
        if not _TERMINATOR.fullmatch(self._behind):
            self.is_refusal = False

    def _verdict(self) -> bool:
        return self._is_error_line()

    def _is_error_line(self) -> bool:
        from protocols.gopher.item import display_text, parse_item  # few documents begin with such a digit

        item = parse_item(bytes(self._line).removesuffix(b"\r"))
        self._words = [display_text(item.display)]
        if item.port is None:
            return False
        return item.character == "3" or (item.host, item.port) == (b"error.host", b"1")
