"""Fetch millions of URLs on a Dask cluster; the rate limit of a host applies to the complete cluster.

Only one worker at a time sends requests to a host. The module `plan` schedules the requests without network
I/O. The module `slice` runs in the workers. The module `run` performs a complete run.
"""

from resolver.bulk.run import BulkProgress, BulkSummary, run

__all__ = ["BulkProgress", "BulkSummary", "run"]
