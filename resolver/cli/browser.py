"""The person's own browser, which is started at the person's word."""

from __future__ import annotations

import webbrowser
from contextlib import suppress

import trio

from resolver.cli import streams


async def lead(address: str) -> None:
    """A browser there; where there is none, the person reads where to go."""
    shown = False
    with suppress(webbrowser.Error):
        shown = await trio.to_thread.run_sync(webbrowser.open, address, abandon_on_cancel=True)
    if not shown:
        streams.print_line(address)
        streams.flush()
