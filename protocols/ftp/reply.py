"""Replies on the control connection: read, judged by the first digit, shown (RFC 959 4.2, RFC 1123 4.1.2).

A reply is `ddd SP text`, or `ddd-text` and whatever follows up to a line that starts with the same
digits and a blank. Inside the octets may lie Telnet's (RFC 854): they are taken out before a line is
looked at, because an option may be the octet LF. The text of a reply is for people; the few values
that are read from one have parsers in `facts` and `passive`.
"""

from __future__ import annotations

import re
from collections.abc import Generator

from protocols.errors import Disconnected, LimitExceeded, ProtocolError
from protocols.options import Limits
from protocols.values import NamedTuple
from protocols.wire import Buffer, Reader

#: Servers under test send 300 lines of 17,000 octets; none of a kind that is meant to be read sends more.
REPLY_LIMIT = 1_048_576

_IAC = 0xFF
_WILL, _WONT, _DO, _DONT = 0xFB, 0xFC, 0xFD, 0xFE
_TELNET = re.compile(rb"\xff(?:([\xfb-\xfe])(.)|([\xf0-\xfa\xff]))", re.DOTALL)
_FIRST_LINE = re.compile(rb"[1-5][0-9][0-9](?:[ -]|\Z)")
#: Compiled by the first text that is shown.
_UNSHOWN = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"


class ControlReply(NamedTuple):
    """One reply. `lines` are its lines without code and line end, as octets. `options` are the
    Telnet verbs and options the peer asked for in it: each wants a refusal (RFC 854)."""

    code: int
    lines: tuple[bytes, ...] = (b"",)
    options: tuple[tuple[int, int], ...] = ()

    @property
    def octets(self) -> bytes:
        """The text as it came, lines joined by LF."""
        return b"\n".join(self.lines)

    @property
    def text(self) -> str:
        """The text for a person: nothing in it can drive a terminal."""
        return shown_text(self.octets)

    @property
    def shown(self) -> str:
        """Code and text for a message."""
        return f"{self.code} {self.text}".rstrip()

    def hiding(self, secret: bytes) -> ControlReply:
        """The same without `secret`, which servers may repeat: nothing made of it shows that."""
        if not secret or secret not in self.octets:
            return self
        return self._replace(lines=tuple(line.replace(secret, b"****") for line in self.lines))

    @property
    def preliminary(self) -> bool:
        return self.code < 200

    @property
    def good(self) -> bool:
        """2yz: the first digit decides (RFC 1123 4.1.2.11)."""
        return 200 <= self.code < 300

    @property
    def intermediate(self) -> bool:
        return 300 <= self.code < 400

    @property
    def refused(self) -> bool:
        return self.code >= 400


def shown_text(octets: bytes) -> str:
    """Octets of a peer for display: UTF-8, else escaped; controls and direction marks escaped."""
    return re.sub(_UNSHOWN, _escape, octets.decode("utf-8", "surrogateescape"))


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    if 0xDC80 <= number <= 0xDCFF:
        number -= 0xDC00
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def read_reply(limits: Limits) -> Reader[ControlReply]:
    """A reader for one whole reply.

    Raises `ProtocolError` for what is no reply and for NUL, `LimitExceeded` (`line` above the limit
    of a line, `lines` above that of lines or 1 MiB in all), `Disconnected` at the end.
    """

    def reader(buffer: Buffer) -> Generator[None, None, ControlReply]:
        options: list[tuple[int, int]] = []
        raw = yield from _take_line(buffer, limits.line)
        taken = len(raw)
        first = _clean(raw, options)
        if _FIRST_LINE.match(first) is None:
            raise ProtocolError(
                f"a reply has to start with three digits, this one with {first[:20].decode('latin-1')!r}"
            )
        lines = [first[4:]]
        if first[3:4] == b"-":
            end = first[:3] + b" "
            while True:
                raw = yield from _take_line(buffer, limits.line)
                taken += len(raw)
                line = _clean(raw, options)
                if line.startswith(end):
                    lines.append(line[4:])
                    break
                lines.append(line)
                _check_size(len(lines), taken, limits)
        _check_size(len(lines), taken, limits)
        return ControlReply(int(first[:3]), tuple(lines), tuple(options))

    return reader


def _check_size(lines: int, octets: int, limits: Limits) -> None:
    if lines > limits.lines:
        raise LimitExceeded("lines", f"a reply has more than {limits.lines} lines")
    if octets > REPLY_LIMIT:
        raise LimitExceeded("lines", f"a reply is longer than {REPLY_LIMIT} octets")


def _take_line(buffer: Buffer, limit: int) -> Generator[None, None, bytes]:
    """The octets up to and with the LF that ends a line; an LF that is a Telnet option ends none. Each
    octet is looked at once: options can come in any number."""
    pieces: list[bytes] = []
    taken = 0
    while True:
        index = buffer.find(b"\n", limit - taken)
        if index >= 0:
            pieces.append(buffer.take(index + 1))
            taken += index + 1
            if not _is_option(pieces[-1]):
                return b"".join(pieces)
        elif taken + len(buffer) >= limit:
            raise LimitExceeded("line", f"a line of a reply is longer than {limit} octets")
        elif buffer.at_end:
            raise Disconnected("the server closed the control connection")
        else:
            yield


def _is_option(raw: bytes) -> bool:
    """Is the last octet the option of a Telnet negotiation?"""
    if raw[-3:-2] != b"\xff" or raw[-2] < _WILL or raw[-2] > _DONT:
        return False
    return any(match.end() == len(raw) for match in _TELNET.finditer(raw))


def _clean(raw: bytes, options: list[tuple[int, int]]) -> bytes:
    """A line without its end and without Telnet, whose requests go to `options`."""
    if _IAC in raw:
        options += [(m[1][0], m[2][0]) for m in _TELNET.finditer(raw) if m[1]]
        raw = _TELNET.sub(lambda match: b"\xff" if match[3] == b"\xff" else b"", raw)
    line = raw[:-2] if raw.endswith(b"\r\n") else raw[:-1]
    if b"\0" in line:
        raise ProtocolError("a reply holds the octet NUL")
    return line
