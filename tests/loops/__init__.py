"""Tests under asyncio and uvloop: the same results as under trio, and the effects of native cancellation."""
