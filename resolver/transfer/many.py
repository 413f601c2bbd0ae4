"""Saving of many objects in one call, as the command `get` does.

Requests are scheduled by host. Requests are read lazily. A new request starts only after the caller has
consumed earlier outcomes (backpressure). So memory use does not grow with the number of requests. A failure
is reported as an outcome and does not stop other requests.
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
    Mapping,
)
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext, suppress
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from itertools import islice
from os import PathLike, fspath
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from protocols.contract import Finding, Origin, Url
from protocols.errors import REFUSED, InvalidUrl, LocalError, Refused, ResolveError, class_name
from protocols.location import JsonValue
from protocols.text import Masked, brief, instant, quote_text
from resolver.ledger import LedgerFault
from resolver.ledger import current as current_row
from resolver.loops import running
from resolver.policy.environment import read_proxies
from resolver.policy.judgment import check
from resolver.policy.schemes import max_connections
from resolver.policy.settings import Policy
from resolver.policy.subject import host_key
from resolver.transfer.batch import Batch, BatchTask, TaskResult
from resolver.transfer.naming import (
    NameReservation,
    NameReservations,
    local_file_name,
    may_be_index,
)
from resolver.transfer.network import Network
from resolver.transfer.queue import HostScheduler
from resolver.transfer.response import Saved
from resolver.url.parsing import UrlLike, make_url, parse, redact

if TYPE_CHECKING:
    from resolver.ledger.book import Ledger, LedgerEntry, RequestRow
    from resolver.transfer.saving import Exists
    from resolver.transfer.verification import Checksum


T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class SaveRequest:
    """An object for `Resolver.save_all` to save, and its settings.

    `path` is the path of the file below the common directory. The default is the name that the command `get`
    chooses. If several requests have the same path, the first request succeeds, and the others fail with
    `LocalError`. With `exists="rename"`, the later requests with the same path get numbered names instead.
    `mirrors`, `checksum`, `size`, `origin` and `referrer` are as for `Resolver.save`.

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

    def __repr__(self) -> str:
        return brief(self, quote_text(redact(str(self.url))), quote_text(self.path))


#: The objects to save, as an iterable or async iterable.
Requests: TypeAlias = "Iterable[UrlLike | SaveRequest] | AsyncIterable[UrlLike | SaveRequest]"

#: A function that receives each outcome. The function returns when the caller has consumed the outcome.
HandOver: TypeAlias = "Callable[[Outcome], Awaitable[None]]"

#: A function that receives each request with its outcome. The function returns when the caller has consumed
#: the outcome.
Report: TypeAlias = "Callable[[SaveRequest, Outcome], Awaitable[None]]"

#: The maximum number of requests in one query of the ledger.
_QUERY_SIZE = 100


class ObjectSaver(Protocol):
    """The methods of a `Resolver` that save many objects."""

    @property
    def save(self) -> Callable[..., Awaitable[Saved]]: ...

    @property
    def server_name(self) -> Callable[..., Awaitable[str | None]]: ...

    @property
    def index_suffix(self) -> Callable[..., Awaitable[str]]: ...


class BatchSettings(NamedTuple):
    """The settings that all requests of one call share.

    If `moves` is true, the ledger stores paths relative to the directory, so that the directory can be moved.
    """

    session: ObjectSaver
    network: Network
    directory: str
    exists: Exists
    digest: bool
    moves: bool = False


