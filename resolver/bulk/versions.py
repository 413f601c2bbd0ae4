"""Whether all who take part in a run have this package, and the workers in this version.

Workers are asked before anything is read, and again when there are more. One that gets a task before says so,
for that begins with the version that it is of; or is ended by it, as Dask ends one that has no such module. A
scheduler reads nothing of ours but a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from protocols.errors import NotConfigured
from resolver.version import VERSION

if TYPE_CHECKING:
    from distributed import Client

#: How many of those that have another version are named.
_MOST_NAMED = 3

#: What is in an error of a worker that has no such function. Newer versions of Dask tell the error as a text.
_LACKING = ("ModuleNotFoundError", "ImportError", "AttributeError")

#: What Dask says of a task that its scheduler cannot read: it lacks a package, most often.
_UNREADABLE = "different environments"


def here() -> str:
    return VERSION


def check_cluster(client: Client) -> None:
    """Raises `NotConfigured`, which names the workers that have another version, or none. One that does not
    answer is no matter: it may be gone by now; nor is a scheduler here, which what comes next says."""
    others: dict[str, str] = {}
    try:
        answers = client.run(here, on_error="return")
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
def understood() -> Iterator[None]:
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
