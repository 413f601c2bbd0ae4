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
        self._buffer = bytearray()
        self._begin: YencBegin | None = None
        self._is_started = False
        self._received = 0
        self._crc = 0

    def feed(self, octets: bytes) -> Iterator[YencBegin | bytes | YencEnd]:
        """Yield the starts, decoded bytes and ends in these bytes of an article."""
        end = octets.rfind(b"\n") + 1
        if not end:
            self._store(octets)
            return
        lines = bytes(self._buffer) + octets[:end]
        self._buffer.clear()
        self._store(octets[end:])
        yield from self._read(lines)

    def finish(self) -> Iterator[YencBegin | bytes | YencEnd]:
        """Yield the results for the remaining bytes. A file without `=yend` ends with an error."""
        yield from self._read(bytes(self._buffer))
        self._buffer.clear()
        if self._begin is not None:
            size = self._begin.end - self._begin.begin
            yield self._end(
                Truncated("the article ends before =yend", received=self._received, expected=size)
            )

    def _store(self, octets: bytes) -> None:
        if len(self._buffer) + len(octets) > self._max_line:
            raise LimitExceeded("line", f"a line of the article is longer than {self._max_line} bytes")
        self._buffer += octets

    def _read(self, lines: bytes) -> Iterator[YencBegin | bytes | YencEnd]:
        at = 0
        while match := _KEYWORD.search(lines, at):
            # `\A` matches only at the start of a complete line. A later match also includes the line end
            # before the line
            start = match.start() + match[0].startswith(b"\n")
            yield from self._decode(lines[at:start])
            end = lines.find(b"\n", start)
            end = len(lines) if end < 0 else end
            if end - start > self._max_line:
                raise LimitExceeded("line", f"a line of the article is longer than {self._max_line} bytes")
            yield from self._handle_keyword(lines[start:end].rstrip())
            at = end  # the line end stays in the buffer: a keyword's pattern begins with a line end
        yield from self._decode(lines[at:])

    def _decode(self, lines: bytes) -> Iterator[bytes]:
        if self._begin is None:
            return
        if _BROKEN_ESCAPE.search(lines) or lines.endswith(b"="):
            raise ProtocolError("a yEnc line ends in the middle of an escape sequence")
        unescaped = _ESCAPE.sub(lambda escape: _ESCAPED[escape[1][0]], b"".join(lines.splitlines()))
        if unescaped:
            self._check_start()
            octets = unescaped.translate(_PLAIN)
            self._received += len(octets)
            self._crc = zlib.crc32(octets, self._crc)
            yield octets

    def _check_start(self) -> None:
        if not self._is_started:
            raise ProtocolError("=ybegin has a part number, but =ypart is missing")

    def _handle_keyword(self, line: bytes) -> Iterator[YencBegin | YencEnd]:
        keyword, _, rest = line.partition(b" ")
        if keyword == b"=ybegin":
            if self._begin is not None:
                received, size = self._received, self._begin.end - self._begin.begin
                yield self._end(Truncated("=yend is missing", received=received, expected=size))
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
            self._begin = _add_range(self._begin, _parse_fields(rest))
            self._is_started = True
            yield self._begin
        else:
            self._check_start()
            yield self._check_end(self._begin, _parse_fields(rest))

    def _check_end(self, begin: YencBegin, fields: dict[bytes, bytes]) -> YencEnd:
        size = begin.end - begin.begin
        end_size = _parse_number(fields, b"size", "=yend")
        crc = _parse_checksum(fields, b"crc32")
        # in the =yend of a part, `crc32` is the checksum of the complete file, and `pcrc32` of the part
        expected_crc = crc if begin.part is None else _parse_checksum(fields, b"pcrc32")
        if begin.part is not None and expected_crc is None and begin.end == begin.size and begin.begin == 0:
            expected_crc = crc
        file_crc = None if begin.part is None else crc
        if self._received < size:
            text = f"{self._received} of {size} bytes arrived"
            return self._end(Truncated(text, received=self._received, expected=size))
        if self._received > size or end_size != size:
            text = f"the sizes differ: {size} announced, {end_size} in =yend, {self._received} arrived"
            return self._end(ChecksumMismatch(text))
        if expected_crc is not None and expected_crc != self._crc:
            return self._end(ChecksumMismatch(f"CRC-32 expected {expected_crc:08x}, got {self._crc:08x}"))
        return self._end(None, is_proved=expected_crc is not None, crc32=file_crc)

    def _end(
        self, error: IntegrityError | None, *, is_proved: bool = False, crc32: int | None = None
    ) -> YencEnd:
        self._begin = None
        return YencEnd(error, is_proved, crc32)


def _parse_begin(rest: bytes) -> YencBegin:
    """Parse the fields of `=ybegin`. The name comes last, because it may contain blanks."""
    match = _NAME.search(rest)
    if match is None:
        raise ProtocolError("=ybegin has no name")
    fields = _parse_fields(rest[: match.start()])
    size = _parse_number(fields, b"size", "=ybegin")
    _parse_number(fields, b"line", "=ybegin")
    name = match[1].strip(b' "')
    if b"part" not in fields:
        return YencBegin(name, size, 0, size)
    part = _parse_number(fields, b"part", "=ybegin")
    total = _parse_number(fields, b"total", "=ybegin") if b"total" in fields else None
    if part < 1 or (total is not None and part > total):
        raise ProtocolError(f"=ybegin has part {part} of {total}")
    return YencBegin(name, size, 0, 0, part, total)


def _add_range(begin: YencBegin, fields: dict[bytes, bytes]) -> YencBegin:
    """Add the range of `=ypart` (with 1-based offsets)."""
    first, last = _parse_number(fields, b"begin", "=ypart"), _parse_number(fields, b"end", "=ypart")
    if not 1 <= first <= last <= begin.size:
        raise ProtocolError(f"=ypart has the range {first}-{last} of {begin.size} bytes")
    return begin._replace(begin=first - 1, end=last)


def _parse_fields(rest: bytes) -> dict[bytes, bytes]:
    words = (word.partition(b"=") for word in rest.split())
    return {name.lower(): value for name, _, value in words}


def _show(value: bytes) -> str:
    return repr(value[:20].decode("latin-1"))


def _parse_number(fields: dict[bytes, bytes], name: bytes, keyword: str) -> int:
    value = fields.get(name, b"")
    if not value.isdigit() or len(value) > _MAX_DIGITS:
        raise ProtocolError(f"{keyword} must have a number {name.decode()}, got {_show(value)}")
    return int(value)


def _parse_checksum(fields: dict[bytes, bytes], name: bytes) -> int | None:
    """Return a checksum, possibly without its leading zeros, or None if the field is absent."""
    value = fields.get(name)
    if value is None:
        return None
    value = value.lower().removeprefix(b"0x")
    value = value.lstrip(b"0") or b"0"
    if _CRC.fullmatch(value) is None:
        raise ProtocolError(f"=yend must have a checksum {name.decode()}, got {_show(value)}")
    return int(value, 16)
