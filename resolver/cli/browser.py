"""The person's own browser, which is started at the person's word.

Every user of the machine reads the command lines of all processes, so an address with a token stands in none:
the browser is given a page of ours on the disk, which its owner alone may read and which redirects.
"""

from __future__ import annotations

import webbrowser
from contextlib import suppress
from html import escape
from pathlib import Path

import trio

from protocols.errors import LocalError
from resolver.cli import streams
from resolver.disk.own_file import write_passing
from resolver.environment import runtime_folder

#: Seconds for a browser to start and to read its page: as long as a token is good.
_PAGE_LASTS = 60.0
_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={address}">
<title>resolve</title>
<p><a href="{address}">Go on to resolve</a></p>
"""


async def lead(address: str) -> None:
    """Start a browser that goes to `address`; where there is none, print `address`."""
    shown = False
    page = _page_that_leads_to(address)
    if page is not None:
        with suppress(webbrowser.Error):
            shown = await trio.to_thread.run_sync(webbrowser.open, page, abandon_on_cancel=True)
    if not shown:
        streams.print_line(address)
        streams.flush()


def _page_that_leads_to(address: str) -> str | None:
    """Return the URL of a new file, or None where no file can be written."""
    folder = runtime_folder()
    if folder is None:
        return None
    octets = _PAGE.format(address=escape(address)).encode()
    try:
        path = write_passing(folder, ".entry.html", "page that leads a browser in", octets, _PAGE_LASTS)
    except LocalError as error:
        streams.complain(error.message)
        return None
    return Path(path).as_uri()
