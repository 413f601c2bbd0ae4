"""Very many URLs over a cluster of Dask: planned by host, so that one machine at a time asks a host.

`plan` says what is asked for next, without a network; `slice` is what a worker does; `run` is all of it.
"""

from resolver.bulk.run import BulkProgress, BulkSummary, run

__all__ = ["BulkProgress", "BulkSummary", "run"]
