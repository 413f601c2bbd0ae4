"""`get -r --delete`: what the source has no more is shown, and goes if the person says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from protocols.errors import LocalError
from protocols.location import JsonValue
from resolver.cli import outcome, streams
from resolver.cli.arguments import Command
from resolver.cli.output import put
from resolver.disk.names import is_directory
from resolver.disk.surplus import numbers_of
from resolver.tree.mirror import Inventory, Pruner, SurplusFile
from resolver.tree.walk import WalkRequest

#: Options whose files are ours, should they be in a tree.
_OURS = ("failed", "trace", "trace_html", "ledger", "cookies", "netrc_file", "config")

Going = tuple[Pruner, SurplusFile, str]


async def remove_surplus(
    tops: Sequence[WalkRequest], inventory: Inventory, command: Command, report: Callable[[LocalError], None]
) -> None:
    """Of all trees of a run that is over. `report` is told of what cannot be removed."""
    going = await trio.to_thread.run_sync(_find, tops, inventory, command)
    hidden = [each for each in going if not each[1].certain]
    if hidden and not command.found.yes and not command.found.dry_run:
        going = [each for each in going if each[1].certain]
        streams.complain(
            f"{len(hidden)} that pages of http do not list any more stay, for servers hide some names: "
            "--yes removes them"
        )
    for _, surplus, path in going:
        if not (command.found.yes or command.found.dry_run) or not (command.quiet or command.json):
            streams.complain(f"delete {path}{'/' * surplus.is_directory}")
    if command.found.dry_run:
        await _tell(going, command, done=False)
        return
    if not going or not (command.found.yes or await streams.ask(f"remove these {len(going)}?")):
        return
    gone = await trio.to_thread.run_sync(_remove, going, report)
    await _tell(gone, command, done=True)
    if not command.quiet:
        why = ", also what pages of http only do not list any more (--yes)" if hidden else ""
        streams.complain(f"{len(gone)} removed{why}")


def _find(tops: Sequence[WalkRequest], inventory: Inventory, command: Command) -> list[Going]:
    files = (getattr(command.found, name, None) for name in _OURS)
    spared = [numbers for file in files if file and (numbers := numbers_of(file)) is not None]
    found: list[Going] = []
    for top in tops:
        if is_directory(top.path):
            pruner = Pruner(top.path, inventory, top.selection.takes_local, spared)
            found += [(pruner, each, f"{top.path}/{'/'.join(each.parts)}") for each in pruner.surplus()]
    return found


def _remove(going: Sequence[Going], report: Callable[[LocalError], None]) -> list[Going]:
    gone = []
    for each in going:
        pruner, surplus, _ = each
        try:
            if pruner.drop(surplus):
                gone.append(each)
        except LocalError as error:
            report(error)
    return gone


async def _tell(going: Sequence[Going], command: Command, *, done: bool) -> None:
    records: list[dict[str, JsonValue]] = [outcome.removed(path, done=done) for _, _, path in going]
    if command.json:
        await put(b"".join(map(streams.record_octets, records)))
