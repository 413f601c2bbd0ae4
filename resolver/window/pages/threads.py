"""Articles as threads: each below the last of its References that is here (RFC 5322 3.6.4).

Who wrote an article chose its Message-ID and its References, so they may name each other in a circle, name
one that is gone, or name an ID twice: then an article begins a thread of its own. The work grows with the
number of articles and of their references only, however deep a thread is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from protocols.contract import Entry
from protocols.values import NamedTuple
from resolver.window.pages.words import text_of


class ThreadNode(NamedTuple):
    """One article: `depth` is 0 for the first of its thread; `orphan`: it answers one that is not here.
    `replies` are all articles below it."""

    entry: Entry
    depth: int
    replies: int
    orphan: bool


def threads(entries: Sequence[Entry]) -> list[list[ThreadNode]]:
    """The newest thread first, which is that of the newest article; in a thread every answer stands below
    what it answers, in the order of the listing."""
    below, orphans = _children(entries)
    found: list[list[int]] = []
    depths = [-1] * len(entries)
    for root in below.pop(-1, []):
        found.append(_walk(root, below, depths))
    for number in range(len(entries)):
        if depths[number] < 0:  # in a circle: it begins here
            found.append(_walk(number, below, depths))
    found.sort(key=max, reverse=True)
    return [list(_nodes(thread, entries, depths, orphans)) for thread in found]


def _children(entries: Sequence[Entry]) -> tuple[dict[int, list[int]], set[int]]:
    """Which articles stand directly below which, -1 for none; and those whose parent is not here."""
    numbers: dict[str, int] = {}
    for number, entry in enumerate(entries):
        numbers.setdefault(text_of(entry.extra, "message_id"), number)
    numbers.pop("", None)
    below: dict[int, list[int]] = {}
    orphans: set[int] = set()
    for number, entry in enumerate(entries):
        names = list(_references(entry))
        known = (numbers[name] for name in reversed(names) if numbers.get(name, number) != number)
        parent = next(known, -1)
        below.setdefault(parent, []).append(number)
        if names and (parent < 0 or numbers.get(names[-1]) != parent):
            orphans.add(number)
    return below, orphans


def _references(entry: Entry) -> Iterator[str]:
    said = (entry.extra or {}).get("references")
    for name in said if isinstance(said, list | tuple) else ():
        if isinstance(name, str):
            yield name.removeprefix("<").removesuffix(">")


def _walk(root: int, below: dict[int, list[int]], depths: list[int]) -> list[int]:
    """The thread from there on; what was met already is left where it is."""
    depths[root] = 0
    order: list[int] = []
    waiting = [root]
    while waiting:
        number = waiting.pop()
        order.append(number)
        for child in reversed(below.get(number, [])):
            if depths[child] < 0:
                depths[child] = depths[number] + 1
                waiting.append(child)
    return order


def _nodes(
    thread: list[int], entries: Sequence[Entry], depths: list[int], orphans: set[int]
) -> Iterator[ThreadNode]:
    replies = [0] * len(thread)
    for at in range(len(thread) - 1, -1, -1):
        end = at + 1
        while end < len(thread) and depths[thread[end]] > depths[thread[at]]:
            replies[at] += 1 + replies[end]
            end += 1 + replies[end]
    for at, number in enumerate(thread):
        yield ThreadNode(entries[number], depths[number], replies[at], number in orphans)
