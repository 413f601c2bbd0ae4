"""What a telnet session shows on the terminal of a person: line ends, and what may drive it (S15)."""

from __future__ import annotations

from protocols.telnet.newlines import NvtText, printed
from resolver.screen import PlainScreen, RawScreen, Screen


class TerminalOutput:
    """Data of the session in, octets for the terminal out. `plain` is text alone, whose lines end with LF;
    `raw` lets through all that comes."""

    def __init__(self, *, plain: bool = False, raw: bool = False, utf8: bool = True) -> None:
        kind = PlainScreen if plain else RawScreen if raw else Screen
        self._screen = kind(utf8=utf8)
        self._text = NvtText() if plain else None

    def of(self, data: bytes, *, binary: bool) -> bytes:
        """`binary`: the session has no line ends of its own just now."""
        text = printed(data, binary=binary) if self._text is None else self._text.feed(data, binary=binary)
        return self._screen.feed(text)

    @property
    def left(self) -> bytes:
        """What takes back what is still on of it."""
        return self._screen.left