class SavingOne:
    """A request as a task of the batch.

    `entry` is the row of the request in the ledger, or None. `is_alone` is False if an earlier request of the
    same call has the same path.
    """

    entry: LedgerEntry | None = None

    def __init__(self, batch: BatchSettings, request: SaveRequest, claim: NameReservation) -> None:
        self._batch = batch
        self.request = request
        self._reservation = claim
        self._parsed: Url | None = None
        self.host = self.scheme = ""
        path, names = request.path, claim.names
        self.is_alone = path is None or batch.exists == "rename" or names.reserve_exact(path)
        with suppress(ResolveError):  # `run` raises the same error again
            self._parsed = url = make_url(request.url, origin=request.origin)
            self.host, self.scheme = host_key(url), url.scheme
            if request.path is None and not batch.network.policy.allow_server_name:
                self._reserve(url)

    async def run(self) -> Outcome:
        """Save the object, and return its outcome. Raises only `LedgerFault` and `Requeue`."""
        current_row.set(self.entry)
        batch, request, began = self._batch, self.request, running().current_time()
        try:
            url = self._parsed or make_url(request.url, origin=request.origin)
            saved = await batch.session.save(
                url,
                os.path.join(batch.directory, await self._path(url)),
                exists=batch.exists,
                make_directory=True,
                digest=batch.digest,
                checksum=request.checksum,
                size=request.size,
                mirrors=request.mirrors,
                listings=request.path is not None,
                origin=request.origin,
                referrer=request.referrer,
            )
            outcome = make_outcome(saved, url.scheme)
        except LedgerFault:
            raise
        except ResolveError as error:
            elapsed = running().current_time() - began
            origin, referrer = request.origin, request.referrer
            outcome = make_failed_outcome(error, self._text, elapsed, batch.network, origin, referrer)
        if self.entry is not None:
            await record_outcome(self.entry, outcome)
        return outcome

    @property
    def _text(self) -> str:
        url = self.request.url
        return url.text if isinstance(url, Url) else str(url)

    @property
    def shown(self) -> Masked:
        parsed = self._parsed
        return parsed.shown if parsed is not None and parsed.text == self._text else redact(self._text)

    @property
    def ledger_key(self) -> RequestRow:
        """Return the key of the request in a ledger: the URL without a password, and the path."""
        from resolver.ledger.book import RequestRow  # imported lazily: loads sqlite3

        shown, request = self.shown, self.request
        place = request.path or self._reservation.first or ""
        return RequestRow(
            url=shown,
            place=place if self._batch.moves else os.path.abspath(os.path.join(self._batch.directory, place)),
            typed_url=shown,
            origin=request.origin,
            referrer=request.referrer,
            without_password=shown != self._text,
        )

    async def _path(self, url: Url) -> str:
        """Return the path below the directory, from the request, the server's file name or the URL."""
        session, request = self._batch.session, self.request
        if request.path is not None:
            if not self.is_alone:
                raise LocalError(
                    f"cannot save to {request.path!r}: another request of this call has this path"
                )
            return request.path
        first = self._reservation.first
        if first is not None and not may_be_index(first):  # the server cannot change the reserved path
            return first
        name = await session.server_name(url, origin=request.origin, referrer=request.referrer)
        suffix = ""
        if name is None:
            suffix = await session.index_suffix(url, origin=request.origin, referrer=request.referrer)
        try:
            return self._reserve(url, name, suffix)
        except Refused:
            from resolver.transfer.plan import opens_anything  # lazy import: refusals are rare

            if opens_anything(url):
                raise
        # a placeholder name: `save` refuses links and services
        return self._reserve(url, f"link-{self._reservation.number}")

    def _reserve(self, url: Url, name: str | None = None, suffix: str = "") -> str:
        path = self._reservation.take(name or local_file_name(url), url.shown)
        return self._reservation.take(path + suffix, url.shown) if suffix else path


def make_failed_outcome(
    error: ResolveError,
    url: str,
    elapsed: float,
    network: Network,
    origin: Origin,
    referrer: tuple[str, str | None] | None,
) -> Outcome:
    """Return the outcome of a failed request, with the findings of the policy about its URL."""
    judged = judge(
        error,
        url,
        policy=network.policy,
        origin=origin,
        referrer=referrer,
        gateways=network.gateways,
        environment=read_proxies() if network.environment is None else network.environment,
        proxy=network.proxy,
    )
    return outcome_of_failure(error, url, elapsed, judged)


def make_earlier_outcome(entry: LedgerEntry, shown: Masked, scheme: str | None, path: str | None) -> Outcome:
    """Return the outcome of a request that was completed in an earlier run."""
    return Outcome(
        url=shown,
        final_url=shown,
        scheme=scheme,
        status="skipped",
        path=path,
        bytes=entry.size,
        digest=entry.digest,
    )


async def record_outcome(entry: LedgerEntry, outcome: Outcome) -> None:
    """Record the outcome in the ledger. Raises `LedgerFault`."""
    if outcome.error is not None:
        is_refused = outcome.status == "refused"
        entry.record_failed(outcome.error, class_name(outcome.error), refused=is_refused)
    else:
        skipped = outcome.status == "skipped"
        received = 0 if skipped else max(0, outcome.bytes - outcome.resumed_from)
        entry.record_done(outcome.path, outcome.bytes, received, outcome.attempts, skipped=skipped)
    if entry.ledger.is_due:
        await entry.ledger.settle()


