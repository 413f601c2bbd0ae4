"""The messages between the planner of a bulk run and the Dask workers, serializable by pickle."""

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
    """A URL to fetch in a bulk run, with the path of its file.

    Attributes:
        url: The original text of the URL.
        path: The path of the saved file, relative to the directory of all files.
        options: Other fields of a `SaveRequest`: `checksum`, `size`, `mirrors`, `origin`, `referrer`.
    """

    url: str
    path: str
    options: Mapping[str, JsonValue] | None = None


class RequestSlice(NamedTuple):
    """A slice (batch of requests). A Dask worker processes the slice as one task.

    All requests of a slice belong to one partition. The slice takes about one minute.

    Attributes:
        partition: The number of the partition.
        number: The number of the slice within its partition.
        label: The hosts of the requests, for display.
        items: The requests, in the order in which they should start.
        is_last: Whether the slice contains all remaining requests of the partition.
        seconds: The estimated duration in seconds.
        pauses: For each host that requested a pause, the remaining seconds of the pause.
    """

    partition: int
    number: int
    label: str
    items: tuple[BulkRequest, ...]
    is_last: bool
    seconds: float
    pauses: Mapping[str, float] | None = None


class SliceReport(NamedTuple):
    """The outcome of a slice (batch of requests). The worker reports it to the planner.

    Attributes:
        unstarted: The requests that were not started within the maximum duration, in their original order.
        counts: The number of requests by status.
        exits: The number of requests by exit status.
        bytes: The number of received bytes.
        seconds: The duration in seconds.
        pauses: The remaining seconds of the pause after the slice, for each host that requested a pause.
        is_locked: Whether another run had locked the partition, so that no request was started.
    """

    unstarted: tuple[BulkRequest, ...]
    counts: Mapping[str, int]
    exits: Mapping[int, int]
    bytes: int
    seconds: float
    pauses: Mapping[str, float]
    is_locked: bool = False


Format: TypeAlias = Literal["parquet", "jsonl"]

#: The maximum number of concurrent requests in one slice (batch of requests), for all hosts together.
CONCURRENCY = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkJob:
    """The settings of a run that its workers need.

    Attributes:
        out: The output directory: a path in a shared file system that all workers mount at the same path, or
            a URL that fsspec supports.
        ledger: A directory for the ledgers, or None to store the ledgers in `out`.
        settings: The settings of the workers' sessions.
        per_host: The maximum number of concurrent requests to a host.
        host_rate: The maximum number of requests per second to a host (rate limit).
        format: The file format of the outcomes.
        warc: Whether bodies are stored in archives instead of files.
        max_seconds: The time in seconds for a slice. After this time, the slice starts no further requests.
    """

    out: str
    ledger: str | None = None
    settings: Settings
    per_host: int | None = None
    host_rate: float | None = None
    format: Format = "parquet"
    warc: bool = False
    max_seconds: float


# The version check of a bulk run. The planner, the scheduler and the workers must have this package
# installed. The planner and the workers must have the same version.
#
# The planner queries the version of the workers at the start, and again when workers join. But a worker may
# get a task before the query. So each task contains the required version, and the worker compares this
# version with its own version. On a worker without this package, the task fails with an import error.

#: The maximum number of workers that an error message about versions lists.
_MAX_NAMED = 3

#: The names of the exceptions that a worker raises if this package is missing or too old. Newer versions of
#: Dask report an exception only as text, so the names are compared.
_IMPORT_ERRORS = ("ModuleNotFoundError", "ImportError", "AttributeError")

#: Text in Dask's error message for a task that the scheduler cannot load, usually because of a missing
#: package.
_UNREADABLE = "different environments"


def get_version() -> str:
    return VERSION


def check_cluster(client: Client) -> None:
    """Check that all workers have the same version of this package.

    A worker that does not respond is ignored, because it may have left the cluster. A lost connection to the
    scheduler is ignored, because the next call reports the loss.

    Raises:
        NotConfigured: A worker has another version of this package, or the package is missing.
    """
    others: dict[str, str] = {}
    try:
        answers = client.run(get_version, on_error="return")
    except OSError:
        return
    for worker, answer in answers.items():
        if isinstance(answer, Exception) and any(word in repr(answer) for word in _IMPORT_ERRORS):
            others[worker] = "none"
        elif isinstance(answer, str) and answer != VERSION:
            others[worker] = answer
    if others:
        texts = [f"{worker} has {version}" for worker, version in sorted(others.items())[:_MAX_NAMED]]
        more = f", and {len(others) - _MAX_NAMED} more" if len(others) > _MAX_NAMED else ""
        raise NotConfigured(f"{', '.join(texts)}{more}: {_REQUIREMENT}")


def check(version: str) -> None:
    """Raise `NotConfigured` if the version that a task requires is not that of the worker."""
    if version != VERSION:
        raise NotConfigured(f"a worker has {VERSION}, but the run needs {version}: {_SAME_VERSION}")


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise `NotConfigured` if a scheduler or a worker cannot load a task."""
    try:
        yield
    except (ModuleNotFoundError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and _UNREADABLE not in str(error):
            raise
        reason = "the scheduler cannot read it" if isinstance(error, RuntimeError) else str(error)
        raise NotConfigured(f"the cluster cannot load the task ({reason}): {_REQUIREMENT}") from error


_SAME_VERSION = "scheduler, workers and client need the same version of resolve, with its extra bulk"
_REQUIREMENT = f"scheduler and workers need resolve {VERSION} with its extra bulk, like this client"
