"""A world in one process: the real session, gate, disk code and ledger against simulated faults.

A `World` has a virtual clock, a network in memory, and a directory on a disk that can fail. A `Schedule`
lists the faults of a run. `Schedule.draw` derives all faults from one seed, and the same seed gives the same
run. `shrink` removes the faults of a failing schedule that the failure does not need.

The world replaces few names, and only during `World.live`:

- `resolver.network.connecting.connect_to`, the function that opens a TCP connection
- the event loop that `resolver.loops.running` returns, for DNS lookups and worker threads
- the name `os` in the modules of `resolver.files`, and the name `sqlite3` in the ledger
"""

from __future__ import annotations

from resolver.testing.world.disk import Disk as Disk
from resolver.testing.world.network import Handler as Handler
from resolver.testing.world.network import WorldNetwork as WorldNetwork
from resolver.testing.world.schedule import Fault as Fault
from resolver.testing.world.schedule import Killed as Killed
from resolver.testing.world.schedule import Kind as Kind
from resolver.testing.world.schedule import Schedule as Schedule
from resolver.testing.world.schedule import shrink as shrink
from resolver.testing.world.world import Hung as Hung
from resolver.testing.world.world import World as World