async def _tasks(
    settings: BatchSettings, requests: Requests, ledger: Ledger | None, report: Report
) -> AsyncIterator[BatchTask[Outcome]]:
    """Yield a task for each request, and assign file names in the order of requests.

    A request that the ledger lists as completed is reported without a task.
    """

    def is_available(path: str, url: str) -> bool:
        from resolver.files.names import is_free  # lazy import: it takes 7 ms

        full_path = os.path.join(settings.directory, path)
        is_recorded = ledger is not None and ledger.has(url, os.path.abspath(full_path))
        return is_recorded or is_free(full_path, url)

    names, number = NameReservations(is_available if settings.exists == "rename" else None), 0
    async with aclosing(_batch_requests(requests, 1 if ledger is None else _QUERY_SIZE)) as batches:
        async for items in batches:
            tasks = []
            for item in items:
                number += 1
                request = item if isinstance(item, SaveRequest) else SaveRequest(item)
                tasks.append(SavingOne(settings, request, NameReservation(names, number)))
            if ledger is not None:
                alone = [task for task in tasks if task.is_alone]
                rows = await running().in_thread(ledger.admit, [task.ledger_key for task in alone])
                for task, row in zip(alone, rows, strict=True):
                    task.entry = row
            for task in tasks:
                if task.entry is not None and task.entry.is_done:
                    entry, scheme = task.entry, task.scheme or None
                    await report(task.request, make_earlier_outcome(entry, task.shown, scheme, entry.path))
                else:
                    yield task


async def _batch_requests(requests: Requests, size: int) -> AsyncGenerator[list[UrlLike | SaveRequest], None]:
    """Yield lists of up to `size` requests. For an async source, each list has one request."""
    if not isinstance(requests, AsyncIterable):
        iterator = iter(requests)
        while batch := list(islice(iterator, size)):
            yield batch
        return
    # If the iteration stops early, the source is closed in the same task.
    async with aclosing(requests) if isinstance(requests, AsyncGenerator) else nullcontext():
        async for request in requests:
            yield [request]


def hosts_for(
    per_host: int | None, rate: float | None, get_lane: Callable[[BatchTask[T]], Hashable] | None = None
) -> HostScheduler[BatchTask[T]]:
    """Return the host scheduler of one call, with the caller's limits per host."""
    return HostScheduler(partial(max_connections, setting=per_host), rate=rate, get_lane=get_lane)


def open_ledger(path: str | PathLike[str] | None) -> AbstractAsyncContextManager[Ledger | None]:
    """Return a context manager that opens the ledger of one call, or yields None without a path."""
    if path is None:
        return nullcontext()
    from resolver.ledger.book import Ledger  # imported lazily: loads sqlite3

    return Ledger(fspath(path))


async def save_requests(
    settings: BatchSettings,
    requests: Requests,
    ledger: str | PathLike[str] | None,
    batch: Batch[Outcome],
    hand_over: HandOver,
) -> None:
    async with open_ledger(ledger) as book:
        await save_under(settings, requests, book, batch, lambda _, outcome: hand_over(outcome))


async def save_under(
    settings: BatchSettings, requests: Requests, ledger: Ledger | None, batch: Batch[Outcome], report: Report
) -> None:
    """Run the batch that saves the objects of all requests. Raises `LedgerFault`."""

    def take(result: TaskResult[Outcome]) -> Awaitable[None]:
        if result.value is None:  # stop, because the ledger cannot record further outcomes
            assert result.error is not None
            raise result.error
        assert isinstance(result.task, SavingOne)
        return report(result.task.request, result.value)

    await batch.run(_tasks(settings, requests, ledger, report), take)


