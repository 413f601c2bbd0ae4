"""The head of a news article: header fields and dates (RFC 5322 2.2, RFC 5536 2.2).

Only CR LF ends a line. The first empty line ends the head. An article without an empty line has only a head.
The names of header fields are case-insensitive and may be repeated. The parser preserves the order of the
fields.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Generator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import TypeAlias

from protocols.dates import MONTHS
from protocols.errors import LimitExceeded
from protocols.news.response import undot_start
from protocols.options import Limits
from protocols.text import find_codec
from protocols.wire import Buffer, Reader

# Decoding of header fields for display (RFC 5322, RFC 2047). Decoding never fails.
#
# Old articles have 8-bit header fields without a declared charset. Bytes that are valid UTF-8 are decoded as
# UTF-8. Other bytes are decoded with the charset of the body, or as ISO 8859-1 if the article declares no
# charset. Encoded words (RFC 2047) are decoded afterwards. An invalid encoded word is not changed.

_ENCODED_WORD = r"=\?[^?\s]+\?[BbQq]\?[^?\s]*\?="
_WORD = re.compile(r"=\?([^?\s*]+)(?:\*[^?\s]*)?\?([BbQq])\?([^?\s]*)\?=")  # optional language: RFC 2231 5
_RUN = re.compile(rf"{_ENCODED_WORD}(?:\s*{_ENCODED_WORD})*")
_ESCAPE = re.compile(rb"=([0-9A-Fa-f]{2})")
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\s\";]+)", re.IGNORECASE)


def choose_charset(name: str) -> str | None:
    """Return the name of the charset if Python has a codec for the charset; otherwise return None."""
    return name if find_codec(name) is not None else None


def declared_charset(content_type: str | None) -> str | None:
    """Return the charset parameter of a Content-Type (RFC 2045 5.1), or None if unsupported."""
    match = None if content_type is None else _CHARSET.search(content_type)
    return None if match is None else choose_charset(match[1])


def decode_field(octets: bytes, charset: str | None = None) -> str:
    """Decode the value of a header field for display. `charset` is that of the article's body."""
    try:
        text = octets.decode("utf-8")
    except UnicodeError:
        text = _decode_8_bit(octets, charset)
    return (decode_words(text) if "=?" in text else text).strip()


def _decode_8_bit(octets: bytes, charset: str | None) -> str:
    codec = None if charset is None else find_codec(charset)
    if codec is not None:
        with suppress(UnicodeError):
            return octets.decode(codec)
    return octets.decode("latin-1")


def decode_words(text: str) -> str:
    """Decode the encoded words in a field's value, and join adjacent encoded words (RFC 2047)."""
    return _RUN.sub(_decode_run, text)


def _decode_run(match: re.Match[str]) -> str:
    """Decode a sequence of adjacent encoded words.

    White space between two encoded words is not part of the text. The bytes of adjacent encoded words with
    the same charset are joined before decoding, because a character may be split between two encoded words.
    """
    run = match[0]  # `re` copies the group for each access
    pieces: list[str] = []  # joined at the end, in linear time
    end, pending, charset = 0, bytearray(), ""
    for word in _WORD.finditer(run):
        octets = _decode_word(word)
        if octets is None or word[1].lower() != charset:
            pieces.append(_decode_pending(pending, charset))
            pending = bytearray()
        if octets is None:
            pieces.append(run[end : word.end()])
            charset = ""
        else:
            pieces.append("" if charset or end == 0 else run[end : word.start()])
            charset = word[1].lower()
            pending += octets
        end = word.end()
    return "".join([*pieces, _decode_pending(pending, charset)])


def _decode_pending(octets: bytearray, charset: str) -> str:
    return octets.decode(find_codec(charset) or "latin-1", "replace") if octets else ""


def _decode_word(word: re.Match[str]) -> bytes | None:
    """Return the bytes of an encoded word, or None if the charset is unsupported or the base64 is invalid."""
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


