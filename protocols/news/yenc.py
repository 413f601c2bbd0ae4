"""The decoder for yEnc (www.yenc.org, draft 1.3), which encodes binary files in the lines of an article.

A file begins with a line `=ybegin` and ends with a line `=yend`. In a part of a file, a line `=ypart` follows
`=ybegin`. Each byte is encoded as its value plus 42. If the encoded value is NUL, CR, LF or `=`, an escape
sequence is written: `=`, and then the encoded value plus 64. The decoder ignores lines outside a file.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from protocols.errors import ChecksumMismatch, IntegrityError, LimitExceeded, ProtocolError, Truncated
from protocols.options import Limits

#: The maximum number of digits of a size or an offset. No file system supports larger files.
_MAX_DIGITS = 18

_PLAIN = bytes((octet - 42) & 255 for octet in range(256))
_ESCAPE = re.compile(rb"=(.)", re.DOTALL)
_ESCAPED = [bytes(((octet - 64) & 255,)) for octet in range(256)]
_BROKEN_ESCAPE = re.compile(rb"=[\r\n]")
_KEYWORD = re.compile(rb"(?:\A|\n)=y(?:begin|part|end) ")
_NAME = re.compile(rb"(?:\A|\s)name=(.*)\Z", re.DOTALL)
_CRC = re.compile(rb"[0-9A-Fa-f]{1,8}")


class YencBegin(NamedTuple):
    """The start of a file or of a part of a file.

    `size` is the size of the file. The decoded bytes that follow belong to the byte range from `begin` to
    `end` of the file. If the file was posted in parts, `part` is the part's number, and `total` the number of
    parts if it is known.
    """

    name: bytes
    size: int
    begin: int
    end: int
    part: int | None = None
    total: int | None = None


class YencEnd(NamedTuple):
    """The end of a file or of a part.

    `error` is set if the size or the checksum differs from the announced value.

    `is_proved` is set if a checksum was compared. `crc32` is the checksum of the complete file. In the line
    `=yend` of a part, this checksum is optional.
    """

    error: IntegrityError | None
    is_proved: bool
    crc32: int | None


class YencDecoder:
    """A decoder of the lines of one article.

    `feed` accepts blocks of any size. `finish` must be called at the end.

    Raises:
        ProtocolError: a keyword line is invalid, or an escape has no character.
        LimitExceeded: a line is longer than the limit of lines.
    """

    def __init__(self, limits: Limits) -> None:
        self._max_line = limits.line
        self._waiting = bytearray()
        self._begin: YencBegin | None = None
        self._is_started = False
        self._received = 0
        self._crc = 0

    def feed(self, octets: bytes) -> Iterator[YencBegin | bytes | YencEnd]:
        """Yield the starts, decoded bytes and ends in these bytes of an article."""
        end = octets.rfind(b"\n") + 1
        if not end:
            self._hold(octets)
            return
        lines = bytes(self._waiting) + octets[:end]
        self._waiting.clear()
        self._hold(octets[end:])
        yield from self._read(lines)

    def finish(self) -> Iterator[YencBegin | bytes | YencEnd]:
        """Yield the results for the remaining bytes. A file without `=yend` ends with an error."""
        yield from self._read(bytes(self._waiting))
        self._waiting.clear()
        if self._begin is not None:
            wanted = self._begin.end - self._begin.begin
            yield self._end(
                Truncated("the article ends before =yend", received=self._received, expected=wanted)
            )

    def _hold(self, octets: bytes) -> None:
        if len(self._waiting) + len(octets) > self._max_line:
            raise LimitExceeded("line", f"a line of the article is longer than {self._max_line} bytes")
        self._waiting += octets

    def _read(self, lines: bytes) -> Iterator[YencBegin | bytes | YencEnd]:
        at = 0
        while found := _KEYWORD.search(lines, at):
            # `\A` matches only at the start of a complete line. A later match also includes the line end
            # before the line
            start = found.start() + found[0].startswith(b"\n")
            yield from self._decode(lines[at:start])
            end = lines.find(b"\n", start)
            end = len(lines) if end < 0 else end
            if end - start > self._max_line:
                raise LimitExceeded("line", f"a line of the article is longer than {self._max_line} bytes")
            yield from self._obey(lines[start:end].rstrip())
            at = end  # the line end stays in the buffer: a keyword's pattern begins with a line end
        yield from self._decode(lines[at:])

    def _decode(self, lines: bytes) -> Iterator[bytes]:
        if self._begin is None:
            return
        if _BROKEN_ESCAPE.search(lines) or lines.endswith(b"="):
            raise ProtocolError("a yEnc line ends in the middle of an escape sequence")
        unescaped = _ESCAPE.sub(lambda found: _ESCAPED[found[1][0]], b"".join(lines.splitlines()))
        if unescaped:
            self._check_start()
            octets = unescaped.translate(_PLAIN)
            self._received += len(octets)
            self._crc = zlib.crc32(octets, self._crc)
            yield octets

    def _check_start(self) -> None:
        if not self._is_started:
            raise ProtocolError("=ybegin has a part number, but =ypart is missing")

    def _obey(self, line: bytes) -> Iterator[YencBegin | YencEnd]:
        keyword, _, rest = line.partition(b" ")
        if keyword == b"=ybegin":
            if self._begin is not None:
                received, wanted = self._received, self._begin.end - self._begin.begin
                yield self._end(Truncated("=yend is missing", received=received, expected=wanted))
            self._begin = _parse_begin(rest)
            self._received = self._crc = 0
            self._is_started = self._begin.part is None
            if self._is_started:
                yield self._begin
        elif self._begin is None:
            return  # ignore a line outside a file, such as a quotation
        elif keyword == b"=ypart":
            if self._is_started:
                raise ProtocolError("=ypart without a part number in =ybegin, or a second one")
            self._begin = _add_range(self._begin, _fields(rest))
            self._is_started = True
            yield self._begin
        else:
            self._check_start()
            yield self._check_end(self._begin, _fields(rest))

    def _check_end(self, begin: YencBegin, fields: dict[bytes, bytes]) -> YencEnd:
        wanted = begin.end - begin.begin
        stated = _number(fields, b"size", "=yend")
        crc = _checksum(fields, b"crc32")
        # in the =yend of a part, `crc32` is the checksum of the complete file, and `pcrc32` of the part
        own = crc if begin.part is None else _checksum(fields, b"pcrc32")
        if begin.part is not None and own is None and begin.end == begin.size and begin.begin == 0:
            own = crc
        of_file = None if begin.part is None else crc
        if self._received < wanted:
            text = f"{self._received} of {wanted} bytes arrived"
            return self._end(Truncated(text, received=self._received, expected=wanted))
        if self._received > wanted or stated != wanted:
            text = f"the sizes differ: {wanted} announced, {stated} in =yend, {self._received} arrived"
            return self._end(ChecksumMismatch(text))
        if own is not None and own != self._crc:
            return self._end(ChecksumMismatch(f"CRC-32 expected {own:08x}, got {self._crc:08x}"))
        return self._end(None, is_proved=own is not None, crc32=of_file)

    def _end(
        self, error: IntegrityError | None, *, is_proved: bool = False, crc32: int | None = None
    ) -> YencEnd:
        self._begin = None
        return YencEnd(error, is_proved, crc32)


def _parse_begin(rest: bytes) -> YencBegin:
    """Parse the fields of `=ybegin`. The name comes last, because it may contain blanks."""
    found = _NAME.search(rest)
    if found is None:
        raise ProtocolError("=ybegin has no name")
    fields = _fields(rest[: found.start()])
    size = _number(fields, b"size", "=ybegin")
    _number(fields, b"line", "=ybegin")
    name = found[1].strip(b' "')
    if b"part" not in fields:
        return YencBegin(name, size, 0, size)
    part = _number(fields, b"part", "=ybegin")
    total = _number(fields, b"total", "=ybegin") if b"total" in fields else None
    if part < 1 or (total is not None and part > total):
        raise ProtocolError(f"=ybegin has part {part} of {total}")
    return YencBegin(name, size, 0, 0, part, total)


def _add_range(begin: YencBegin, fields: dict[bytes, bytes]) -> YencBegin:
    """Add the range of `=ypart` (with 1-based offsets)."""
    first, last = _number(fields, b"begin", "=ypart"), _number(fields, b"end", "=ypart")
    if not 1 <= first <= last <= begin.size:
        raise ProtocolError(f"=ypart has the range {first}-{last} of {begin.size} bytes")
    return begin._replace(begin=first - 1, end=last)


def _fields(rest: bytes) -> dict[bytes, bytes]:
    words = (word.partition(b"=") for word in rest.split())
    return {name.lower(): value for name, _, value in words}


def _show(value: bytes) -> str:
    return repr(value[:20].decode("latin-1"))


def _number(fields: dict[bytes, bytes], name: bytes, keyword: str) -> int:
    value = fields.get(name, b"")
    if not value.isdigit() or len(value) > _MAX_DIGITS:
        raise ProtocolError(f"{keyword} must have a number {name.decode()}, got {_show(value)}")
    return int(value)


def _checksum(fields: dict[bytes, bytes], name: bytes) -> int | None:
    """Return a checksum, possibly without its leading zeros, or None if the field is absent."""
    value = fields.get(name)
    if value is None:
        return None
    value = value.lower().removeprefix(b"0x")
    value = value.lstrip(b"0") or b"0"
    if _CRC.fullmatch(value) is None:
        raise ProtocolError(f"=yend must have a checksum {name.decode()}, got {_show(value)}")
    return int(value, 16)
