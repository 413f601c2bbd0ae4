"""Many objects saved by one call, as the command does it: named, scheduled politely, reported one by one.

Requests are read as they are needed, and an outcome that was not requested yet keeps its place: so of
millions only a few are held. A failure is an outcome and stops no other request.
"""

from __future__ import annotations

import os
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Hashable,
    Iterable,
)
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from os import PathLike, fspath
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from protocols.contract import Finding, Origin, Url
from protocols.errors import LocalError, Refused, ResolveError
from resolver.files.names import is_free
from resolver.ledger import LedgerFault
from resolver.ledger import current as current_row
from resolver.loops import running
from resolver.policy.environment import proxies_here
from resolver.policy.schemes import at_once
from resolver.policy.subject import host_key
from resolver.transfer.batch import Batch, BatchTask, TaskResult
from resolver.transfer.naming import NameReservation, NameReservations, local_directory, local_file_name
from resolver.transfer.network import Network
from resolver.transfer.plan import opens_anything
from resolver.transfer.queue import HostScheduler
from resolver.transfer.response import Outcome, Saved, class_name, judge, outcome_of, outcome_of_failure
from resolver.url.parsing import UrlLike, redact, url_of

if TYPE_CHECKING:
    from resolver.ledger.book import Ledger, LedgerEntry, RequestRow
    from resolver.transfer.saving import Exists
    from resolver.transfer.verification import Checksum


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """One of many to be saved. `path` is where to, below the directory of all: without it, the name that the
    command would give. Of several requests of one path all but the first fail (`LocalError`), unless a name
    that is taken may be another one (`exists="rename"`). `mirrors`, `checksum`, `size`, `origin` and
    `referrer` are as for `Resolver.save`.

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

#: Is given each outcome; awaited until somebody has asked for it.
HandOver: TypeAlias = Callable[[Outcome], Awaitable[None]]

#: The same, and what it became of.
Tell: TypeAlias = Callable[[SaveRequest, Outcome], Awaitable[None]]

#: Requests that a ledger is asked for at once.
_AT_ONCE = 100


class ObjectSaver(Protocol):
    """The methods of a `Resolver` that a request of a batch calls, with the keywords that they have there."""

    @property
    def save(self) -> Callable[..., Awaitable[Saved]]: ...

    @property
    def server_name(self) -> Callable[..., Awaitable[str | None]]: ...

    @property
    def index_suffix(self) -> Callable[..., Awaitable[str]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """What holds for all requests of one call. `moves`: a ledger knows places as they are from the directory,
    wherever that is."""

    session: ObjectSaver
    network: Network
    directory: str
    exists: Exists
    digest: bool
    moves: bool = False


class SavingOne:
    """A request as a task of the batch; `entry` is its row in the ledger, if one is kept. Not `is_alone`: an
    earlier one of the call has its path."""

    entry: LedgerEntry | None = None

    def __init__(self, how: BatchSettings, request: SaveRequest, claim: NameReservation) -> None:
        self._how = how
        self.request = request
        self._claim = claim
        self.host = self.scheme = ""
        self.is_alone = request.path is None or how.exists == "rename" or claim.hold(request.path)
        with suppress(ResolveError):  # `run` meets it, too
            url = self._url
            self.host, self.scheme = host_key(url), url.scheme
            if request.path is None and not how.network.policy.allow_server_name:
                self._reserve(url)

    @property
    def _url(self) -> Url:
        return url_of(self.request.url, origin=self.request.origin)

    async def run(self) -> Outcome:
        """Of errors it raises `LedgerFault` alone; and `GiveWay`."""
        current_row.set(self.entry)
        began = running().current_time()
        try:
            outcome = await self._save()
        except LedgerFault:
            raise
        except ResolveError as error:
            elapsed = running().current_time() - began
            outcome = outcome_of_failure(error, self._text, elapsed, self._judge_error(error))
        if self.entry is not None:
            await note(self.entry, outcome)
        return outcome

    @property
    def _text(self) -> str:
        url = self.request.url
        return url.text if isinstance(url, Url) else str(url)

    @property
    def asked(self) -> RequestRow:
        """How a ledger knows it: by its URL without a password, and by its place."""
        from resolver.ledger.book import RequestRow  # it needs a database

        shown, request = redact(self._text), self.request
        place = request.path or self._claim.first or ""
        return RequestRow(
            url=shown,
            place=place if self._how.moves else os.path.abspath(os.path.join(self._how.directory, place)),
            given=shown,
            origin=request.origin,
            referrer=request.referrer,
            without_password=shown != self._text,
        )

    def make_earlier_outcome(self, entry: LedgerEntry) -> Outcome:
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

    def _judge_error(self, error: ResolveError) -> tuple[Finding, ...]:
        request = self.request
        return judge_failed(error, self._text, self._how.network, request.origin, request.referrer)

    async def _save(self) -> Outcome:
        how, request, url = self._how, self.request, self._url
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
        session, request = self._how.session, self.request
        if request.path is not None:
            if not self.is_alone:
                raise LocalError(f"{request.path!r} is where another request of this call goes")
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


def judge_failed(
    error: ResolveError,
    url: str,
    network: Network,
    origin: Origin,
    referrer: tuple[str, str | None] | None,
) -> tuple[Finding, ...]:
    """What the policy of a session says of a URL that failed."""
    return judge(
        error,
        url,
        policy=network.policy,
        origin=origin,
        referrer=referrer,
        gateways=network.gateways,
        environment=proxies_here() if network.environment is None else network.environment,
        proxy=network.proxy,
    )


async def note(entry: LedgerEntry, outcome: Outcome) -> None:
    """Write down what became of it. Raises `LedgerFault`."""
    if outcome.error is not None:
        refused = outcome.status == "refused"
        await entry.record_failed(outcome.error, class_name(outcome.error), refused=refused)
        return
    skipped = outcome.status == "skipped"
    brought = 0 if skipped else max(0, outcome.bytes - outcome.resumed_from)
    await entry.record_done(outcome.path, outcome.bytes, brought, outcome.attempts, skipped=skipped)


async def _tasks(
    how: BatchSettings, requests: Requests, ledger: Ledger | None, tell: Tell
) -> AsyncIterator[BatchTask[Outcome]]:
    """Each has its name in the order in which they come. What is done already is no task: it is told here."""

    def may_have(path: str, url: str) -> bool:
        if how.exists != "rename":
            return True
        place = os.path.join(how.directory, path)
        known = ledger is not None and ledger.has(url, os.path.abspath(place))
        return known or is_free(place, url)

    names, number = NameReservations(may_have), 0
    async with aclosing(_batch_requests(requests, 1 if ledger is None else _AT_ONCE)) as given:
        async for several in given:
            tasks = []
            for each in several:
                number += 1
                request = each if isinstance(each, SaveRequest) else SaveRequest(each)
                tasks.append(SavingOne(how, request, NameReservation(names, number)))
            if ledger is not None:
                alone = [task for task in tasks if task.is_alone]
                rows = await running().in_thread(ledger.admit, [task.asked for task in alone])
                for task, row in zip(alone, rows, strict=True):
                    task.entry = row
            for task in tasks:
                if task.entry is not None and task.entry.is_done:
                    await tell(task.request, task.make_earlier_outcome(task.entry))
                else:
                    yield task


async def _batch_requests(requests: Requests, most: int) -> AsyncGenerator[list[UrlLike | SaveRequest], None]:
    """So many at once of those that are at hand. What comes by and by is taken as it comes."""
    if not isinstance(requests, AsyncIterable):
        given = iter(requests)
        while several := list(islice(given, most)):
            yield several
        return
    async with aclosing(_iterate_requests(requests)) as coming:
        async for each in coming:
            yield [each]


async def _iterate_requests(
    requests: AsyncIterable[UrlLike | SaveRequest],
) -> AsyncGenerator[UrlLike | SaveRequest, None]:
    """What is left in the middle is closed here: nobody else can, as it was begun in another task."""
    async with aclosing(requests) if isinstance(requests, AsyncGenerator) else nullcontext():
        async for each in requests:
            yield each


def hosts_for(
    per_host: int | None, rate: float | None, lane_of: Callable[[BatchTask[T]], Hashable] | None = None
) -> HostScheduler[BatchTask[T]]:
    """Of one call, with what the caller wants of each."""
    return HostScheduler(partial(at_once, wanted=per_host), rate=rate, lane_of=lane_of)


def ledger_of(path: str | PathLike[str] | None) -> AbstractAsyncContextManager[Ledger | None]:
    """The ledger of one call; none where none is kept."""
    if path is None:
        return nullcontext()
    from resolver.ledger.book import Ledger  # as above

    return Ledger(fspath(path))


async def save_requests(
    how: BatchSettings,
    requests: Requests,
    ledger: str | PathLike[str] | None,
    batch: Batch[Outcome],
    hand_over: HandOver,
) -> None:
    async with ledger_of(ledger) as book:
        await save_under(how, requests, book, batch, lambda _, outcome: hand_over(outcome))


async def save_under(
    how: BatchSettings, requests: Requests, ledger: Ledger | None, batch: Batch[Outcome], tell: Tell
) -> None:
    """All of them, or as many as the batch begins. Raises `LedgerFault`."""

    async def take(result: TaskResult[Outcome]) -> None:
        if result.value is None:  # no more can be noted, and so no more is asked for
            assert result.error is not None
            raise result.error
        assert isinstance(result.task, SavingOne)
        await tell(result.task.request, result.value)

    await batch.run(_tasks(how, requests, ledger, tell), take)


def check_pace(concurrency: int, per_host: int | None, rate: float | None) -> None:
    """Raises `ValueError` for what no host could be asked by."""
    if concurrency < 1 or (per_host is not None and per_host < 1):
        raise ValueError("concurrency and per_host are 1 or more")
    if rate is not None and not 0 < rate < float("inf"):
        raise ValueError("host_rate is above 0")
