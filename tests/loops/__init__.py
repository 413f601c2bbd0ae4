"""Under asyncio and uvloop: the same as under trio, and what only a native cancel can do."""
