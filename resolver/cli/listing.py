"""The output of `ls`.

Entries are printed as they arrive, in the order of the server. With `--sort`, they are printed after the last
entry has arrived. In the long format and on a terminal, the name of a directory ends in a slash. On a
terminal, names have the colors of LS_COLORS. On a narrow terminal, the lines of the long format are
shortened. All other output is plain names, one per line, or JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from protocols.contract import Entry
from protocols.errors import LimitExceeded, NotFound
from protocols.location import Kind
from protocols.text import instant
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.output import BufferedLines
from resolver.cli.targets import CommandTarget
from resolver.policy.environment import read_colors
from resolver.terminal.text import cut_to_width, escape_line, measure_width
from resolver.transfer.session import Resolver
from resolver.transfer.streaming import StreamingResponse, listing_line, long_line
from resolver.trees.order import ORDERS

# The long format on a narrow terminal. Columns and names are shortened, so that each entry fits on one line.
# All other output has the full text.

#: Minimum columns of a terminal on which the lines of the long format are not shortened.
MIN_COLUMNS = 80
#: Minimum columns of a shortened name. On an even narrower terminal, lines wrap.
_MIN_NAME = 8
_ELLIPSIS = "…"
_SIZE_WIDTH = 6
_UNITS = "KMGTPE"


def short_columns(entry: Entry, number: int) -> str:
    """Format the kind, size, date and number of an entry; `~` marks an approximate value."""
    return f"{entry.kind.value[:3]:<3} {_size(entry):>{_SIZE_WIDTH}} {_day(entry):<11} {number:>4} "


def fit(text: str, columns: int) -> str:
    """Shorten a text to a width: its start and its end are preserved, and the middle is removed."""
    columns = max(columns, _MIN_NAME)
    if measure_width(text) <= columns:
        return text
    end = cut_to_width(text[::-1], (columns - 1) // 3)[::-1]
    return cut_to_width(text, columns - 1 - measure_width(end)) + _ELLIPSIS + end


def _size(entry: Entry) -> str:
    """Format the size in at most `_SIZE_WIDTH` characters; a large size is rounded down and has a unit."""
    if entry.size is None:
        size_text = (entry.extra or {}).get("size_text")
        text = re.sub(r"[^0-9.,A-Za-z]", "", size_text) if isinstance(size_text, str) else ""
        return f"~{text}"[:_SIZE_WIDTH] if text else "-"
    size, unit = entry.size, ""
    for letter in _UNITS:
        if len(f"{size}{unit}") < _SIZE_WIDTH:
            break
        size, unit = size // 1024, letter
    return f"~{size}{unit}" if unit else str(size)


def _day(entry: Entry) -> str:
    if (moment := instant(entry.modified)) is not None:
        return moment[:10]
    local = (entry.extra or {}).get("modified_local")
    return f"~{local[:10]}" if isinstance(local, str) and re.match(r"[0-9-]{10}", local) else "-"


#: A valid color of LS_COLORS. Only SGR parameters are valid, so other sequences never reach a terminal.
_COLOR = r"[0-9]{1,3}(?:;[0-9]{1,3}){0,9}"
#: The default colors of ls(1), for kinds of entries without a color in LS_COLORS.
_DEFAULT_COLORS = {"di": "01;34", "ln": "01;36"}
_MAX_LS_COLORS = 65_536


class EntryColors(NamedTuple):
    """The colors of names from LS_COLORS, by kind of entry and by file extension. Empty: no colors."""

    colors: Mapping[str, str]

    def paint(self, entry: Entry, shown: str) -> str:
        color = self._color(entry)
        return f"\x1b[{color}m{shown}\x1b[0m" if color else shown

    def _color(self, entry: Entry) -> str:
        match entry.kind:
            case Kind.DIRECTORY | Kind.GROUP:
                return self.colors.get("di", "")
            case Kind.LINK | Kind.SERVICE:
                return self.colors.get("ln", "")
            case Kind.DOCUMENT:
                ending = "*." + entry.name.rpartition(".")[2].lower() if "." in entry.name else ""
                return self.colors.get(ending, "") or self.colors.get("fi", "")
        return ""


def load_colors(environment: Mapping[str, str]) -> EntryColors:
    """Return the colors of LS_COLORS; NO_COLOR (no-color.org) and TERM=dumb disable all colors."""
    if environment.get("NO_COLOR") or environment.get("TERM", "dumb") == "dumb":
        return EntryColors({})
    words = environment.get("LS_COLORS", "")[:_MAX_LS_COLORS].split(":")
    pairs = dict(word.partition("=")[::2] for word in words if "=" in word)
    colors = {name.lower() if name.startswith("*") else name: color for name, color in pairs.items()}
    return EntryColors(
        {name: color for name, color in {**_DEFAULT_COLORS, **colors}.items() if re.fullmatch(_COLOR, color)}
    )


class EntryPrinter:
    """A formatter of entries as lines.

    An instance is callable, and numbers the entries in the order of the calls. The caller of `line` passes
    the number of the entry.
    """

    def __init__(self, command: Command, *, raw: bool) -> None:
        self._is_long = bool(command.long)
        self._is_terminal = streams.output_is_terminal()
        self._columns = streams.output_columns() if self._is_terminal and self._is_long else MIN_COLUMNS
        self._escape: Callable[[str], str] = escape_line if self._is_terminal and not raw else str
        self._colors = load_colors(read_colors()) if self._is_terminal else EntryColors({})
        self._count = 0

    def __call__(self, entry: Entry) -> str:
        self._count += 1
        return self.line(self._count, entry)

    def line(self, number: int, entry: Entry) -> str:
        name = self._escape(listing_line(entry))
        slash = "/" if entry.kind is Kind.DIRECTORY and (self._is_long or self._is_terminal) else ""
        if self._columns < MIN_COLUMNS:
            head = short_columns(entry, number)
            return head + self._colors.paint(entry, fit(name, self._columns - len(head) - len(slash))) + slash
        name = self._colors.paint(entry, name) + slash
        return long_line(entry, number, name) if self._is_long else name


async def show(reply: StreamingResponse, command: Command, session: Resolver) -> None:
    """Print all entries of a listing in the format that the options select."""
    async with BufferedLines() as lines:
        if command.sort is not None:
            await _show_sorted(reply, lines, command, session, command.sort)
        elif command.json:
            entries = reply.entries()
            async for entry in entries:
                await lines.add(streams.record_octets(entry.as_json()), more=entries.at_hand)
        else:
            shown = reply.lines(EntryPrinter(command, raw=session.policy.allow_raw))
            async for octets in shown:
                await lines.add(octets, more=shown.at_hand)


async def _show_sorted(
    reply: StreamingResponse, lines: BufferedLines, command: Command, session: Resolver, order: str
) -> None:
    numbered = sorted(await _collect_entries(reply, reply.limits.entries), key=ORDERS[order])
    shown = EntryPrinter(command, raw=session.policy.allow_raw)
    for number, entry in numbered:
        if command.json:
            octets = streams.record_octets(entry.as_json())
        else:
            octets = f"{shown.line(number, entry)}\n".encode("utf-8", "surrogateescape")
        await lines.add(octets, more=True)


async def _collect_entries(reply: StreamingResponse, max_entries: int) -> list[tuple[int, Entry]]:
    entries: list[tuple[int, Entry]] = []
    async for entry in reply.entries():
        if len(entries) == max_entries:
            message = f"more than {max_entries} entries to sort (omit --sort, or set --limit entries=N)"
            raise LimitExceeded("entries", message, url=reply.url)
        entries.append((len(entries) + 1, entry))
    return entries


async def follow(session: Resolver, target: CommandTarget, command: Command, number: int) -> CommandTarget:
    """Return the target of a listing entry by its number, with the origin `chosen`. Raises `NotFound`."""
    url = target.parse(command)
    async with session.listing(url, origin=target.origin, referrer=target.referrer) as reply:
        count = 0
        async for entry in reply.entries():
            count += 1
            if count == number:
                return _follow_entry(reply, target, entry, number)
        raise NotFound(f"the listing has {count} entries: no entry {number}", url=reply.url)


def _follow_entry(
    reply: StreamingResponse, target: CommandTarget, entry: Entry, number: int
) -> CommandTarget:
    if entry.url is None:
        shown = listing_line(entry)[:200]
        raise NotFound(f"entry {number} has no URL: {shown!r} ({entry.kind.value})", url=reply.url)
    referrer = None if entry.referrer is None else (entry.referrer.url, entry.referrer.address)
    return target._replace(url=entry.url, origin="chosen", referrer=referrer)
