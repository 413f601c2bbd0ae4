"""A task as it is sent: octets that nobody reads on their way.

Dask keeps the last thousand messages to each worker, and those to the scheduler
(`distributed.admin.low-level-log-length`), with the tasks that are in them: as objects, where they can be
read. Requests would stay there long after they were done, hundreds of megabytes of them.
"""

from __future__ import annotations

import zlib

from resolver.bulk.item import Report, Slice
from resolver.bulk.job import Job
from resolver.bulk.slice import fetch_slice


def packed(job: Job, slice: Slice) -> bytes:
    """As Dask pickles: settings may have functions of somebody's notebook."""
    from distributed.protocol.pickle import dumps

    octets: bytes = dumps((job, slice))
    return zlib.compress(octets)


def fetch_packed(octets: bytes) -> Report:
    """`fetch_slice`, of what was sent."""
    from distributed.protocol.pickle import loads

    job, slice = loads(zlib.decompress(octets))
    return fetch_slice(job, slice)
