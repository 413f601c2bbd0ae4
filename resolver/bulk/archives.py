"""The archives of a run with `warc`: one of each worker, which its slices share, until the run is over.

Where `out` is a directory it is written there; elsewhere a slice has one of its own, which is sent with it.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from uuid import uuid4

from protocols.errors import LocalError
from resolver.bulk.item import RequestSlice
from resolver.bulk.job import BulkJob
from resolver.bulk.scratch import scratch
from resolver.bulk.store import Store
from resolver.disk.shelf import OutputFiles
from resolver.warc.recorder import Recorder

_lock = Lock()
_open: dict[str, Recorder] = {}


@contextmanager
def recorder_of(job: BulkJob, slice: RequestSlice, store: Store) -> Iterator[Recorder | None]:
    """What the slice is recorded by, None where it is not to be."""
    if not job.warc:
        yield None
    elif isinstance(store, OutputFiles):
        yield _of_worker(store)
    else:
        name = f"{slice.partition:04d}-{slice.number:05d}-{uuid4().hex[:8]}"
        with scratch() as directory:
            here = OutputFiles(directory)
            with Recorder(here.place(f"{name}.warc.gz"), sync=True) as recorder:
                yield recorder
            store.send([(here.place(each), f"warc/{each}") for each in here.names("")])


def _of_worker(shelf: OutputFiles) -> Recorder:
    with _lock:
        if shelf.directory not in _open:
            if not _open:
                atexit.register(close_all)
            path = shelf.place(f"warc/{uuid4().hex}.warc.gz")
            _open[shelf.directory] = Recorder(path, sync=True)
        return _open[shelf.directory]


def close_all() -> None:
    """What this process has written gets its indexes."""
    with _lock:
        while _open:
            _, recorder = _open.popitem()
            with suppress(LocalError):
                recorder.close()


def index_all(directory: str) -> None:
    """Archives of workers that were killed get theirs; those that somebody writes are left alone."""
    shelf = OutputFiles(directory)
    names = set(shelf.names("warc"))
    for name in sorted(names):
        stem, ending, _ = name.partition(".warc")
        if ending and f"{stem}.cdxj" not in names:
            with suppress(LocalError):
                Recorder(shelf.place(f"warc/{name}")).close()
