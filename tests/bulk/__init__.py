"""Lists that take a cluster, against a cluster: 40 hosts that keep a log, and processes that are killed."""
