"""A server of one group, or of the list of all, as the answers to some commands were kept."""

from __future__ import annotations

from collections.abc import Iterator

from protocols.errors import LimitExceeded
from protocols.replay import ArchivedObject
from protocols.wire import encode_line

#: Codes behind which a block follows; 211 where it answers LISTGROUP alone (RFC 3977 6.1.2).
_WITH_BLOCK = frozenset({b"215", b"220", b"221", b"222", b"224", b"225", b"230", b"231"})
#: Octets of one line: of an article they may be many.
_MOST_LINE = 1_048_576


class NewsReplayServer:
    """See `protocols.replay.ReplayPeer`."""

    def __init__(self, kept: ArchivedObject) -> None:
        self._commands = frozenset(kept.commands)
        self._lines = _lines(kept.block())

    @property
    def greeting(self) -> bytes:
        return encode_line(b"200", b"archive").octets

    def answer(self, line: bytes) -> Iterator[bytes | None]:
        words = line.decode("latin-1").upper().split()
        verb = "_".join(words[:2] if words[:1] == ["LIST"] else words[:1])
        if verb not in self._commands:
            yield encode_line(b"500", b"not in the archive").octets
            return
        status = next(self._lines, b"")
        yield status
        code = status[:3]
        if code in _WITH_BLOCK or (code == b"211" and verb == "LISTGROUP"):
            for each in self._lines:
                yield each
                if each.startswith(b".") and not each.startswith(b".."):
                    return


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """With their ends; the last may have none."""
    held = b""
    for piece in pieces:
        *whole, held = (held + piece).split(b"\n")
        for each in whole:
            yield each + b"\n"
        if len(held) > _MOST_LINE:
            raise LimitExceeded("line", f"a line of the archive is longer than {_MOST_LINE} octets")
    if held:
        yield held