# The outcome of saving one URL: a success or a failure. `get --json` prints an outcome as JSON. The JSON
# always contains all members; null means that a value is unknown or absent.


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome:
    """The outcome of saving one URL with `Resolver.save_all`. All URLs are redacted.

    - `status` is `done`, `skipped` (an existing file was not changed), `failed` or `refused`.
    - `error` is the exception of a failure or refusal; otherwise None.
    - `exit` is the exit status of the command line for this outcome: 0 without an error.

    Examples:
        >>> async with resolver.Resolver() as session:
        ...     async for outcome in session.save_all(["ftp://127.0.0.1:8900/pub/none.txt"]):
        ...         print(outcome.status, outcome.exit, type(outcome.error).__name__)
        failed 8 NotFound
    """

    url: Masked
    final_url: Masked | None = None
    scheme: str | None = None
    status: Literal["done", "skipped", "failed", "refused"]
    exit: int = 0
    error: ResolveError | None = None
    path: str | None = None
    bytes: int = 0
    resumed_from: int = 0
    media_type: Masked | None = None
    modified: datetime | None = None
    digest: str | None = None
    verified: tuple[str, ...] = ()
    attempts: int = 0
    elapsed: float = 0.0
    peer: str | None = None
    proxy: Masked | None = None
    findings: tuple[Finding, ...] = ()
    mirror: Masked | None = None

    def __repr__(self) -> str:
        return brief(self, self.status, quote_text(self.url), quote_text(self.path))

    @property
    def action(self) -> Literal["fetch", "keep"] | None:
        """Return the action on the file: `fetch` or `keep`, or None if the outcome has no file."""
        if self.status == "done":
            return "fetch"
        return "keep" if self.status == "skipped" and self.path is not None else None

    def as_json(self) -> dict[str, JsonValue]:
        """Return all attributes as JSON values by name."""
        members = {member.name: _make_plain(getattr(self, member.name)) for member in fields(self)}
        return {**members, "action": self.action}


def _make_plain(value: object) -> JsonValue:
    match value:
        case ResolveError():
            return describe_error(value)
        case datetime():
            return instant(value)
        case float():
            return round(value, 6)
        case tuple():
            return [item.as_json() if isinstance(item, Finding) else str(item) for item in value]
    assert value is None or isinstance(value, str | int)
    return value


def make_outcome(saved: Saved, scheme: str | None) -> Outcome:
    """Return the outcome of a successful retrieval."""
    return Outcome(
        url=saved.requested_url,
        final_url=saved.url,
        scheme=scheme,
        status="skipped" if saved.skipped else "done",
        path=saved.path,
        bytes=saved.bytes,
        resumed_from=saved.resumed_from,
        media_type=saved.media_type,
        modified=saved.modified,
        digest=saved.digest,
        verified=saved.verified,
        attempts=saved.attempts,
        elapsed=saved.elapsed,
        peer=saved.peer,
        proxy=saved.proxy,
        findings=saved.findings,
        mirror=saved.mirror,
    )


def outcome_of_failure(error: ResolveError, url: str, elapsed: float, judged: tuple[Finding, ...]) -> Outcome:
    """Return the outcome of a failed retrieval. `judged` are the policy's findings (see `judge`)."""
    refused, scheme = error.exit_code in REFUSED, None
    with suppress(InvalidUrl):
        scheme = parse(url, origin="user").scheme
    return Outcome(
        url=redact(url),
        scheme=scheme,
        status="refused" if refused else "failed",
        exit=error.exit_code,
        error=error,
        bytes=getattr(error, "received", 0),
        attempts=0 if refused else error.attempts,
        elapsed=elapsed,
        findings=judged,
    )


def judge(
    error: ResolveError,
    url: str,
    *,
    policy: Policy,
    origin: Origin,
    referrer: tuple[str, str | None] | None,
    gateways: Mapping[str, str],
    environment: Mapping[str, str],
    proxy: str | None,
) -> tuple[Finding, ...]:
    """Return the findings of the policy about the URL of a failed retrieval.

    The findings are the same as in the plan of `explain`. If a rule about an IP address, a redirect or a
    response refused the retrieval later, this rule is included.
    """
    findings = check(
        url,
        policy=policy,
        origin=origin,
        referrer=referrer,
        gateways=gateways,
        environment=environment,
        proxy=proxy,
    ).findings
    with suppress(InvalidUrl):
        findings = (*parse(url, origin=origin).spelling, *findings)
    rule = _find_rule(error)
    if rule is None or any((finding.rule, finding.action) == (rule, "refuse") for finding in findings):
        return tuple(findings)
    return (*findings, Finding(rule, "refuse", error.message.removeprefix(f"{rule}: ")))


def describe_error(error: ResolveError) -> dict[str, JsonValue]:
    """Return an error as JSON: its public class, its message, and its policy rule's number or null."""
    reason: dict[str, JsonValue] = {"code": class_name(error), "message": error.message}
    rule = _find_rule(error)
    return reason if rule is None else {**reason, "rule": rule}


def _find_rule(error: ResolveError) -> str | None:
    """Return the policy rule of an error, which is S01 for an invalid URL, or None."""
    return "S01" if isinstance(error, InvalidUrl) else getattr(error, "rule", None)
