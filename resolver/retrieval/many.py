"""Many objects saved by one call, as the command does it: named, politely asked for, told of one by one.

Requests are read as they are needed, and an outcome that nobody has asked for yet keeps its place: so of
millions only a few are held. What fails is an outcome and stops no other.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, TypeAlias, cast

from protocols.contract import Finding, Origin, Url
from protocols.errors import Refused, ResolveError
from resolver.batch import Batch, Hosts, Result, Task
from resolver.batch.running import Running
from resolver.disk.names import is_free
from resolver.environment import proxies_here
from resolver.gate import Network
from resolver.ledger import LedgerFault
from resolver.ledger import current as current_row
from resolver.loops import running
from resolver.plan import opens_anything
from resolver.policy import at_once, host_key
from resolver.retrieval.checksum import Checksum
from resolver.retrieval.claims import Claim, Names
from resolver.retrieval.naming import local_directory, local_file_name
from resolver.retrieval.outcome import Outcome, class_name, judge, outcome_of, outcome_of_failure
from resolver.url import UrlLike, redact, url_of

if TYPE_CHECKING:
    from resolver.ledger.book import Asked, Entry, Ledger
    from resolver.retrieval.saving import Exists
    from resolver.retrieval.session import Resolver


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """One of many to be saved. `path` is where to, below the directory of all: without it, the name that the
    command would give. `mirrors`, `checksum`, `size`, `origin` and `referrer` are as for `Resolver.save`.

    Examples:
        >>> request = resolver.SaveRequest("http://127.0.0.1:8920/about.txt", "texts/about", size=37)
        >>> async with resolver.Resolver() as session:
        ...     async for outcome in session.save_all([request], directory="here"):
        ...         print(outcome.path, outcome.verified)
        here/texts/about ('length',)
    """

    url: UrlLike
    path: str | None = None
    mirrors: tuple[UrlLike, ...] = ()
    checksum: str | Checksum | None = None
    size: int | None = None
    origin: Origin = "user"
    referrer: tuple[str, str | None] | None = None


#: What is to be saved, from wherever it comes.
Requests: TypeAlias = "Iterable[UrlLike | SaveRequest] | AsyncIterable[UrlLike | SaveRequest]"


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """What holds for all requests of one call."""

    session: Resolver
    network: Network
    directory: str
    exists: Exists
    digest: bool


class SavingOne:
    """A request as a task of the batch; `entry` is its row in the ledger, if one is kept."""

    entry: Entry | None = None

    def __init__(self, how: How, request: SaveRequest, claim: Claim) -> None:
        self._how = how
        self._request = request
        self._claim = claim
        self.host = self.scheme = ""
        with suppress(ResolveError):  # `run` meets it, too
            url = self._url
            self.host, self.scheme = host_key(url), url.scheme
            if request.path is None and not how.session.policy.allow_server_name:
                self._reserve(url)

    @property
    def _url(self) -> Url:
        return url_of(self._request.url, origin=self._request.origin)

    async def run(self) -> Outcome:
        """Of errors it raises `LedgerFault` alone; and `GiveWay`."""
        if self.entry is not None and self.entry.is_done:
            return self._had(self.entry)
        current_row.set(self.entry)
        began = running().current_time()
        try:
            outcome = await self._save()
        except LedgerFault:
            raise
        except ResolveError as error:
            elapsed = running().current_time() - began
            outcome = outcome_of_failure(error, self._text, elapsed, self._judged(error, self._text))
        if self.entry is not None:
            await _note(self.entry, outcome)
        return outcome

    @property
    def _text(self) -> str:
        url = self._request.url
        return url.text if isinstance(url, Url) else str(url)

    @property
    def asked(self) -> Asked:
        """How a ledger knows it: by its URL without a password, and by its place."""
        from resolver.ledger.book import Asked  # it needs a database

        shown, request = redact(self._text), self._request
        place = request.path or self._claim.first or ""
        return Asked(
            url=shown,
            place=os.path.abspath(os.path.join(self._how.directory, place)),
            given=shown,
            origin=request.origin,
            referrer=request.referrer,
            without_password=shown != self._text,
        )

    def _had(self, entry: Entry) -> Outcome:
        """An earlier run saved it, and its file is there."""
        shown = redact(self._text)
        return Outcome(
            url=shown,
            final_url=shown,
            scheme=self.scheme or None,
            status="skipped",
            path=entry.path,
            bytes=entry.size,
            digest=entry.digest,
        )

    def _judged(self, error: ResolveError, url: str) -> tuple[Finding, ...]:
        network = self._how.network
        return judge(
            error,
            url,
            policy=network.policy,
            origin=self._request.origin,
            referrer=self._request.referrer,
            gateways=network.gateways,
            environment=proxies_here() if network.environment is None else network.environment,
            proxy=network.proxy,
        )

    async def _save(self) -> Outcome:
        how, request, url = self._how, self._request, self._url
        path = os.path.join(how.directory, await self._path(url))
        saved = await how.session.save(
            url,
            path,
            exists=how.exists,
            make_directory=True,
            digest=how.digest,
            checksum=request.checksum,
            size=request.size,
            mirrors=request.mirrors,
            listings=request.path is not None,
            origin=request.origin,
            referrer=request.referrer,
        )
        return outcome_of(saved, url.scheme, saved.path)

    async def _path(self, url: Url) -> str:
        """Where to, below the directory: of the name that was given, that the server chose, or its own."""
        session, request = self._how.session, self._request
        if request.path is not None:
            return request.path
        name = await session.server_name(url, origin=request.origin, referrer=request.referrer)
        suffix = ""
        if name is None:
            suffix = await session.index_suffix(url, origin=request.origin, referrer=request.referrer)
        try:
            return self._reserve(url, name, suffix)
        except Refused:
            if opens_anything(url):
                raise
        return self._reserve(url, f"link-{self._claim.number}")  # refused for what it is, not for its name

    def _reserve(self, url: Url, name: str | None = None, suffix: str = "") -> str:
        where = local_directory(url, host=False, cut=None)
        path = self._claim.take(os.path.join(where, name or local_file_name(url)), url.shown)
        return self._claim.take(path + suffix, url.shown) if suffix else path


async def _note(entry: Entry, outcome: Outcome) -> None:
    """Raises `LedgerFault`."""
    if outcome.error is not None:
        refused = outcome.status == "refused"
        await entry.failed(outcome.error, class_name(outcome.error), refused=refused)
        return
    skipped = outcome.status == "skipped"
    brought = 0 if skipped else max(0, outcome.bytes - outcome.resumed_from)
    await entry.done(outcome.path, outcome.bytes, brought, outcome.attempts, skipped=skipped)


async def _tasks(how: How, requests: Requests, ledger: Ledger | None) -> AsyncIterator[Task[Outcome]]:
    """Each has its name in the order in which they come."""

    def may_have(path: str, url: str) -> bool:
        place = os.path.join(how.directory, path)
        known = ledger is not None and ledger.has(url, os.path.abspath(place))
        return how.exists != "rename" or known or is_free(place, url)

    names, number = Names(may_have), 0
    async with aclosing(_each(requests)) as given:
        async for each in given:
            number += 1
            request = each if isinstance(each, SaveRequest) else SaveRequest(each)
            task = SavingOne(how, request, Claim(names, number))
            if ledger is not None:
                (task.entry,) = await running().in_thread(ledger.admit, [task.asked])
            yield task


async def _each(requests: Requests) -> AsyncGenerator[UrlLike | SaveRequest, None]:
    """What is left in the middle is closed here: nobody else can, as it was begun in another task."""
    if not isinstance(requests, AsyncIterable):
        for each in requests:
            yield each
        return
    async with aclosing(requests) if isinstance(requests, AsyncGenerator) else nullcontext():
        async for each in requests:
            yield each


def _ledger_of(path: str | PathLike[str] | None) -> AbstractAsyncContextManager[Ledger | None]:
    if path is None:
        return nullcontext()
    from resolver.ledger.book import Ledger  # as above

    return Ledger(fspath(path))


async def _save_all(
    how: How,
    requests: Requests,
    ledger: str | PathLike[str] | None,
    batch: Batch[Outcome],
    hand_over: Callable[[Outcome], Awaitable[None]],
) -> None:
    async def take(result: Result[Outcome]) -> None:
        if result.value is None:  # no more can be noted, and so no more is asked for
            assert result.error is not None
            raise result.error
        await hand_over(result.value)

    async with _ledger_of(ledger) as book:
        await batch.run(_tasks(how, requests, book), take)


class SavesMany:
    """The part of a `Resolver` that saves many objects by one call."""

    _network: Network

    def save_all(
        self,
        requests: Requests,
        *,
        directory: str | PathLike[str] | None = None,
        ledger: str | PathLike[str] | None = None,
        concurrency: int = 4,
        per_host: int | None = None,
        host_rate: float | None = None,
        exists: Exists = "fail",
        digest: bool = False,
    ) -> Running[Outcome]:
        """Each object in a file of its own: an async iterator of what became of each, as they end. One that
        fails is an outcome, too, and stops no other.

        `requests` are URLs, or `SaveRequest` for what is to be said of one; any iterable, or an async one. It
        is read only as far as there is room: some 1,000 ahead, and nothing begins while `concurrency`
        outcomes wait to be asked for. Files go below `directory`, under the names that the command gives, of
        which no two are the same. `per_host` is how many one host has under way (2, http 6), `host_rate` how
        many begin there a second; a host that pushes back gets fewer. `exists` and `digest` are as for
        `save`.

        `ledger` is a file in which account is kept, as with `--ledger`: what it says is done, and is still
        there, is `skipped` by another call, whatever ended this one. Its faults (`LocalError`) end the
        iteration.

        What is under way when `aclose` is called, or the `Resolver` is left, is cancelled; what has come of
        it stays, and another call goes on with that. Only for one that was entered: else `RuntimeError`.

        Examples:
            >>> urls = ["ftp://127.0.0.1:8900/pub/a.txt", "http://127.0.0.1:8920/about.txt"]
            >>> async with resolver.Resolver() as session:
            ...     async for outcome in session.save_all(urls, directory="many", concurrency=1):
            ...         print(outcome.status, outcome.path, outcome.bytes)
            done many/a.txt 29
            done many/about.txt 37
        """
        if concurrency < 1 or (per_host is not None and per_host < 1):
            raise ValueError("concurrency and per_host are 1 or more")
        if host_rate is not None and not 0 < host_rate < float("inf"):
            raise ValueError("host_rate is above 0")
        session = cast("Resolver", self)
        how = How(
            session=session,
            network=self._network,
            directory="" if directory is None else fspath(directory),
            exists=exists,
            digest=digest,
        )

        hosts: Hosts[Task[Outcome]] = Hosts(partial(at_once, wanted=per_host), rate=host_rate)
        batch: Batch[Outcome] = Batch(hosts, concurrency=concurrency)
        return self._network.hold(Running(partial(_save_all, how, requests, ledger, batch)))
