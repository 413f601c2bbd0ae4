"""`get -r --format mbox|maildir`: the articles of a group as messages, those that are there left alone."""

from __future__ import annotations

import os

from resolver.cli.arguments import Command
from resolver.cli.targets import CommandTarget
from resolver.disk.mailbox import Maildir, Mbox
from resolver.retrieval.response import Saved
from resolver.retrieval.session import Resolver
from resolver.tree.group import GroupMailbox, source_of


async def gather(session: Resolver, target: CommandTarget, command: Command) -> Saved:
    """One group. Raises `ResolveError`; the articles that came before are there."""
    url = target.parsed(command)
    is_file = command.found.format == "mbox"
    name = command.output
    if name is None:
        name = target.reserve(url, command, suffix=".mbox" if is_file else "")
    path = os.path.join(command.directory or "", name)
    source = source_of(url)
    box = Mbox(path, source, make_directory="/" in path) if is_file else Maildir(path, source)
    return await GroupMailbox(session, url, box, path, target.origin, target.referrer).run()
