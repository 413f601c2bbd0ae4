"""What a worker of a cluster of this machine does last: what it has under way is cancelled, for nobody waits
for it any more. Dask knows this module by its name (`--preload`)."""

from __future__ import annotations

from resolver.portal import portal


def dask_teardown(worker: object) -> None:
    portal().end()
