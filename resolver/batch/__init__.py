"""Many tasks at once, politely: which may start when (`hosts`, without I/O), who starts them (`engine`), and
what a task under way may ask and tell of its host (`turn`).

A task is work with one host. What it does, and what comes of it, nobody here knows.
"""

from resolver.batch.engine import AT_REST, WINDOW, Batch, BatchTask, TaskResult
from resolver.batch.hosts import CapOf, HostScheduler
from resolver.batch.turn import LONGEST_WAIT, Requeue, TaskContext, current, is_push_back

__all__ = [
    "AT_REST",
    "LONGEST_WAIT",
    "WINDOW",
    "Batch",
    "BatchTask",
    "CapOf",
    "HostScheduler",
    "Requeue",
    "TaskContext",
    "TaskResult",
    "current",
    "is_push_back",
]
