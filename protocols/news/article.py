"""The head of an article: its header fields and dates (RFC 5322 2.2, RFC 5536 2.2).

Only CR LF ends a line. The first empty line ends the head; an article without an empty line has only a head.
Names of fields are case-insensitive and may be repeated; the order is kept.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Generator
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

from protocols.errors import LimitExceeded
from protocols.news.response import DataBlock
from protocols.options import Limits
from protocols.text import codec_of
from protocols.wire import Buffer, Reader

# Decoding of header fields for display (RFC 5322, RFC 2047). Decoding never fails.
#
# News header fields held 8-bit text long before articles declared a charset. Bytes that are valid UTF-8 are
# decoded as UTF-8. Other bytes are decoded in the charset that the article declares for its body, otherwise
# as ISO 8859-1. Encoded words are decoded afterwards; an invalid encoded word stays as written.

_ONE = r"=\?[^?\s]+\?[BbQq]\?[^?\s]*\?="
_WORD = re.compile(r"=\?([^?\s*]+)(?:\*[^?\s]*)?\?([BbQq])\?([^?\s]*)\?=")  # with a language (RFC 2231 5)
_RUN = re.compile(rf"{_ONE}(?:\s*{_ONE})*")
_ESCAPE = re.compile(rb"=([0-9A-Fa-f]{2})")
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\s\";]+)", re.IGNORECASE)


def choose_charset(name: str) -> str | None:
    """Return the charset if it can be decoded here, otherwise None."""
    return name if codec_of(name) is not None else None


def declared_charset(content_type: str | None) -> str | None:
    """Return the charset that a Content-Type declares (RFC 2045 5.1), if it is supported."""
    found = None if content_type is None else _CHARSET.search(content_type)
    return None if found is None else choose_charset(found[1])


def decode_field(octets: bytes, charset: str | None = None) -> str:
    """Decode the value of a header field; `charset` is the supported charset of the article's body."""
    return decode_words(_decode(octets, charset)).strip()


def _decode(octets: bytes, charset: str | None) -> str:
    for codec in ("utf-8", None if charset is None else codec_of(charset)):
        if codec is not None:
            try:
                return octets.decode(codec)
            except UnicodeError:
                pass
    return octets.decode("latin-1")


def decode_words(text: str) -> str:
    """Decode the encoded words in a field's value and join adjacent ones (RFC 2047)."""
    return _RUN.sub(_decode_run, text) if "=?" in text else text


def _decode_run(found: re.Match[str]) -> str:
    """Decode a run of encoded words.

    White space between two encoded words is not part of the text. A character may be split between two words
    of the same charset, so their bytes are joined before decoding.
    """
    text, end, pending, charset = "", 0, b"", ""
    for word in _WORD.finditer(found[0]):
        octets = _decode_word(word)
        if octets is None or word[1].lower() != charset:
            text, pending = text + _show(pending, charset), b""
        if octets is None:
            text, charset = text + found[0][end : word.end()], ""
        else:
            text += "" if charset or end == 0 else found[0][end : word.start()]
            charset, pending = word[1].lower(), pending + octets
        end = word.end()
    return text + _show(pending, charset)


def _show(octets: bytes, charset: str) -> str:
    return octets.decode(codec_of(charset) or "latin-1", "replace") if octets else ""


def _decode_word(word: re.Match[str]) -> bytes | None:
    """Return the bytes of an encoded word; None for an unsupported charset or invalid base64."""
    if choose_charset(word[1].lower()) is None:
        return None
    try:
        encoded = word[3].encode("ascii")
        if word[2] in "Bb":
            return binascii.a2b_base64(encoded + b"=" * (-len(encoded) % 4), strict_mode=True)
    except ValueError:  # the base class of binascii.Error and UnicodeError
        return None
    plain = encoded.replace(b"_", b" ")
    if plain.count(b"=") != len(_ESCAPE.findall(plain)):
        return None
    return _ESCAPE.sub(lambda escape: bytes((int(escape[1], 16),)), plain)


#: The maximum size of a head in bytes; the reader stops there. Real heads have a few thousand bytes.
HEAD_LIMIT = 1_048_576

_NAME = re.compile(rb"[!-~]+")


class HeaderField(NamedTuple):
    """A header field.

    `name` is as written, or empty for an invalid line. `raw` is the value as written, but unfolded and
    without the blank after the colon.
    """

    name: str
    raw: bytes


