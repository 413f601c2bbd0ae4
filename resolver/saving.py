"""An object into a file of its own name: complete, checked, or not there at all.

What to do about a file that is there already is settled before anything is sent, as far as the name
alone can settle it. Then `tries` brings the octets into NAME.part, `proof` checks them, and the sink
gives the file its name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from typing import Literal, TypeAlias

from protocols.contract import Finding, Kind
from protocols.contract import Sink as AnySink
from protocols.errors import ChecksumMismatch, ResolveError
from resolver.checksum import Checksum
from resolver.clock import Clock
from resolver.gate import Door
from resolver.gate.names import free_name, is_there, modified_time, size_of
from resolver.gate.sink import Sink
from resolver.hops import Request
from resolver.keep import Keep, Memory
from resolver.live import LiveReply
from resolver.proof import Proof
from resolver.response import Saved
from resolver.retrieval import Retrieval
from resolver.tries import Carrier, Fill, Patience, refuse_pointer

#: What to do about a file that has the name already.
Exists: TypeAlias = Literal["fail", "resume", "skip", "newer", "replace", "rename"]

#: File systems and protocols round times to the second, FAT to two.
_CLOCKS_DIFFER = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be saved, and how. `requests` are the places to get it: the first, then its mirrors."""

    requests: Sequence[Request]
    path: str
    exists: Exists = "fail"
    make_directory: bool = False
    digest: bool = False
    checksum: Checksum | None = None


class Saver:
    """One order under way."""

    def __init__(self, door: Door, order: Order, patience: Patience, most: int | None) -> None:
        self._door = door
        self._order = order
        self._patience = patience
        self._most = most
        self._clock = Clock(door.limits.total)
        self._path = order.path
        self._findings: list[Finding] = []
        self._attempts = 0
        self._resumed_from = 0

    async def run(self) -> Saved:
        """Raises any `ResolveError`; then there is nothing under the final name that was not there before,
        and what arrived is kept if another run can go on with it."""
        if await self._stays():
            return self._left_alone()
        exists = self._order.exists
        async with Sink(
            self._path,
            exists="replace" if exists in ("replace", "newer") else "fail",
            source=self._first.url.shown,
            adopt=exists == "resume",
            make_directory=self._order.make_directory,
        ) as sink:
            return self._left_alone() if sink.finished else await self._fetch(sink)

    @property
    def _first(self) -> Request:
        return self._order.requests[0]

    async def _stays(self) -> bool:
        """Does the file that is there stay as it is? Chooses another name where that was asked for."""
        match self._order.exists:
            case "skip":
                return is_there(self._path)
            case "newer":
                return is_there(self._path) and not await self._is_newer()
            case "rename":
                self._path = free_name(self._path, self._first.url.shown)
        return False

    async def _is_newer(self) -> bool:
        """Is the peer's object later than the file? Where that is unknown, it is fetched."""
        asked = replace(self._first, options=replace(self._first.options, want="facts"))
        carrier = self._carrier((asked,), Memory(), leave)
        modified = (await carrier.carry(self._clock)).modified
        if modified is None:
            return True
        held = modified_time(self._path)
        return modified.replace(tzinfo=modified.tzinfo or UTC) > held + _CLOCKS_DIFFER

    async def _fetch(self, sink: Sink) -> Saved:
        if sink.displaced is not None:
            self._tell("save:restarted", f"what was there was begun for {sink.displaced}: started over")
        proof = Proof(self._door, self._order.checksum, self._clock, self._patience)
        reply, verified = await self._bring(sink, proof)
        digest = await sink.digest("sha256") if self._order.digest else None
        size = sink.position
        await sink.commit(reply.modified)
        return Saved(
            url=reply.url,
            requested_url=self._first.url.shown,
            path=self._path,
            bytes=size,
            resumed_from=self._resumed_from,
            kind=reply.kind,
            media_type=reply.media_type,
            modified=reply.modified,
            digest=None if digest is None else f"sha256:{digest}",
            findings=(*reply.findings, *self._findings, *proof.findings),
            verified=tuple(sorted(verified)),
            attempts=self._attempts,
            elapsed=self._clock.elapsed,
            peer=reply.peer,
            chain=reply.chain,
        )

    async def _bring(self, sink: Sink, proof: Proof) -> tuple[LiveReply, set[str]]:
        """The whole of it, with the right digest. Whatever has a wrong one is asked for once more, from the
        beginning."""
        reply = await self._carry(sink)
        try:
            return reply, {*reply.verified, *await proof.check(sink, reply)}
        except ChecksumMismatch as error:
            self._tell("save:mismatch", f"{error.message}: asked for once more")
            sink.restart()
        reply = await self._carry(sink)
        try:
            return reply, {*reply.verified, *await proof.check(sink, reply)}
        except ChecksumMismatch as error:
            error.attempts = self._attempts
            sink.discard()
            raise

    async def _carry(self, sink: Sink) -> LiveReply:
        carrier = self._carrier(self._order.requests, sink, lambda reply: fill(reply, sink))
        try:
            return await carrier.carry(self._clock)
        except ResolveError as error:
            error.attempts += self._attempts
            raise
        finally:
            self._attempts += carrier.attempts
            self._resumed_from = carrier.resumed_from
            self._findings += carrier.findings

    def _carrier(self, requests: Sequence[Request], keep: Keep, fill: Fill) -> Carrier:
        checksum = self._order.checksum
        return Carrier(
            self._retrieval,
            requests,
            keep,
            fill,
            self._patience,
            self._door.on_event,
            proved=checksum is not None and checksum.algorithm != "auto",
        )

    def _tell(self, rule: str, detail: str) -> None:
        self._findings.append(Finding(rule, "warn", detail))

    def _retrieval(self, request: Request, clock: Clock, attempt: int) -> Retrieval:
        return Retrieval(self._door, request, most=self._most, clock=clock, attempt=attempt)

    def _left_alone(self) -> Saved:
        """The file that is there is the answer."""
        return Saved(
            url=self._first.url.shown,
            requested_url=self._first.url.shown,
            path=self._path,
            bytes=size_of(self._path),
            resumed_from=0,
            kind=Kind.DOCUMENT,
            media_type=None,
            modified=None,
            digest=None,
            findings=(),
            verified=(),
            attempts=0,
            elapsed=self._clock.elapsed,
            peer=None,
            skipped=True,
        )


def octets_to_keep(reply: LiveReply) -> AsyncIterator[bytes]:
    """What a file or standard output gets: the lines of a listing, else the body as it is."""
    return reply.lines() if reply.lists else reply.body


async def leave(reply: LiveReply) -> None:
    """Only the facts are wanted."""


async def fill(reply: LiveReply, sink: AnySink) -> None:
    """Everything that is left into the file, in bulk where the octets are taken as they are."""
    refuse_pointer(reply)
    if not reply.lists:
        await reply.body.drain(sink)
        return
    async for octets in octets_to_keep(reply):
        sink.write(octets)
