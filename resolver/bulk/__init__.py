"""Millions of URLs on a Dask cluster, planned by host: a host gets requests from one machine at a time.

`plan` chooses the next requests without network I/O; `slice` is the work of a worker; `run` is the complete
run.
"""

from resolver.bulk.run import BulkProgress, BulkSummary, run

__all__ = ["BulkProgress", "BulkSummary", "run"]
