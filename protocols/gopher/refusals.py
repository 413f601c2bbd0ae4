"""How a Gopher server says no: with a Gopher+ error (memo 2.3), or with a reply that looks like one.

Basic Gopher has no status. What servers send for a missing item is an error line, and it is told from
content by its shape alone; words are not guessed at. Telling needs the start of a reply, and only
while that can still be nothing but an error.
"""

from __future__ import annotations

import re

from protocols.errors import Declined, NotFound, TryLater
from protocols.gopher.item import display_text, line_text, link_of, parse_item
from protocols.gopher.lines import Lines, TextLine
from protocols.gopher.url import GopherUrl

#: What is kept of the words of an error; more would be no message.
ERROR_LIMIT = 8192
#: A reply that is longer than this is no error, whatever its lines look like.
WATCH_LIMIT = 65_536

_CODE = re.compile(rb"([0-9]{1,9})(?:[ \t]+(.*))?\Z", re.DOTALL)
_TERMINATOR_LENGTH = 3
_TERMINATOR = re.compile(rb"(?:\.(?:\r?\n?)?)?")


def parse_refusal(text: bytes, url: GopherUrl) -> Declined:
    """The error that a framed error text speaks of: `code SP anything`, then lines of words. The text
    may have been cut short anywhere; one without a code is an error of no known kind."""
    lines = [line.removesuffix(b"\r") for line in text.split(b"\n")]
    found = _CODE.match(lines[0])
    code, behind = (int(found[1]), found[2] or b"") if found else (None, lines[0])
    words = _words(lines[1:]) or _words([behind])
    what = f"the server declined with code {code}" if code is not None else "the server declined"
    shown = None if code is None else str(code)
    match code:
        case 1:
            return NotFound(f"{what}, item not available: {words!r}", code=shown, text=words)
        case 2:
            return TryLater(f"{what}, try later: {words!r}", code=shown, text=words)
        case 3:
            place = _new_place([behind, *lines[1:2]], url)
            return Declined(f"{what}, the item has moved to {place}", code=shown, text=words)
    return Declined(f"{what}: {words!r}", code=shown, text=words)


def _words(lines: list[bytes]) -> str:
    return "\n".join(line_text(line) for line in lines if line not in (b"", b"."))


def _new_place(candidates: list[bytes], url: GopherUrl) -> str:
    """The URL in the first of the lines that is an item with one. It is told, never followed."""
    for line in candidates:
        item = parse_item(line)
        if item.port is not None and (found := link_of(item, item.character, url).url) is not None:
            return found
    return "a place that it does not name"


class RefusalWatch:
    """Looks at the start of an unframed reply until it is certainly an error or certainly content.

    `is_refusal` is None while it may be either; `refusal` is the error once it is one.
    """

    def __init__(self) -> None:
        self.is_refusal: bool | None = None
        self._seen = 0
        self._words: list[str] = []

    def feed(self, octets: bytes) -> None:
        if self.is_refusal is not None:
            return
        self._seen += len(octets)
        self._look(octets)
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


class MenuWatch(RefusalWatch):
    """A menu is an error if it has an item of type 3 and none but such and prose."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = Lines()

    def _look(self, octets: bytes) -> None:
        self._judge(self._lines.feed(octets))

    def _verdict(self) -> bool:
        self._judge(self._lines.finish())
        return bool(self._words) and self.is_refusal is None

    def _judge(self, lines: list[TextLine]) -> None:
        for line in lines:
            if line.octets[:1] == b"3":
                self._words.append(display_text(parse_item(line.octets).display))
            elif line.octets not in (b"", b".") and line.octets[:1] != b"i":
                self.is_refusal = False


class LineWatch(RefusalWatch):
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
        item = parse_item(bytes(self._line).removesuffix(b"\r"))
        self._words = [display_text(item.display)]
        if item.port is None:
            return False
        return item.character == "3" or (item.host, item.port) == (b"error.host", b"1")
