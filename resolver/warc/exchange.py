"""One request and its answer in http, as they were on the wire: two records."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from hashlib import sha1, sha256

from protocols.location import JsonValue
from protocols.values import NamedTuple
from resolver.warc.answers import first_octets
from resolver.warc.group import CapturedObject
from resolver.warc.keeper import SpooledBytes
from resolver.warc.message import MOST_HEAD, AnswerSpan, ChunkDecoder, find_answer, mask_answer, masked_fields
from resolver.warc.writing import RecordBlock, digest_text

_REQUEST = re.compile(rb"[A-Z]+ [^\r\n]* HTTP/1\.[01]\r\n")
RESPONSE = "application/http;msgtype=response"


def is_request(octets: bytes) -> bool:
    """Does one begin with these octets, other than one for a tunnel?"""
    return _REQUEST.match(octets) is not None and not octets.startswith(b"CONNECT ")


class HttpCaptureFacts(NamedTuple):
    """What an exchange comes to. `said` are octets that are in no record; `body` the members of its event."""

    object: CapturedObject | None
    request: RecordBlock | None
    is_head: bool
    is_whole: bool
    version: str | None
    said: list[tuple[str, bytes]]
    body: dict[str, JsonValue]
    masked: list[str]
    expected: int | None


class HttpCapture:
    """What was asked on a connection; what came is in `came`."""

    def __init__(self, way: Hashable, spool: Callable[[], SpooledBytes], came: SpooledBytes) -> None:
        self.way = way
        self.asked = spool()
        self._came = came

    def close(self) -> None:
        self.asked.close()

    def finished(
        self, hide: Callable[[bytes], bytes], *, is_whole: bool, keeps_cookies: bool
    ) -> HttpCaptureFacts:
        """The records; `is_whole` says of an answer that does not tell its length that all of it came, and
        `keeps_cookies` that those that it sets are not masked."""
        request = self.asked.first(MOST_HEAD)
        is_head = request.startswith(b"HEAD ")
        masked = [f"request:{name}" for name in masked_fields(request)]
        came = self._came.first(MOST_HEAD)
        answer = find_answer(came)

        def mask(octets: bytes) -> tuple[bytes, list[str]]:
            return mask_answer(octets, asked_secretly=bool(masked), keeps_cookies=keeps_cookies, hide=hide)

        said: list[tuple[str, bytes]] = []
        if answer is None:
            octets, names = mask(came)
            masked += [f"response:{name}" for name in names]
            said = [("send", request), *([("receive", octets)] if octets else [])]
            return HttpCaptureFacts(None, None, is_head, False, None, said, {}, masked, None)
        interim, early_names = mask(came[: answer.interim])
        head, names = mask(answer.head)
        masked += [f"response:{name}" for name in dict.fromkeys(early_names + names)]
        if answer.interim:
            said.append(("receive", interim))
        if is_head:
            said = [("send", request), *said, ("receive", head)]
            return HttpCaptureFacts(None, None, True, True, answer.version, said, {}, masked, None)
        coded, length = answer.coded, answer.length
        kept, whole, expected = self._object(answer, head, is_whole=is_whole)
        kept = kept._replace(is_found=request.startswith(b"GET "))
        body: dict[str, JsonValue] = {
            "count": kept.block.size - len(head),
            "block": [len(head), kept.block.size],
            "framing": "chunks" if coded else "none" if length is None else "length",
            "ended": "reset" if not whole else "terminator" if coded else "length",
        }
        if whole and not coded and length is None:
            body["ended"] = "close"
        asked = RecordBlock(self.asked.size, self.asked.pieces)
        return HttpCaptureFacts(kept, asked, False, whole, answer.version, said, body, masked, expected)

    def _object(
        self, answer: AnswerSpan, head: bytes, *, is_whole: bool
    ) -> tuple[CapturedObject, bool, int | None]:
        begin = answer.interim + len(answer.head)
        size = self._came.size - begin
        length, unchunked = answer.length, ChunkDecoder(answer.head) if answer.coded else None
        if length is not None:
            size = min(size, length)  # what comes behind its end is none of it
        raw, payload, octets = sha1(usedforsecurity=False), sha256(), 0
        for piece in first_octets(self._came.pieces(begin), size):
            made = piece if unchunked is None else unchunked.take(piece)
            raw.update(made)
            payload.update(made)
            octets += len(made)
        whole = is_whole if length is None else size >= length
        if unchunked is not None:
            whole = unchunked.is_whole

        digest = digest_text(raw.digest())

        def pieces() -> Iterator[bytes]:
            yield head
            yield from first_octets(self._came.pieces(begin), size)

        kept = CapturedObject(
            type="response",
            content_type=RESPONSE,
            block=RecordBlock(len(head) + size, pieces),
            head=head,
            payload_digest=None if unchunked is not None else digest,
            digest=digest,
            sha256=payload.hexdigest(),
            size=octets,
            truncated=None,
            status=answer.status,
            media_type=AnswerSpan(0, head).media_type,
        )
        return kept, whole, None if whole else length
