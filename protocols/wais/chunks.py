"""The body of a document: its ranges, each handed out before the next is asked for.

Nothing proves that a document is whole but the server's own word that there is no more, `terminator`. The
length that a search gives is that of the first type, and no proof of anything.
"""

from __future__ import annotations

from protocols.body import pour
from protocols.contract import Finding, Sink
from protocols.conversation import Conversation
from protocols.errors import Disconnected, Truncated
from protocols.wais.retrieval import Chunk, Ending


class ChunkBody:
    """Iterates or drains the chunks of a conversation that is at `first`, or not yet at any (None).

    `findings` and `verified` get what the end was told by. When the connection ends after the first octet:
    `Truncated`.
    """

    def __init__(
        self,
        conversation: Conversation[None],
        first: Chunk | None,
        findings: list[Finding],
        verified: set[str],
    ) -> None:
        self._conversation = conversation
        self._chunk = first
        self._findings = findings
        self._verified = verified
        self._ended = False
        self.received = 0

    def __aiter__(self) -> ChunkBody:
        return self

    async def __anext__(self) -> bytes:
        while not self._ended:
            octets = self._take(await self._next())
            if octets:
                self.received += len(octets)
                return octets
        raise StopAsyncIteration

    async def drain(self, sink: Sink) -> int:
        return await pour(self, sink)

    async def _next(self) -> Chunk:
        chunk, self._chunk = self._chunk, None
        if chunk is not None:
            return chunk
        try:
            handed = await self._conversation.resume(None)
        except Disconnected as error:
            if self.received == 0:
                raise
            raise Truncated(
                f"after {self.received} octets of the document: {error.message}", received=self.received
            ) from error
        assert isinstance(handed, Chunk)
        return handed

    def _take(self, chunk: Chunk) -> bytes:
        if chunk.ending is not None:
            self._ended = True
            self._tell(chunk.ending)
        return chunk.octets

    def _tell(self, ending: Ending) -> None:
        if ending is Ending.TOLD:
            self._verified.add("terminator")
        else:
            detail = f"{ending.value}; whether the document is whole is not known"
            self._findings.append(Finding("wais:end-not-told", "warn", detail))
