"""The calls of a `Resolver` that save many objects: a list of them, or a tree. Both begin nothing before they
are iterated over, and have the same bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, cast

from protocols.contract import Origin
from resolver import registry
from resolver.batch import Batch
from resolver.gate import Network
from resolver.url import UrlLike

if TYPE_CHECKING:
    from resolver.batch.running import RunningBatch
    from resolver.retrieval.many import Requests
    from resolver.retrieval.outcome import Outcome
    from resolver.retrieval.saving import Exists
    from resolver.retrieval.session import Resolver


def _check(concurrency: int, per_host: int | None, rate: float | None) -> None:
    """Raises `ValueError` for what no host could be asked by."""
    if concurrency < 1 or (per_host is not None and per_host < 1):
        raise ValueError("concurrency and per_host are 1 or more")
    if rate is not None and not 0 < rate < float("inf"):
        raise ValueError("host_rate is above 0")


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
    ) -> RunningBatch[Outcome]:
        """Each object in a file of its own: an async iterator of what became of each, as they end. One that
        fails is an outcome, too, and stops no other.

        `requests` are URLs, or `SaveRequest` for what is to be said of one; any iterable, or an async one. It
        is read only as far as there is room: some 1,000 ahead, and nothing begins while `concurrency`
        outcomes wait to be asked for. Files go below `directory`, under the names that the command gives, of
        which no two are the same. `per_host` is how many one host has under way (2, http 6, ftp 4 where
        many wait), `host_rate` how many begin there a second; a host that pushes back gets fewer. `exists`
        and `digest` are as for `save`.

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
        from resolver.batch.running import RunningBatch  # few save many: nobody else waits for this
        from resolver.retrieval.many import BatchSettings, hosts_for, save_all

        _check(concurrency, per_host, host_rate)
        session = cast("Resolver", self)
        how = BatchSettings(
            session=session,
            network=self._network,
            directory="" if directory is None else fspath(directory),
            exists=exists,
            digest=digest,
        )

        batch: Batch[Outcome] = Batch(hosts_for(per_host, host_rate), concurrency=concurrency)
        return self._network.hold(RunningBatch(partial(save_all, how, requests, ledger, batch)))

    def save_tree(
        self,
        url: UrlLike,
        *,
        directory: str | PathLike[str] | None = None,
        depth: int | None = None,
        accept: Sequence[str] = (),
        reject: Sequence[str] = (),
        accept_regex: str | None = None,
        ignore_robots: bool = False,
        ledger: str | PathLike[str] | None = None,
        concurrency: int = 4,
        per_host: int | None = None,
        host_rate: float | None = None,
        exists: Exists = "fail",
        digest: bool = False,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> RunningBatch[Outcome]:
        """All that is below the URL, as `get -r` saves it: an async iterator of what became of each file, as
        they end, and of the directories that could not be listed. What fails stops nothing else.

        The tree goes below `directory`, in a directory that is called like its top. `depth` is how many
        directories down there are, of which the URL's is the first. `accept` and `reject` are patterns of the
        shell for names of files, `accept_regex` is to be found in their URLs. Nothing above the URL or
        elsewhere is asked for; what `robots.txt` forbids is left alone, unless `ignore_robots`. With a
        `ledger` directories are listed again by another call, and files that are done are not asked for. All
        else is as of `save_all`. Raises `ValueError` for what is no pattern or no number, and `RuntimeError`
        where this was not entered.

        Examples:
            >>> url = "ftp://127.0.0.1:8900/pub/names"
            >>> async with resolver.Resolver() as session:
            ...     async for outcome in session.save_tree(url, directory="here", accept=["R*"]):
            ...         print(outcome.status, outcome.path)
            done here/names/README
        """
        _check(concurrency, per_host, host_rate)
        begin: Callable[..., RunningBatch[Outcome]] = registry.load("resolver.tree.many:save_tree")
        tree = begin(
            self,
            self._network,
            url,
            directory="" if directory is None else fspath(directory),
            depth=depth,
            accept=tuple(accept),
            reject=tuple(reject),
            accept_regex=accept_regex,
            ignore_robots=ignore_robots,
            ledger=None if ledger is None else fspath(ledger),
            concurrency=concurrency,
            per_host=per_host,
            host_rate=host_rate,
            exists=exists,
            digest=digest,
            origin=origin,
            referrer=referrer,
        )
        return self._network.hold(tree)
