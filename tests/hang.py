"""How long a test waits for an event: so long that only a hang takes longer.

No test measures durations, because they depend on the machine. If a test is about a limit, all other limits
are set to `NEVER`, and a limit that fails to fire is a hang.
"""

from __future__ import annotations

#: Seconds after which any wait of a test counts as a hang, on the busiest machine.
HANG = 120.0

#: Seconds for a limit that the test is not about.
NEVER = 10_000.0
