"""Many tasks at once, politely: which may start when (`hosts`, without I/O), who starts them (`engine`), and
what a task under way may ask and tell of its host (`turn`).

A task is work with one host. What it does, and what comes of it, nobody here knows.
"""

from resolver.batch.engine import AT_REST, WINDOW, Batch, Result, Task
from resolver.batch.hosts import CapOf, Hosts
from resolver.batch.turn import LONGEST_WAIT, GiveWay, Turn, current, is_push_back

__all__ = [
    "AT_REST",
    "LONGEST_WAIT",
    "WINDOW",
    "Batch",
    "CapOf",
    "GiveWay",
    "Hosts",
    "Result",
    "Task",
    "Turn",
    "current",
    "is_push_back",
]
