"""The head of an article: its header fields (RFC 5322 2.2, RFC 5536 2.2).

Only CR LF ends a line here too. The first empty line ends the head; an article without one is all
head. Names compare without regard to case and may occur again; the order is kept.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TYPE_CHECKING

from protocols.errors import LimitExceeded
from protocols.news.block import DataBlock
from protocols.news.header_text import declared_charset, decode_field
from protocols.options import Limits
from protocols.values import NamedTuple
from protocols.wire import Buffer, Reader

if TYPE_CHECKING:
    from datetime import datetime

#: Octets of a head; what is larger is not waited for. Real ones have some thousand.
HEAD_LIMIT = 1_048_576

_NAME = re.compile(rb"[!-~]+")


class HeaderField(NamedTuple):
    """One header field. `name` is as written; `raw` is its value with the folds taken out and the one
    blank behind the colon, else as written. `name` is empty for a line that is no field."""

    name: str
    raw: bytes


class ArticleHead(NamedTuple):
    """The header fields in order, lines that are none among them."""

    fields: tuple[HeaderField, ...] = ()

    def first(self, name: str) -> bytes | None:
        """The value of the first field of that (lower-case) name."""
        return next((field.raw for field in self.fields if field.name.lower() == name), None)

    @property
    def charset(self) -> str | None:
        """What Content-Type declares for the body, if it is known here."""
        value = self.first("content-type")
        return None if value is None else declared_charset(value.decode("latin-1"))

    def decoded(self, name: str) -> str | None:
        """The value of the first field of that name for a reader."""
        value = self.first(name)
        return None if value is None else decode_field(value, self.charset)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Names and values for a reader."""
        charset = self.charset
        return tuple((field.name, decode_field(field.raw, charset)) for field in self.fields if field.name)

    @property
    def date(self) -> datetime | None:
        value = self.first("date")
        if value is None:
            return None
        from protocols.news.dates import parse_date  # a plan has no dates

        return parse_date(value.decode("latin-1"))

    @property
    def message_id(self) -> bytes | None:
        """Without its brackets."""
        return strip_brackets(self.first("message-id") or b"")

    @property
    def strays(self) -> int:
        """How many lines are no fields."""
        return sum(not field.name for field in self.fields)


def strip_brackets(octets: bytes) -> bytes | None:
    """The message-id in `<…>`; None for anything else."""
    octets = octets.strip()
    return octets[1:-1] if octets.startswith(b"<") and octets.endswith(b">") and len(octets) > 2 else None


def parse_head(octets: bytes) -> ArticleHead:
    """The fields before the first empty line; the rest is not looked at."""
    fields: list[HeaderField] = []
    lines = octets.split(b"\r\n")
    for line in lines[: lines.index(b"")] if b"" in lines else lines:
        if line.startswith((b" ", b"\t")) and fields:
            fields[-1] = HeaderField(fields[-1].name, fields[-1].raw + line)
        else:
            fields.append(_parse_field(line))
    return ArticleHead(tuple(fields))


def _parse_field(line: bytes) -> HeaderField:
    name, colon, value = line.partition(b":")
    name = name.rstrip(b" \t")  # RFC 5322 4.5 knows blanks before the colon
    if not colon or _NAME.fullmatch(name) is None:
        return HeaderField("", line)
    return HeaderField(name.decode("ascii"), value.removeprefix(b" "))


def read_head(limits: Limits) -> Reader[ArticleHead]:
    """A reader for the head of an article at whose beginning the buffer stands. It takes nothing: the
    article can still be read, head and all, as one block.

    Raises `LimitExceeded` for a line, a number of lines or a head beyond what is taken. A block that is
    cut is not this reader's to report: it gives what is there.
    """

    def reader(buffer: Buffer) -> Generator[None, None, ArticleHead]:
        end = yield from _find_end(buffer)
        copy = Buffer()
        copy.feed(buffer.peek(end))
        head = b"" if end == 0 else DataBlock().take(copy)
        _check_size(head, limits)
        return parse_head(head)

    return reader


def _find_end(buffer: Buffer) -> Generator[None, None, int]:
    """Octets up to the empty line or the end of the block, and all there are if neither comes."""
    while True:
        if buffer.peek(3).startswith((b"\r\n", b".\r\n")):
            return 0
        searched = buffer.searched
        blank = buffer.find(b"\r\n\r\n", HEAD_LIMIT)
        buffer.searched = searched
        end = buffer.find(b"\r\n.\r\n", HEAD_LIMIT)
        found = [index for index in (blank, end) if index >= 0]
        if found or buffer.at_end:
            buffer.searched = 0  # what is searched for next is something else
            return min(found) + 2 if found else len(buffer)
        if len(buffer) >= HEAD_LIMIT:
            raise LimitExceeded("lines", f"the head of an article is longer than {HEAD_LIMIT} octets")
        yield


def _check_size(head: bytes, limits: Limits) -> None:
    lines = head.split(b"\r\n")
    if len(lines) > limits.lines:
        raise LimitExceeded("lines", f"the head of an article has more than {limits.lines} lines")
    if any(len(line) > limits.line for line in lines):
        raise LimitExceeded("line", f"a header line is longer than {limits.line} octets")
