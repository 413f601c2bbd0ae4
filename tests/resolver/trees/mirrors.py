"""Helpers: a tree saved as a program would, by a walk and a batch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resolver import Finding, ResolveError, Resolver, Saved, parse
from resolver.transfer.batch import Batch, TaskResult
from resolver.transfer.queue import HostScheduler
from resolver.transfer.saving import Exists
from resolver.trees.listing import ListedDirectory
from resolver.trees.mirror import Inventory
from resolver.trees.robots import Robots
from resolver.trees.scope import Selection
from resolver.trees.walk import TreeDirectory, TreeFile, TreeWalk, WalkRequest


@dataclass
class Mirrored:
    """The outcomes of all items of a walk."""

    saved: list[Saved] = field(default_factory=list)
    listed: list[ListedDirectory] = field(default_factory=list)
    failed: dict[str, ResolveError] = field(default_factory=dict)
    warned: list[Finding] = field(default_factory=list)

    @property
    def fetched(self) -> list[str]:
        return sorted(each.requested_url for each in self.saved if not each.skipped)

    @property
    def left(self) -> dict[str, tuple[str, ...]]:
        """Return the URLs that were skipped, with the reasons."""
        alone = [each for each in self.saved if each.path is None]
        return {each.requested_url: tuple(finding.detail for finding in each.findings) for each in alone}

    @property
    def rules(self) -> set[str]:
        return {finding.rule for each in self.listed for finding in each.findings}


class _Work:
    def __init__(self, item: TreeFile | TreeDirectory, exists: Exists) -> None:
        self.item = item
        self._exists = exists
        self.host, self.scheme = item.host, item.scheme

    async def run(self) -> Saved | ListedDirectory | None:
        item = self.item
        if isinstance(item, TreeDirectory):
            return await item.run()
        return await item.fetch(
            lambda: item.session.save(
                item.url,
                item.path,
                exists=self._exists,
                make_directory=True,
                listings=False,
                listed=item.listed,
                origin=item.origin,
                referrer=item.referrer,
            )
        )


async def mirror(
    *urls: str,
    into: Path,
    exists: Exists = "fail",
    session: Resolver | None = None,
    heed: bool = False,
    inventory: Inventory | None = None,
    **wanted: Any,
) -> Mirrored:
    """Save trees into the directory `top` below `into`.

    Keywords of a `Selection` are taken out of `wanted`; all others are passed to `WalkRequest`.
    """
    chosen = {name: wanted.pop(name) for name in ("accept", "reject", "pattern") if name in wanted}
    found = Mirrored()

    async def take(result: TaskResult[Saved | ListedDirectory | None]) -> None:
        match result.value:
            case Saved() as saved:
                found.saved.append(saved)
            case ListedDirectory() as listed:
                found.listed.append(listed)
        if result.error is not None:
            work = result.task
            assert isinstance(work, _Work)
            found.failed[work.item.url.text] = result.error

    async with session or Resolver() as opened:
        hosts: HostScheduler[Any] = HostScheduler(lambda scheme, waiting: None)
        robots = Robots(opened, hosts.slow_down, lambda url, finding: found.warned.append(finding))
        walk = TreeWalk(opened, robots=robots if heed else None, inventory=inventory)
        try:
            for url in urls:
                top = os.path.join(into, "top")
                walk.add_tree(
                    WalkRequest(
                        url=parse(url),
                        below=str(into),
                        path=top,
                        selection=Selection(**chosen),
                        **wanted,
                    )
                )
            walk.close_input()
            await Batch(hosts, concurrency=3).run(_works(walk, exists), take)
        finally:
            walk.close()
    return found


async def _works(walk: TreeWalk, exists: Exists) -> Any:
    async for item in walk:
        yield _Work(item, exists)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return the paths of all files with their bytes, and of all directories with None."""
    found: dict[str, bytes | None] = {}
    for directory, folders, files in os.walk(folder):
        here = os.path.relpath(directory, folder)
        found |= {os.path.normpath(os.path.join(here, name)): None for name in folders}
        for name in files:
            path = os.path.join(directory, name)
            found[os.path.normpath(os.path.join(here, name))] = Path(path).read_bytes()
    return found


def plant(folder: Path, tree: Mapping[str, bytes | None]) -> Path:
    """Create the files and directories of a mapping as returned by `contents`."""
    for name, octets in tree.items():
        path = folder / name
        if octets is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(octets)
    return folder
