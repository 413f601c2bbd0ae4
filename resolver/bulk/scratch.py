"""Where a slice has what it sends elsewhere in the end: among the files of its worker, which are where the
person has space for them, and which Dask takes away for one that was killed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from resolver.disk.shelf import passing


def scratch() -> AbstractContextManager[str]:
    """A directory, which goes with all that is in it."""
    from distributed import get_worker

    try:
        directory: str | None = get_worker().local_directory
    except ValueError:  # this is none
        directory = None
    return passing(directory)
