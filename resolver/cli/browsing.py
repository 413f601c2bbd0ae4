"""What a person sees in a browser: it is led to the window that runs, or to one that is begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from protocols.contract import Url
from protocols.errors import UnsupportedScheme
from protocols.extras import missing_libraries
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.browser import lead
from resolver.cli.serving import findable, wishes_of
from resolver.cli.targets import CommandTarget
from resolver.policy import judge
from resolver.retrieval.session import Resolver

if TYPE_CHECKING:
    from resolver.warc.archive import Archive


async def browse(session: Resolver, url: Url, target: CommandTarget, command: Command) -> None:
    """Show what the URL says, before anything is sent. Where no window runs, until a signal comes. Raises
    `Refused` for what whoever chose it may not open, and `UnsupportedScheme` without the extra."""
    if target.origin != "user":  # pages know who looks at them, and no one else
        error = judge(url, session.policy, origin=target.origin).error(url)
        if error is not None:
            raise error
    from resolver.window.running import found_entry

    is_now = session.archive is None  # as what a window that runs shows
    there = await trio.to_thread.run_sync(found_entry, url.text) if is_now else None
    if there is None:
        return await _begin(url, command, session.archive)
    window, address = there
    if not command.quiet:
        streams.complain(f"opened in the window of process {window.process}, whose settings hold there")
    await lead(address)


async def _begin(url: Url, command: Command, archive: Archive | None) -> None:
    try:
        from resolver.window.serve import serving
    except ModuleNotFoundError as error:
        what = f"a browser shows it, which needs {missing_libraries('web')}"
        raise UnsupportedScheme(url.scheme, what, url=url.shown) from error
    from resolver.window.listening import LOOPBACK

    own = wishes_of(command, archive)._replace(address=LOOPBACK, public=False, certificate=None)
    async with serving(own) as server:
        with findable(server, command):
            if not command.quiet:
                why = "no window runs" if archive is None else "the archive has a window of its own"
                streams.complain(f"{why}: this is one, until it is interrupted")
            await lead(server.entry(url.text))
            await trio.sleep_forever()
