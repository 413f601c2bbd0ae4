"""The lists that are URLs, fetched before anything of theirs is begun: judged like any other URL, and whole
in memory, as far as a body may be (S16)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from protocols.errors import LocalError, ResolveError
from resolver.cli.arguments import Command
from resolver.cli.lists import FetchedList, is_url
from resolver.cli.secrets import CommandSecrets
from resolver.retrieval.session import Resolver
from resolver.url import parse, redact


async def fetch_lists(
    session: Resolver, command: Command, secrets: CommandSecrets, report: Callable[[ResolveError], None]
) -> Mapping[str, FetchedList]:
    """Those that came, by their names; `report` is told of the others."""
    found: dict[str, FetchedList] = {}
    for name in filter(is_url, command.lists):
        try:
            found[name] = await _fetch(session, name, command, secrets)
        except ResolveError as error:
            report(error)
    return found


async def _fetch(session: Resolver, name: str, command: Command, secrets: CommandSecrets) -> FetchedList:
    url = parse(name, strict=command.strict, origin=command.origin)
    if command.origin == "user":
        secrets.admit(url)
    referrer = None if command.referrer is None else (redact(command.referrer), None)
    response = await session.fetch(url, origin=command.origin, referrer=referrer)
    if response.entries is not None:
        raise LocalError(
            f"{url.shown}: a {response.kind.value} is no list of URLs (ls --json makes one of it)"
        )
    last = url if not response.chain else parse(response.url)
    return FetchedList(response.content, last, None if response.proxy else response.peer)
