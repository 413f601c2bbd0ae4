"""Fetch millions of URLs on a Dask cluster; only one machine at a time sends requests to a host.

`plan` chooses the next requests without network I/O. `slice` is the work of a worker. `run` performs the
complete run.
"""

from resolver.bulk.run import BulkProgress, BulkSummary, run

__all__ = ["BulkProgress", "BulkSummary", "run"]
