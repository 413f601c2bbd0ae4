"""The block of a record as it comes: its digests, and of an answer of http what its head promises.

The payload of a message of http is its body without transfer coding, yet most tools hash its chunks with all
that is around them: a digest of either is right.
"""

from __future__ import annotations

import re

import h11

from protocols.values import NamedTuple
from resolver.warc.digests import ComputedDigest, Verdict
from resolver.warc.head import RecordHead

#: Octets of the head of an answer (S16).
_MOST_HEAD = 262_144

_HEAD_ENDS = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/[0-9]\.[0-9] ([0-9]{3})(?:[ \r\n]|\Z)")
_LENGTH = re.compile(rb"\r?\ncontent-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*(?=\r?\n|\Z)", re.IGNORECASE)
_CODED = re.compile(rb"\r?\ntransfer-encoding[ \t]*:", re.IGNORECASE)
#: Answers that have no body, whatever length they say.
_BODILESS = frozenset({204, 304})


class BlockFacts(NamedTuple):
    """What was found. `status` is http's; `promised` are the octets of a body that its head promises and
    `present` those that are there; `is_cut`: chunks without the last one."""

    block: Verdict
    payload: Verdict
    status: int | None
    promised: int | None
    present: int
    is_cut: bool

    @property
    def is_short(self) -> bool:
        """Is there less of it than its head promises?"""
        return self.is_cut or (self.promised is not None and self.present < self.promised)


class HttpHead:
    """What stands before the body of a message of http: `octets` when all of it came, empty where there is no
    head."""

    def __init__(self) -> None:
        self.octets: bytes | None = None
        self._held = bytearray()

    def take(self, octets: bytes) -> bytes:
        """What of them is body."""
        if self.octets is not None:
            return octets
        looked_at = max(0, len(self._held) - 3)
        self._held += octets
        end = _HEAD_ENDS.search(self._held, looked_at)
        if end is None and len(self._held) <= _MOST_HEAD:
            return b""
        return self._ended(0 if end is None else end.end())

    def end(self) -> bytes:
        """No more comes: what was held for a head and is body."""
        return b"" if self.octets is not None else self._ended(0)

    @property
    def status(self) -> int | None:
        found = _STATUS.match(self.octets or b"")
        return None if found is None else int(found[1])

    def _ended(self, at: int) -> bytes:
        held, self._held = bytes(self._held), bytearray()
        self.octets = held[:at]
        return held[at:]


class BlockInspection:
    """Of one record; `facts` when all of its block was taken."""

    def __init__(self, head: RecordHead) -> None:
        self.head = head
        self._block = ComputedDigest(head.first("WARC-Block-Digest"))
        self._claim = head.first("WARC-Payload-Digest")
        self._payload = ComputedDigest(self._claim)
        self._decoded: _DecodedBody | None = None
        self._http = HttpHead() if head.media_type == "application/http" else None
        self._status: int | None = None
        self._promised: int | None = None
        self._present = 0

    def take(self, octets: bytes) -> None:
        self._block.take(octets)
        if self._http is not None and self._http.octets is None:
            octets = self._http.take(octets)
            self._read_head(self._http)
        self._take_body(octets)

    def facts(self) -> BlockFacts:
        if self._http is not None:
            self._take_body(self._http.end())
        payload = self._payload.verdict()
        if payload == "mismatch" and self._decoded is not None and self._decoded.verdict() == "verified":
            payload = "verified"
        is_whole_here = self.head.type == "response" and self._status not in _BODILESS
        return BlockFacts(
            block=self._block.verdict(),
            payload="absent" if self.head.type == "revisit" and payload != "unknown" else payload,
            status=self._status,
            promised=self._promised if is_whole_here else None,
            present=self._present,
            is_cut=is_whole_here and self._decoded is not None and not self._decoded.is_whole(),
        )

    def _take_body(self, octets: bytes) -> None:
        if octets:
            self._present += len(octets)
            self._payload.take(octets)
            if self._decoded is not None:
                self._decoded.take(octets)

    def _read_head(self, head: HttpHead) -> None:
        if not head.octets or head.status is None:
            return
        self._status = head.status
        if _CODED.search(head.octets):
            self._decoded = _DecodedBody(head.octets, self._claim)
        elif (length := _LENGTH.search(head.octets)) is not None:
            self._promised = int(length[1])


class _DecodedBody:
    """A body in chunks, without them."""

    def __init__(self, head: bytes, claim: str | None) -> None:
        self._digest = ComputedDigest(claim)
        self._machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD)
        self._machine.send(h11.Request(method="GET", target="/", headers=[("Host", "archive.invalid")]))
        self._machine.send(h11.EndOfMessage())
        self._is_over = self._is_whole = False
        self.take(head)

    def take(self, octets: bytes) -> None:
        """What h11 does not take is not decoded, and so not compared."""
        if self._is_over:
            return
        try:
            self._machine.receive_data(octets)
            while isinstance(
                event := self._machine.next_event(), h11.Data | h11.Response | h11.InformationalResponse
            ):
                if isinstance(event, h11.Data):
                    self._digest.take(bytes(event.data))
        except h11.RemoteProtocolError:
            self._is_over = True
            return
        if isinstance(event, h11.EndOfMessage):
            self._is_over = self._is_whole = True

    def is_whole(self) -> bool:
        return self._is_whole

    def verdict(self) -> Verdict:
        return self._digest.verdict() if self._is_whole else "unknown"
