"""Very many URLs over a cluster of Dask: planned by host, so that no host is asked for more than by one machine.

`plan` says what is asked for next, without a network; `slice` is what a worker does; `run` is all of it.
"""
