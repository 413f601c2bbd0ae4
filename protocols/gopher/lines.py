"""Lines of a menu or of an attribute list, as the octets come.

A line ends at LF; one CR before it is dropped (RFC 1436 writes CR LF, servers send both). A line that
is too long must spoil nothing but itself: it comes out cut, and marked.
"""

from __future__ import annotations

from protocols.values import NamedTuple

#: Far above any line a server means; what Limits.line is by default.
LINE_LIMIT = 65_536


class TextLine(NamedTuple):
    """A line without its end. `whole` is False where only its first octets were kept."""

    octets: bytes
    whole: bool = True


class MenuLines:
    """Splits octets into lines; holds one line at most, and no more of it than `limit` octets."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._length = 0

    def feed(self, octets: bytes) -> list[TextLine]:
        *ended, rest = octets.split(b"\n")
        lines = []
        for piece in ended:
            self._keep(piece)
            lines.append(self._end())
        self._keep(rest)
        return lines

    def finish(self) -> list[TextLine]:
        """The octets have ended: the last line, if it has no end of its own."""
        return [self._end()] if self._length else []

    def _keep(self, piece: bytes) -> None:
        room = self._limit + 1 - len(self._kept)  # one more, for the CR
        self._kept += piece[:room]
        self._length += len(piece)

    def _end(self) -> TextLine:
        line = bytes(self._kept)
        whole = self._length == len(line)
        if whole and line.endswith(b"\r"):
            line = line[:-1]
        self._kept.clear()
        self._length = 0
        return TextLine(line[: self._limit], whole and len(line) <= self._limit)