#: The maximum size of a head in bytes. Real heads have a few thousand bytes.
HEAD_LIMIT = 1_048_576

#: The end of a head: an empty line, or the end of the block.
_HEAD_END = re.compile(rb"\r\n\.?\r\n")

#: A header field; RFC 5322 4.5 allows blanks before the colon.
_FIELD = re.compile(rb"([!-9;-~]+)[ \t]*: ?(.*)", re.DOTALL)


#: The name of a header field as received, or empty for an invalid line, and the value as received, but
#: unfolded and without the blank after the colon.
HeaderField: TypeAlias = tuple[str, bytes]


class ArticleHead:
    """The header fields in the order received, including invalid lines.

    `charset` is the charset of the body from Content-Type, or None if the charset is not supported.
    """

    def __init__(self, fields: tuple[HeaderField, ...] = ()) -> None:
        self.fields = fields
        self._first = {name.lower(): raw for name, raw in reversed(fields)}
        content_type = self._first.get("content-type")
        self.charset = None if content_type is None else declared_charset(content_type.decode("latin-1"))

    def get_first(self, name: str) -> bytes | None:
        """Return the value of the first field `name`; `name` must be in lower case."""
        return self._first.get(name)

    def decode_first(self, name: str) -> str | None:
        """Return the decoded value of the first field `name`; `name` must be in lower case."""
        value = self._first.get(name)
        return None if value is None else decode_field(value, self.charset)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the names of all fields with their decoded values."""
        charset = self.charset
        return tuple([(name, decode_field(raw, charset)) for name, raw in self.fields if name])

    @property
    def date(self) -> datetime | None:
        value = self._first.get("date")
        return None if value is None else parse_date(value.decode("latin-1"))

    @property
    def message_id(self) -> bytes | None:
        """Return the message-id without angle brackets."""
        return strip_brackets(self.get_first("message-id") or b"")


def strip_brackets(octets: bytes) -> bytes | None:
    """Return the message-id between angle brackets, or None if the brackets are missing."""
    octets = octets.strip()
    return octets[1:-1] if octets.startswith(b"<") and octets.endswith(b">") and len(octets) > 2 else None


def parse_head(octets: bytes) -> ArticleHead:
    """Parse the header fields of an article up to the first empty line, without the body."""
    return _parse_lines(octets.split(b"\r\n"))


def _parse_lines(lines: list[bytes]) -> ArticleHead:
    fields: list[tuple[str, list[bytes]]] = []
    for line in lines[: lines.index(b"")] if b"" in lines else lines:
        if line[:1] in (b" ", b"\t") and fields:
            fields[-1][1].append(line)  # joined at the end: a field may have any number of lines
        elif match := _FIELD.fullmatch(line):
            fields.append((match[1].decode("ascii"), [match[2]]))
        else:
            fields.append(("", [line]))
    return ArticleHead(tuple([(name, b"".join(pieces)) for name, pieces in fields]))


def read_head(limits: Limits) -> Reader[ArticleHead]:
    """Return a reader for the head of an article at the beginning of the buffer.

    The reader does not consume the bytes, so the complete article can be read as one block afterwards. If the
    connection ends inside the head, the reader parses the bytes received so far. The truncation is reported
    later, when the block is read.

    Raises:
        LimitExceeded: the size of a line, the number of lines or the size of the head exceeds a limit.
    """

    def reader(buffer: Buffer) -> Generator[None, None, ArticleHead]:
        end = yield from _find_end(buffer)
        lines = undot_start(buffer.peek(end)).split(b"\r\n")
        _check_size(lines, limits)
        return _parse_lines(lines)

    return reader


def _find_end(buffer: Buffer) -> Generator[None, None, int]:
    """Return the offset of the end of the head, without its last line end.

    The head ends at an empty line, at the end of the block, or at the end of the connection.
    """
    while True:
        if buffer.startswith((b"\r\n", b".\r\n")):
            return 0
        match = _HEAD_END.search(buffer, buffer.searched, HEAD_LIMIT)
        if match is not None or buffer.at_end:
            buffer.searched = 0  # search from the start, because the next pattern is different
            return len(buffer) if match is None else match.start()
        buffer.searched = max(0, len(buffer) - 4)  # an incomplete end has at most 4 bytes
        if len(buffer) >= HEAD_LIMIT:
            raise LimitExceeded("lines", f"the head of an article is longer than {HEAD_LIMIT} bytes")
        yield


def _check_size(lines: list[bytes], limits: Limits) -> None:
    if len(lines) > limits.lines:
        raise LimitExceeded("lines", f"the head of an article has more than {limits.lines} lines")
    if max(map(len, lines)) > limits.line:
        raise LimitExceeded("line", f"a header line is longer than {limits.line} bytes")


# Lenient parsing of the date formats of news articles since 1982. An invalid date is parsed as None.
#
# The formats are: RFC 5322 3.3 and its obsolete forms, RFC 850 (`Friday, 19-Nov-82 16:14:55 EST`), RFC 1036,
# and the format of C's `ctime` (`Fri Nov 19 16:14:55 1982`). The day of the week is redundant and ignored.

_MAX_DATE = 200  # maximum length of a parsed date, in characters
_COMMENT = re.compile(r"\([^()]*\)")
_DAY_FIRST = re.compile(r"\b(\d{1,2})[\s-]+([a-z]{3})[a-z]*\.?[\s-]+(\d{2,4})\b", re.IGNORECASE)
_MONTH_FIRST = re.compile(r"\b([a-z]{3})[a-z]*\.?\s+(\d{1,2})\b(?!:)", re.IGNORECASE)
_YEAR = re.compile(r"(?<![:\d+-])(\d{4})\b(?!:)")
_TIME = re.compile(r"\b(\d{1,2}):(\d{2})(?::(\d{2}))?(?:\.\d+)?")
_ZONE = re.compile(r"([+-])(\d{2}):?(\d{2})\b|\b([a-z]{1,5})\b", re.IGNORECASE)

#: The offsets of time zone names from UTC, in hours (positive: east). According to RFC 5322 4.3, all other
#: names mean UTC, including the military letters.
_ZONES = {
    **{"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7},
    **{"ast": -4, "adt": -3, "akst": -9, "akdt": -8, "hst": -10},
    **{"wet": 0, "west": 1, "bst": 1, "met": 1, "mest": 2, "mez": 1, "mesz": 2, "cet": 1, "cest": 2},
    **{"eet": 2, "eest": 3, "msk": 3, "jst": 9, "kst": 9, "aest": 10, "aedt": 11, "nzst": 12, "nzdt": 13},
}


def parse_date(text: str) -> datetime | None:
    """Parse a Date field into a time in UTC, or return None for an invalid date."""
    text = _COMMENT.sub(" ", text[:_MAX_DATE])
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
    """Return the year, month and day in a date, or None if they are missing."""
    for match in _DAY_FIRST.finditer(text):
        if match[2].lower() in MONTHS:
            return _full_year(match[3]), MONTHS.index(match[2].lower()) + 1, int(match[1])
    year = _YEAR.search(text)
    for match in _MONTH_FIRST.finditer(text):
        if match[1].lower() in MONTHS and year is not None:
            return int(year[1]), MONTHS.index(match[1].lower()) + 1, int(match[2])
    return None


def _full_year(digits: str) -> int:
    """Return the year with four digits (RFC 5322 4.3).

    A year of two digits is in the range 1950 to 2049. A year of three digits is added to 1900.
    """
    year = int(digits)
    if len(digits) == 2:
        return year + (2000 if year < 50 else 1900)
    return year + 1900 if len(digits) == 3 else year


def _find_zone(text: str) -> timezone:
    match = _ZONE.search(text)
    if match is None:
        return UTC
    if match[4] is not None:
        return timezone(timedelta(hours=_ZONES.get(match[4].lower(), 0)))
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(offset if match[1] == "+" else -offset)