class ArticleHead(NamedTuple):
    """The header fields in order, including invalid lines."""

    fields: tuple[HeaderField, ...] = ()

    def get_first(self, name: str) -> bytes | None:
        """Return the value of the first field with that (lower-case) name."""
        return next((field.raw for field in self.fields if field.name.lower() == name), None)

    @property
    def charset(self) -> str | None:
        """Return the charset that Content-Type declares for the body, if it is supported."""
        value = self.get_first("content-type")
        return None if value is None else declared_charset(value.decode("latin-1"))

    def decode_first(self, name: str) -> str | None:
        """Return the decoded value of the first field with that name."""
        value = self.get_first(name)
        return None if value is None else decode_field(value, self.charset)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Return names and decoded values."""
        charset = self.charset
        return tuple((field.name, decode_field(field.raw, charset)) for field in self.fields if field.name)

    @property
    def date(self) -> datetime | None:
        value = self.get_first("date")
        if value is None:
            return None

        return parse_date(value.decode("latin-1"))

    @property
    def message_id(self) -> bytes | None:
        """Return the message-id without its angle brackets."""
        return strip_brackets(self.get_first("message-id") or b"")

    @property
    def strays(self) -> int:
        """Return the number of lines that are not header fields."""
        return sum(not field.name for field in self.fields)


def strip_brackets(octets: bytes) -> bytes | None:
    """Return the message-id in `<…>`, or None for anything else."""
    octets = octets.strip()
    return octets[1:-1] if octets.startswith(b"<") and octets.endswith(b">") and len(octets) > 2 else None


def parse_head(octets: bytes) -> ArticleHead:
    """Parse the fields before the first empty line; the rest is ignored."""
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
    name = name.rstrip(b" \t")  # RFC 5322 4.5 allows blanks before the colon
    if not colon or _NAME.fullmatch(name) is None:
        return HeaderField("", line)
    return HeaderField(name.decode("ascii"), value.removeprefix(b" "))


def read_head(limits: Limits) -> Reader[ArticleHead]:
    """Return a reader for the head of an article that starts at the beginning of the buffer.

    The reader leaves the bytes in the buffer, so the article can still be read as one block, head included.
    If the block is truncated, the reader parses the buffered part and does not report the truncation.

    Raises:
        LimitExceeded: a line, the number of lines or the head exceeds its limit.
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
    """Return the offset of the empty line, or of the end of the block, or the size of the buffer."""
    while True:
        if buffer.peek(3).startswith((b"\r\n", b".\r\n")):
            return 0
        searched = buffer.searched
        blank = buffer.find(b"\r\n\r\n", HEAD_LIMIT)
        buffer.searched = searched
        end = buffer.find(b"\r\n.\r\n", HEAD_LIMIT)
        found = [index for index in (blank, end) if index >= 0]
        if found or buffer.at_end:
            buffer.searched = 0  # the next search is for another pattern, so it starts at the beginning
            return min(found) + 2 if found else len(buffer)
        if len(buffer) >= HEAD_LIMIT:
            raise LimitExceeded("lines", f"the head of an article is longer than {HEAD_LIMIT} bytes")
        yield


def _check_size(head: bytes, limits: Limits) -> None:
    lines = head.split(b"\r\n")
    if len(lines) > limits.lines:
        raise LimitExceeded("lines", f"the head of an article has more than {limits.lines} lines")
    if any(len(line) > limits.line for line in lines):
        raise LimitExceeded("line", f"a header line is longer than {limits.line} bytes")


# Date parsing for all formats that programs have written since 1982. Parsing is lenient; the result is None
# if it fails.
#
# The formats are RFC 5322 3.3 and its obsolete forms, RFC 850 (`Friday, 19-Nov-82 16:14:55 EST`), RFC 1036,
# and the format of C's `ctime` (`Fri Nov 19 16:14:55 1982`). The day of the week is redundant and ignored.

_LONGEST = 200  # the maximum number of characters of a date that are parsed
_COMMENT = re.compile(r"\([^()]*\)")
_DAY_FIRST = re.compile(r"\b(\d{1,2})[\s-]+([a-z]{3})[a-z]*\.?[\s-]+(\d{2,4})\b", re.IGNORECASE)
_MONTH_FIRST = re.compile(r"\b([a-z]{3})[a-z]*\.?\s+(\d{1,2})\b(?!:)", re.IGNORECASE)
_YEAR = re.compile(r"(?<![:\d+-])(\d{4})\b(?!:)")
_TIME = re.compile(r"\b(\d{1,2}):(\d{2})(?::(\d{2}))?(?:\.\d+)?")
_ZONE = re.compile(r"([+-])(\d{2}):?(\d{2})\b|\b([a-z]{1,5})\b", re.IGNORECASE)

_MONTHS = {
    **{"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6},
    **{"jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12},
}
#: Time zone offsets in hours east of Greenwich. RFC 5322 4.3 interprets any other name as UTC, military
#: letters included.
_ZONES = {
    **{"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7},
    **{"ast": -4, "adt": -3, "akst": -9, "akdt": -8, "hst": -10},
    **{"wet": 0, "west": 1, "bst": 1, "met": 1, "mest": 2, "mez": 1, "mesz": 2, "cet": 1, "cest": 2},
    **{"eet": 2, "eest": 3, "msk": 3, "jst": 9, "kst": 9, "aest": 10, "aedt": 11, "nzst": 12, "nzdt": 13},
}


def parse_date(text: str) -> datetime | None:
    """Parse a Date field; return it in UTC, or None if it is invalid."""
    text = _COMMENT.sub(" ", text[:_LONGEST])
    time = _TIME.search(text)
    day = _find_day(text)
    if time is None or day is None:
        return None
    year, month, number = day
    hour, minute, second = int(time[1]), int(time[2]), min(int(time[3] or 0), 59)  # 60 is a leap second
    try:
        zone = _find_zone(text[time.end() :])
        return datetime(year, month, number, hour, minute, second, tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _find_day(text: str) -> tuple[int, int, int] | None:
    """Return year, month and day."""
    for found in _DAY_FIRST.finditer(text):
        if found[2].lower() in _MONTHS:
            return _full_year(found[3]), _MONTHS[found[2].lower()], int(found[1])
    year = _YEAR.search(text)
    for found in _MONTH_FIRST.finditer(text):
        if found[1].lower() in _MONTHS and year is not None:
            return int(year[1]), _MONTHS[found[1].lower()], int(found[2])
    return None


def _full_year(digits: str) -> int:
    """Return the year; two digits mean 1950 to 2049, three digits count from 1900 (RFC 5322 4.3)."""
    year = int(digits)
    if len(digits) == 2:
        return year + (2000 if year < 50 else 1900)
    return year + 1900 if len(digits) == 3 else year


def _find_zone(text: str) -> timezone:
    found = _ZONE.search(text)
    if found is None:
        return UTC
    if found[4] is not None:
        return timezone(timedelta(hours=_ZONES.get(found[4].lower(), 0)))
    offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
    return timezone(offset if found[1] == "+" else -offset)
