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
    """A request of a run.

    Attributes:
        url: The URL as it was given.
        path: The path of the saved file, relative to the directory of all files.
        more: Other fields (`checksum`, `size`, `mirrors`, `origin`, `referrer` as in `SaveRequest`).
    """

    url: str
    path: str
    more: Mapping[str, JsonValue] | None = None


class RequestSlice(NamedTuple):
    """The requests of one task: as many of one partition as can probably be done within one minute.

    Attributes:
        partition: The number of the partition.
        number: The number of the slice within its partition.
        label: The hosts, for display.
        items: The requests, in the order in which they can start.
        last: Whether this is the last slice of the partition with requests left.
        seconds: The estimated duration.
        pauses: The remaining seconds of the pause that each host demands.
    """

    partition: int
    number: int
    label: str
    items: tuple[BulkRequest, ...]
    last: bool
    seconds: float
    pauses: Mapping[str, float] | None = None


class SliceReport(NamedTuple):
    """The outcome of a slice.

    Attributes:
        partition: The number of the partition.
        number: The number of the slice within its partition.
        left: The requests that did not start in time, in their order.
        counts: The number of requests by status.
        exits: The number of requests by exit status.
        bytes: The bytes received.
        seconds: The duration.
        pauses: The seconds of the pause that each host demands, counted from the end of the slice.
        held: Whether another run had locked the partition during the whole slice, so that no request was
            started.
    """

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

#: The maximum of concurrent requests in one slice, over all its hosts.
CONCURRENCY = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkJob:
    """The settings of a run that its workers need.

    Attributes:
        out: A directory that all workers reach under this name, or a URL that fsspec supports.
        ledger: A directory for the ledgers, if they are not stored in `out`.
        settings: The settings of the workers' sessions.
        per_host: The maximum of concurrent requests to a host.
        host_rate: The maximum of requests to a host that start per second.
        format: The format of the outcomes.
        warc: Whether bodies are stored in archives and not in files.
        box: The seconds after which a slice starts no further request.
        concurrency: The maximum of concurrent requests in a slice.
    """

    out: str
    ledger: str | None = None
    settings: Settings
    per_host: int | None = None
    host_rate: float | None = None
    format: Format = "parquet"
    warc: bool = False
    box: float
    concurrency: int = CONCURRENCY


# Versions: the planner, the scheduler and the workers have this package installed. The planner and the
# workers need the same version.
#
# The planner queries the workers before it reads a list, and again when workers join. A worker may get a task
# before this query. Such a worker reports its version itself, because each task begins with the required
# version. On a worker without this module the task fails, as any Dask task with a missing module does. A
# scheduler imports this package only to load a name from it.

#: The maximum of workers named in an error about versions.
_MOST_NAMED = 3

#: Texts in the error of a worker that lacks the function. Newer versions of Dask pass the error as a text.
_LACKING = ("ModuleNotFoundError", "ImportError", "AttributeError")

#: Dask's text for a task that its scheduler cannot load, most often because of a missing package.
_UNREADABLE = "different environments"


def get_version() -> str:
    return VERSION


def check_cluster(client: Client) -> None:
    """Raise `NotConfigured` with the names of workers that have another version, or none.

    A worker that does not answer is ignored, because it may be gone by now. A lost scheduler is ignored here,
    because the next call reports it.
    """
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
    """Check the version of a task in its worker. Raises `NotConfigured`."""
    if version != VERSION:
        raise NotConfigured(f"a worker has {VERSION}, but the run needs {version}: {_SAME}")


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise `NotConfigured` if a scheduler or a worker cannot load a task."""
    try:
        yield
    except (ModuleNotFoundError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and _UNREADABLE not in str(error):
            raise
        why = "the scheduler cannot read it" if isinstance(error, RuntimeError) else str(error)
        raise NotConfigured(f"the cluster cannot load the task ({why}): {_WANTED}") from error


_SAME = "scheduler, workers and client need the same version of resolve, with its extra bulk"
_WANTED = f"scheduler and workers need resolve {VERSION} with its extra bulk, like this client"
