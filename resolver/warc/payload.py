"""The payload of a record, as its block comes: of an answer of http its body without transfer coding, of
everything else the block (WARC 1.1, 2)."""

from __future__ import annotations

from resolver.warc.head import RecordHead
from resolver.warc.message import MOST_HEAD, AnswerSpan, ChunkDecoder, find_answer


class Payload:
    """`answer` is what stands before the body, where it is an answer of http and its head has come."""

    def __init__(self, head: RecordHead) -> None:
        self.answer: AnswerSpan | None = None
        self._has_head = head.media_type == "application/http"
        self._held = bytearray()
        self._unchunked: ChunkDecoder | None = None

    def take(self, octets: bytes) -> bytes:
        """What of the payload these make; nothing of what has no head that we could read."""
        if self._has_head and self.answer is None:
            if len(self._held) > MOST_HEAD:
                return b""
            self._held += octets
            self.answer = find_answer(bytes(self._held))
            if self.answer is None:
                return b""
            octets = bytes(self._held[self.answer.interim + len(self.answer.head) :])
            self._held.clear()
            self._unchunked = ChunkDecoder(self.answer.head) if self.answer.coded else None
        return octets if self._unchunked is None else self._unchunked.take(octets)

    @property
    def is_whole(self) -> bool:
        """Has all of it come, as far as that can be told of chunks?"""
        return self._unchunked is None or self._unchunked.is_whole
