"""How long a test waits for what has to come: so long that only what hangs takes longer.

No test measures how long a thing takes, for that says more about the machine. Where a limit of ours has to
end something, nothing else does: the other limits are set to `NEVER`, and one that fails to fire is a hang.
"""

from __future__ import annotations

#: Seconds after which whatever a test waits for hangs, however busy the machine.
HANG = 120.0

#: Seconds for a limit that is not the one a test is about.
NEVER = 10_000.0
