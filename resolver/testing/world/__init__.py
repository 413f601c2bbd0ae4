"""Deterministic simulation testing with fault injection: the real code against simulated faults.

The session, the network gate, the code for files and the ledger run unchanged in one process. A `World` has a
virtual clock, a simulated network, and a simulated disk. The network carries TCP connections, with or without
TLS, and UDP datagrams. A `Schedule` lists the injected faults of a run. `Schedule.draw` derives all faults
from one seed. Two runs with the same seed are equal. `shrink` removes each fault from a failing schedule that
is not necessary for the failure (shrinking).

The session runs under trio or under asyncio (`World(…, loop="asyncio")`). The simulated servers always run
under trio, in the same thread and with the same virtual clock. The seed also determines the order of tasks.

A `World` replaces these names, and only during `World.live` and `World.command`:

- `resolver.network.connecting.connect_to`, the function that opens a TCP connection
- `resolver.network.tls.WrappedSocket`, the class of TLS sockets
- the function that opens a UDP socket in `resolver.network.datagrams`, and the random numbers of exchanges
- the event loop that `resolver.loops.running` returns, for DNS lookups and worker threads
- the name `os` in the modules of `resolver.files`, and the name `sqlite3` in the ledger
"""

from __future__ import annotations

from resolver.testing.world.datagrams import Answer as Answer
from resolver.testing.world.disk import Disk as Disk
from resolver.testing.world.network import Handler as Handler
from resolver.testing.world.network import WorldNetwork as WorldNetwork
from resolver.testing.world.schedule import Fault as Fault
from resolver.testing.world.schedule import Hung as Hung
from resolver.testing.world.schedule import Killed as Killed
from resolver.testing.world.schedule import Kind as Kind
from resolver.testing.world.schedule import Schedule as Schedule
from resolver.testing.world.schedule import shrink as shrink
from resolver.testing.world.world import LoopName as LoopName
from resolver.testing.world.world import World as World
