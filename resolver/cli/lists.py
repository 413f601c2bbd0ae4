"""What the lists of the command line hold, as their octets come: lines, digests of names, a Metalink's files.

A list is a file, standard input, or a URL that was fetched for it. What came from elsewhere nobody here has
looked at: its URLs are `derived`, whatever it says of them, and it is what led to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from protocols.errors import InvalidUrl, LocalError
from protocols.values import NamedTuple
from resolver.cli import streams
from resolver.cli.arguments import ONLINE
from resolver.lists.listed import BadItem, ListedFile
from resolver.lists.names import parts_of, safe_path
from resolver.lists.sums import ListedDigest, parse_sum
from resolver.retrieval.naming import beside
from resolver.url import parse, redact

if TYPE_CHECKING:
    from protocols.contract import Origin, Url
    from resolver.cli.arguments import Command

#: A line, or a file of which more is known.
Item: TypeAlias = "str | ListedFile"

Report: TypeAlias = Callable[[LocalError], None]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
#: Octets by which the first line of a list tells what it is.
_BEGINNING = 128
_AT_ONCE = 65_536


class FetchedList(NamedTuple):
    """A list from elsewhere: all of it, the URL that it came from in the end, and the address."""

    octets: bytes
    url: Url
    address: str | None


class ListSource(NamedTuple):
    """One list. `base` is where the names in it are, and `fetched` says that it is from elsewhere."""

    name: str
    pieces: Iterator[bytes]
    origin: Origin
    referrer: tuple[str, str | None] | None
    base: Url | None
    fetched: bool


def is_url(name: str) -> bool:
    """Is a list to be fetched? Of a file whose name reads like this `./` tells."""
    return _URL.match(name) is not None


def sources(command: Command, fetched: Mapping[str, FetchedList]) -> Iterator[ListSource]:
    """The lists of the command line, but those that could not be fetched. Raises `LocalError`."""
    referrer = None if command.referrer is None else (redact(command.referrer), None)
    for name in command.lists:
        if (found := fetched.get(name)) is not None:
            led = (found.url.shown, found.address)
            yield ListSource(redact(name), _pieces(found.octets), "derived", led, found.url, fetched=True)
        elif is_url(name):
            if command.verb not in ONLINE:
                raise LocalError(f"{redact(name)}: {command.verb} fetches nothing, and so no list")
        else:
            base = None if command.referrer is None else parse(command.referrer)
            pieces = streams.read_list(name)
            yield ListSource(name, pieces, command.origin, referrer, base, fetched=False)


def _pieces(octets: bytes) -> Iterator[bytes]:
    """As a file would give them: nothing that is read later is held twice."""
    for start in range(0, len(octets), _AT_ONCE):
        yield octets[start : start + _AT_ONCE]


def items(source: ListSource, report: Report) -> Iterator[tuple[str, Item]]:
    """What is in a list, and where it stands in it. `report` is told of what is wrong with one file. Raises
    `LocalError` for what cannot be read on."""
    from resolver.lists.metalink import is_metalink  # whose parser takes as long as a bare start

    held = b""
    for piece in source.pieces:
        held += piece
        first = held.lstrip()
        if len(first) >= _BEGINNING or b"\n" in first or len(held) >= streams.MOST_LINE:
            break
    pieces = chain((held,), source.pieces)
    if is_metalink(held) or source.name.lower().endswith(".meta4"):
        yield from _files(source.name, pieces, report)
    else:
        yield from _lines(source, pieces, report)


def _files(name: str, pieces: Iterable[bytes], report: Report) -> Iterator[tuple[str, Item]]:
    from resolver.lists.metalink import BrokenList, MetalinkReader

    reader = MetalinkReader()
    try:
        for item in chain(chain.from_iterable(map(reader.feed, pieces)), reader.finish()):
            if isinstance(item, BadItem):
                report(LocalError(f"{name}: {item}"))
            else:
                yield name, item
    except BrokenList as error:
        raise LocalError(f"{name}: {error}") from error


def _lines(source: ListSource, pieces: Iterable[bytes], report: Report) -> Iterator[tuple[str, Item]]:
    for number, line in enumerate(streams.list_lines(source.name, pieces), 1):
        if not line.strip() or line.startswith("#"):
            continue
        where = f"{source.name}, line {number}"
        try:
            found = parse_sum(line)
            yield where, line if found is None else _file(found, source, where)
        except BadItem as error:
            report(LocalError(f"{where}: {error}"))


def _file(found: ListedDigest, source: ListSource, where: str) -> ListedFile:
    """The file of that name, where the list is from. Raises `BadItem`, and `LocalError` for a list that could
    be from anywhere."""
    if source.base is None:
        raise LocalError(
            f"{where}: a digest and a name, and no URL: --referrer says from which URL the list is "
            "(-i URL fetches it from there)"
        )
    parts = parts_of(found.name)
    try:
        url = beside(source.base, *parts)
    except InvalidUrl as error:
        raise BadItem(error.message) from error
    if url is None:
        raise LocalError(f"{where}: a {source.base.scheme} URL has no directory that names could be in")
    return ListedFile(urls=(url.text,), name=safe_path(parts), checksum=found.checksum)
