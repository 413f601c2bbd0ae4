"""Which of httpx's phases took too long, where two of them are waited in at once."""

from __future__ import annotations

from resolver.adapters.httpx_transport import HttpxTimeouts
from resolver.network.clock import Clock


async def test_silence_beside_what_is_said_is_nobodys_fault() -> None:
    times = HttpxTimeouts({}, Clock(None), None)
    told: list[str] = []
    times.begin_saying()
    times.late = "write"
    times.late = "read"  # whoever was woken last
    told.append(times.late)
    times.end_saying()
    times.late = "read"
    assert [*told, times.late] == ["write", "read"]
