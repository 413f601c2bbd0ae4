"""Listings with one line for each entry in the body; the entries are not parsed from these lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from protocols.location import Entry

#: The minimum number of bytes of a block of the body, except of the last block.
_BLOCK_SIZE = 16_384
_LINE_END = re.compile(rb"[\x0a\x0d]")


def name_line(name: bytes) -> bytes:
    """Return a name as one line, with its line ends escaped."""
    if b"\n" in name or b"\r" in name:
        name = _LINE_END.sub(lambda match: b"\\x%02x" % match[0][0], name)
    return name + b"\n"


def join_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the body in blocks, each with several complete lines."""
    block = bytearray()
    for line in lines:
        block += line
        if len(block) >= _BLOCK_SIZE:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


class LineCountReader:
    """A listing reader that returns the next of its entries for each line of the body."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries

    def feed(self, octets: bytes) -> Iterator[Entry]:
        return islice(self._entries, octets.count(b"\n"))

    def finish(self) -> Iterator[Entry]:
        return iter(())
