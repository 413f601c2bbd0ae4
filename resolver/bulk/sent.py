"""A task as it is sent: octets that nobody reads on their way.

Dask keeps the last thousand messages to each worker, and those to the scheduler
(`distributed.admin.low-level-log-length`), with the tasks that are in them: as objects, where they can be
read. Requests would stay there long after they were done, hundreds of megabytes of them. Before them
stands the version of this package that they are of.
"""

from __future__ import annotations

import zlib

from resolver.bulk.item import RequestSlice, SliceReport
from resolver.bulk.job import BulkJob
from resolver.bulk.slice import fetch_slice
from resolver.bulk.versions import check
from resolver.version import VERSION


def packed(job: BulkJob, slice: RequestSlice) -> bytes:
    """As Dask pickles: settings may have functions of somebody's notebook."""
    from distributed.protocol.pickle import dumps

    octets: bytes = dumps((job, slice))
    return VERSION.encode() + b"\n" + zlib.compress(octets)


def fetch_packed(octets: bytes) -> SliceReport:
    """`fetch_slice`, of what was sent. Raises `NotConfigured` where that is of another version."""
    from distributed.protocol.pickle import loads

    version, _, pickled = octets.partition(b"\n")
    check(version.decode())
    job, slice = loads(zlib.decompress(pickled))
    return fetch_slice(job, slice)
