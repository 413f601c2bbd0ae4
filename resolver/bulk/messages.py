"""Messages between the planner of a run and its workers: small values that can be pickled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from protocols.errors import NotConfigured
from protocols.location import JsonValue
from resolver.transfer.settings import Settings
from resolver.version import VERSION

if TYPE_CHECKING:
    from distributed import Client


class BulkRequest(NamedTuple):
    """One request: the URL as it was given, where its body goes, below the place of all bodies, and what else
    was said of it (`checksum`, `size`, `mirrors`, `origin`, `referrer` as in `SaveRequest`)."""

    url: str
    path: str
    more: Mapping[str, JsonValue] | None = None


class RequestSlice(NamedTuple):
    """What one task asks for: so many requests of one partition as may be done within a minute. `label` says
    of which hosts, for people; `last`: nothing of the partition waits behind it; `seconds` is how long it
    will take, as far as that is known. `pauses` are the seconds for which hosts still want to be left
    alone."""

    partition: int
    number: int
    label: str
    items: tuple[BulkRequest, ...]
    last: bool
    seconds: float
    pauses: Mapping[str, float] | None = None


class SliceReport(NamedTuple):
    """What became of a slice: how many ended in each way, and with which exit status, how many octets were
    brought, and what was not begun for want of time, in its order. `pauses` as in `RequestSlice`, from its
    end on. `held`: another run was at work with the partition all the time, and all is left."""

    partition: int
    number: int
    left: tuple[BulkRequest, ...]
    counts: Mapping[str, int]
    exits: Mapping[int, int]
    bytes: int
    seconds: float
    pauses: Mapping[str, float]
    held: bool = False


Format: TypeAlias = Literal["parquet", "jsonl"]

#: Requests of one slice that are under way at once, over all its hosts.
CONCURRENCY = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkJob:
    """`out` is a directory that all workers reach under this name, or a URL that fsspec knows; `ledger` is a
    directory for the ledgers where they do not go there, too. `per_host` is how many one host has under way,
    `host_rate` how many begin there a second, `box` the seconds after which a slice begins nothing more.
    With `warc` bodies go into archives, and into no files."""

    out: str
    ledger: str | None = None
    settings: Settings
    per_host: int | None = None
    host_rate: float | None = None
    format: Format = "parquet"
    warc: bool = False
    box: float
    concurrency: int = CONCURRENCY


# Versions: the planner, the scheduler and all workers have this package, the workers in this version.
#
# Workers are asked before any list is read, and again when workers join. A worker that gets a task before
# that reports its version, because a task begins with the required one; or the task ends it, as Dask ends one
# without the module. A scheduler reads nothing of ours but a name.

#: How many of those that have another version are named.
_MOST_NAMED = 3

#: What is in an error of a worker that has no such function. Newer versions of Dask tell the error as a text.
_LACKING = ("ModuleNotFoundError", "ImportError", "AttributeError")

#: What Dask says of a task that its scheduler cannot read: it lacks a package, most often.
_UNREADABLE = "different environments"


def get_version() -> str:
    return VERSION


def check_cluster(client: Client) -> None:
    """Raises `NotConfigured`, which names the workers that have another version, or none. One that does not
    answer is no matter: it may be gone by now; nor is a scheduler here, which what comes next says."""
    others: dict[str, str] = {}
    try:
        answers = client.run(get_version, on_error="return")
    except OSError:
        return
    for worker, told in answers.items():
        if isinstance(told, Exception) and any(word in repr(told) for word in _LACKING):
            others[worker] = "none"
        elif isinstance(told, str) and told != VERSION:
            others[worker] = told
    if others:
        named = [f"{worker} has {version}" for worker, version in sorted(others.items())[:_MOST_NAMED]]
        more = f", and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        raise NotConfigured(f"{', '.join(named)}{more}: {_WANTED}")


def check(version: str) -> None:
    """Here, where a task is to be done. Raises `NotConfigured`."""
    if version != VERSION:
        raise NotConfigured(f"a worker has {VERSION}, and the run is of {version}: {_SAME}")


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raises `NotConfigured` where a scheduler or a worker does not know what it is given."""
    try:
        yield
    except (ModuleNotFoundError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and _UNREADABLE not in str(error):
            raise
        why = "the scheduler cannot read it" if isinstance(error, RuntimeError) else str(error)
        raise NotConfigured(f"the cluster cannot take this ({why}): {_WANTED}") from error


_SAME = "scheduler, workers and client need the same version of resolve, with its extra bulk"
_WANTED = f"scheduler and workers need resolve {VERSION} with its extra bulk, as it is here"
