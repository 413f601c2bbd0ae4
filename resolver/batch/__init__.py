"""Many tasks at once, politely: which may start when (`hosts`, without I/O), and who starts them (`engine`).

A task is work with one host. What it does, and what comes of it, nobody here knows.
"""

from resolver.batch.engine import WINDOW, Batch, Result, Task
from resolver.batch.hosts import Hosts

__all__ = ["WINDOW", "Batch", "Hosts", "Result", "Task"]
