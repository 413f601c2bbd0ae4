"""Lists that need a cluster, run on a cluster: 40 hosts with a request log, and processes that are killed."""
