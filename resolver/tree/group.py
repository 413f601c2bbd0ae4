"""The articles of a news group as messages of one mailbox: all that it has and the mailbox has not, in the
order of their numbers. What is gone by the time it is asked for is counted, and nothing else is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from protocols.contract import Entry, Finding, Kind, Origin, Url
from protocols.errors import Declined, NotFound, ResolveError
from protocols.location import HostUrl
from resolver.clock import Clock
from resolver.disk.mailbox import Mailbox
from resolver.loops import running
from resolver.retrieval.naming import last_part
from resolver.retrieval.response import Response, Saved
from resolver.retrieval.session import Resolver

#: Articles that are asked for before the first of them is there.
_AHEAD = 16


def source_of(url: Url) -> str:
    """Whose numbers the articles have: those of the group at its server."""
    place = url.scheme
    if isinstance(url, HostUrl):
        place = url.host.lower() + ("" if url.port in (None, url.default_port) else f":{url.port}")
    return f"{last_part(url).decode('ascii', 'replace')}@{place}"


class GroupMailbox:
    """One group on its way into a mailbox at `path`. The `session` gives all entries of a listing."""

    def __init__(
        self,
        session: Resolver,
        url: Url,
        box: Mailbox,
        path: str,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> None:
        self._session = session
        self._url = url
        self._box = box
        self._path = path
        self._origin = origin
        self._referrer = referrer
        self._gone = 0
        self._loop = running()

    async def run(self) -> Saved:
        """Raises `ResolveError`; the articles before the one that failed are there."""
        clock = Clock(None)
        await self._loop.in_thread(self._box.open)
        try:
            before = self._box.size
            wanted = await self._missing()
            for start in range(0, len(wanted), _AHEAD):
                await self._take(wanted[start : start + _AHEAD])
        finally:
            await self._loop.in_thread(self._box.close)
        detail = f"{self._gone} articles are listed and not there any more"
        return Saved(
            url=self._url.shown,
            requested_url=self._url.shown,
            path=self._path,
            bytes=self._box.size,
            resumed_from=before,
            kind=Kind.GROUP,
            digest=None,
            findings=(Finding(f"{self._url.scheme}:article-gone", "warn", detail),) if self._gone else (),
            verified=("terminator",),
            attempts=1,
            elapsed=clock.elapsed,
            skipped=not wanted,
        )

    async def _missing(self) -> list[Entry]:
        """What the group has and the mailbox has not."""
        held, found = self._box.numbers, []
        listing = self._session.listing(self._url, origin=self._origin, referrer=self._referrer)
        async with listing as reply:
            if reply.kind is not Kind.GROUP:
                raise Declined(f"this is a {reply.kind.value} and no group", url=reply.url)
            async for entry in reply.entries():
                if entry.url is not None and entry.name.isdigit() and int(entry.name) not in held:
                    found.append(entry)
        return sorted(found, key=lambda entry: int(entry.name))

    async def _take(self, entries: Sequence[Entry]) -> None:
        """Some articles, in their order. Raises what kept the first one that failed from coming."""
        came: list[Response | ResolveError | None] = [None] * len(entries)
        async with self._loop.open_nursery() as nursery:
            for at, entry in enumerate(entries):
                nursery.start_soon(partial(self._fetch, entry, came, at))
        for entry, found in zip(entries, came, strict=True):
            if isinstance(found, NotFound):
                self._gone += 1
            elif isinstance(found, ResolveError):
                raise found
            elif found is not None:
                moment = found.modified or found.retrieved
                await self._loop.in_thread(self._box.add, int(entry.name), moment, found.content)

    async def _fetch(self, entry: Entry, came: list[Response | ResolveError | None], at: int) -> None:
        assert entry.url is not None
        try:
            came[at] = await self._session.fetch(entry.url, origin=entry.origin, referrer=entry.referrer)
        except ResolveError as error:
            came[at] = error
