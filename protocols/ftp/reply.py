"""FTP replies: their syntax, errors, and the values in their text (RFC 959 4.2, RFC 1123 4.1.2).

A reply is one line `ddd SP text`, or several lines. The first of several lines is `ddd-text`, and the last
line starts with the same digits and a blank. The bytes may contain Telnet commands (RFC 854). Telnet commands
are removed before a line is parsed, because the code of an option may be the byte LF. The text of a reply is
meant for the user. Some replies also contain values that the client needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, NamedTuple

from protocols.errors import (
    AccessDenied,
    Declined,
    Disconnected,
    LimitExceeded,
    LoginRequired,
    NotFound,
    ProtocolError,
    TryLater,
)
from protocols.options import Limits
from protocols.wire import Buffer, Reader, Rest

if TYPE_CHECKING:
    from datetime import datetime


#: The maximum size of a reply in bytes. Tested servers send replies of up to 300 lines and 17,000 bytes.
REPLY_LIMIT = 1_048_576

_IAC = 0xFF
_TELNET = re.compile(rb"\xff(?:([\xfb-\xfe])(.)|([\xf0-\xfa\xff]))", re.DOTALL)
_FIRST_LINE = re.compile(rb"[1-5][0-9][0-9](?:[ -]|\Z)")
#: A reply of one line without Telnet commands. Most replies have this form. One match needs half of the
#: instructions of the searches for the line end and for Telnet commands.
_ONE_LINE = re.compile(rb"([1-5][0-9][0-9])(?: ([^\0\r\n\xff]*))?\r?\n")
#: The characters that are escaped for display (terminal escape injection). `re` compiles the pattern on first
#: use.
_UNSHOWN = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"


class ControlReply(NamedTuple):
    """A reply of the server.

    `lines` are the lines as bytes, without code and line end. `options` are the Telnet verbs and options that
    the peer requested in the reply. The client must refuse each of these options (RFC 854).
    """

    code: int
    lines: tuple[bytes, ...] = (b"",)
    options: tuple[tuple[int, int], ...] = ()

    @property
    def octets(self) -> bytes:
        """Return the received text, with its lines joined by LF."""
        return b"\n".join(self.lines)

    @property
    def text(self) -> str:
        """Return the text of the reply without characters that control a terminal."""
        return shown_text(self.octets)

    @property
    def shown(self) -> str:
        """Return the code and the text of the reply for a message to the user."""
        return f"{self.code} {self.text}".rstrip()

    def hide_secret(self, secret: bytes) -> ControlReply:
        """Mask a secret that the server may have repeated in its reply."""
        if not secret or secret not in self.octets:
            return self
        return self._replace(lines=tuple(line.replace(secret, b"****") for line in self.lines))

    @property
    def preliminary(self) -> bool:
        return self.code < 200

    @property
    def good(self) -> bool:
        """Return whether the reply is 2yz. Only the first digit is compared (RFC 1123 4.1.2.11)."""
        return 200 <= self.code < 300

    @property
    def intermediate(self) -> bool:
        return 300 <= self.code < 400

    @property
    def refused(self) -> bool:
        return self.code >= 400


def shown_text(octets: bytes) -> str:
    """Decode bytes of a peer for display (prevents terminal escape injection).

    UTF-8 is decoded. Other bytes, control characters and direction marks are escaped.
    """
    text = octets.decode("utf-8", "surrogateescape")
    return text if text.isprintable() else re.sub(_UNSHOWN, _escape, text)


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    if 0xDC80 <= number <= 0xDCFF:
        number -= 0xDC00
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def read_reply(limits: Limits) -> Reader[ControlReply]:
    """Return a reader for one complete reply.

    The reader raises:

    - `ProtocolError` for bytes that are not a reply, and for NUL
    - `LimitExceeded`: the limit `line` for a line that is too long; the limit `lines` for too many lines, or
      for more than 1 MiB
    - `Disconnected` at the end of the connection
    """

    def reader(buffer: Buffer) -> Generator[None, None, ControlReply]:
        if not (buffer or buffer.at_end):
            yield
        match = _ONE_LINE.match(buffer)
        if match is not None and match.end() <= limits.line:
            code, text = match.groups(b"")
            del buffer[: match.end()]
            return ControlReply(int(code), (text,))
        options: list[tuple[int, int]] = []
        raw = yield from _take_line(buffer, limits.line)
        first = _clean(raw, options)
        if _FIRST_LINE.match(first) is None:
            raise ProtocolError(f"reply must start with three digits, got {first[:20].decode('latin-1')!r}")
        if first[3:4] != b"-":
            return ControlReply(int(first[:3]), (first[4:],), tuple(options))
        lines, size, line, end = [first[4:]], len(raw), b"", first[:3] + b" "
        while not line.startswith(end):
            raw = yield from _take_line(buffer, limits.line)
            size, line = size + len(raw), _clean(raw, options)
            lines.append(line)
            _check_size(len(lines), size, limits)
        lines[-1] = line[4:]
        return ControlReply(int(first[:3]), tuple(lines), tuple(options))

    return reader


def _check_size(lines: int, octets: int, limits: Limits) -> None:
    if lines > limits.lines:
        raise LimitExceeded("lines", f"reply exceeds {limits.lines} lines")
    if octets > REPLY_LIMIT:
        raise LimitExceeded("lines", f"reply exceeds {REPLY_LIMIT} bytes")


def _take_line(buffer: Buffer, limit: int) -> Generator[None, None, bytes]:
    """Return the next line, including its final LF.

    An LF that is the code of a Telnet option does not end a line. Each byte is examined only once, because a
    server can send any number of options (otherwise quadratic time).
    """
    start = 0  # the byte after the last option
    while True:
        index = buffer.search(b"\n", limit)
        if index >= 0:
            if buffer.find(_IAC, start, index) < 0 or not _is_option(buffer[start : index + 1]):
                return buffer.take(index + 1)
            start = buffer.searched = index + 1
        elif len(buffer) >= limit:
            raise LimitExceeded("line", f"line of a reply exceeds {limit} bytes")
        elif buffer.at_end:
            raise Disconnected("the server closed the control connection")
        else:
            yield


def _is_option(raw: bytearray) -> bool:
    """Return whether the last byte is the option code of a Telnet negotiation."""
    return any(match.end() == len(raw) for match in _TELNET.finditer(raw))


def _clean(raw: bytes, options: list[tuple[int, int]]) -> bytes:
    """Return a line without line end and Telnet commands, and add requested options to `options`."""
    if _IAC in raw:
        options += [(m[1][0], m[2][0]) for m in _TELNET.finditer(raw) if m[1]]
        raw = _TELNET.sub(lambda match: b"\xff" if match[3] == b"\xff" else b"", raw)
    line = raw[:-2] if raw.endswith(b"\r\n") else raw[:-1]
    if b"\0" in line:
        raise ProtocolError("reply contains a NUL byte")
    return line


# Refusals: errors for 4yz and 5yz replies. The message contains the server's text (RFC 959 4.2.2, RFC 2228,
# RFC 2428).
#
# The first digit determines the class of the error, except for the codes in the table. The code 550 means
# both "missing" and "not allowed". A client cannot distinguish these cases, so the message mentions both.

#: The texts of a server with too many users. ProFTPD: "Sorry, the maximum number of clients (2) for this user
#: already connected."; wu-ftpd: "Too many users"; others: "too many connections", "Maximum login limit has
#: been reached", "connection limit".
_FULL = (
    r"too many|max(imum|\.)?( allowed)?( number| clients| users| connections| logins?| sessions)|"
    r"(connection|user|client|login|session)s? limit|limit (is |has been |of \S+ )?(reached|exceeded)"
)

_MEANINGS: dict[int, tuple[type[Declined], str]] = {
    332: (LoginRequired, "the server needs an account, which a URL cannot give"),
    421: (TryLater, "the server closes the connection"),
    425: (TryLater, "the server cannot open a data connection"),
    426: (TryLater, "transfer aborted"),
    450: (TryLater, "busy or missing"),
    451: (TryLater, "server error"),
    452: (TryLater, "server error"),
    500: (Declined, "not implemented"),
    501: (Declined, "the server does not accept this argument"),
    502: (Declined, "not implemented"),
    504: (Declined, "not implemented for this argument"),
    522: (Declined, "the server requires another address family, or refuses TLS for the data connection"),
    530: (AccessDenied, "not logged in"),
    532: (LoginRequired, "the server needs an account, which a URL cannot give"),
    550: (NotFound, "missing or not allowed"),
    553: (AccessDenied, "this name is not allowed"),
}


def make_declined(reply: ControlReply, doing: str, hint: str = "") -> Declined:
    """Return the error for a refusal (4yz or 5yz) of the command `doing`."""
    if is_full(reply):
        return make_refusal(TryLater, reply, f"{doing}: too many users are logged in", hint)
    if reply.code in _MEANINGS:
        kind, meaning = _MEANINGS[reply.code]
    else:
        kind, meaning = (TryLater, "not now") if reply.code < 500 else (Declined, "refused")
    # no setting is an account
    return make_refusal(kind, reply, f"{doing}: {meaning}", hint).with_setting(None)


def is_full(reply: ControlReply) -> bool:
    """Return whether the server refuses a login because too many users are logged in.

    RFC 959 defines 421 for this case. Many servers send 530 instead. Only the text of the 530 reply shows
    that the server has too many users.
    """
    return reply.code == 530 and re.search(_FULL, reply.text, re.IGNORECASE) is not None


def make_refusal(kind: type[Declined], reply: ControlReply, message: str, hint: str = "") -> Declined:
    """Return an error of the class `kind` with the server's reply in its message."""
    words = f"{message}: the server said {reply.shown!r}"
    return kind(f"{words}; {hint}" if hint else words, code=str(reply.code), text=reply.text)


# Values in the text of a reply: 213 (RFC 3659 3 and 4) and 257 (RFC 959, appendix II). A missing or invalid
# value is not an error, because servers may omit each value.

_SIZE = re.compile(rb" *(\d{1,19}) *")
_LARGEST = 2**63 - 1
_TIME = re.compile(rb" *(?!19100)([0-9]{4})" + rb"([0-9]{2})" * 5 + rb"(?:\.[0-9]{1,9})? *")
_QUOTED = re.compile(rb'([^"]*(?:""[^"]*)*)"(?!")')
_CONTROLS = re.compile(rb"[\x00-\x1f\x7f]")


def parse_size(reply: ControlReply) -> int | None:
    """Return the number of bytes in a 213 reply to SIZE."""
    match = _SIZE.fullmatch(reply.octets)
    if match is None or (size := int(match[1])) > _LARGEST:
        return None
    return size


def parse_time(octets: bytes) -> datetime | None:
    """Parse `YYYYMMDDHHMMSS[.sss]` in UTC: a 213 reply to MDTM, or the MLSD fact `modify`.

    The result is `None` for a text that begins with `19100`. A server with the year 2000 bug sends this text
    for the year 2000, not for 1910.
    """
    match = _TIME.fullmatch(octets)
    if match is None:
        return None
    from protocols.dates import in_utc  # Lazy import: `explain` does not parse dates.

    return in_utc(match.groups())


def parse_path(reply: ControlReply) -> bytes | None:
    """Return the path in a 257 reply: the text between quotes, with doubled quotes decoded.

    Return None without a closing quote (CVE-2017-1000254), for an empty path, and for a path with a control
    character. Some servers do not double a quote in the path, so the path may be wrong. Therefore the caller
    must check the path with CWD.
    """
    _, _, rest = reply.octets.partition(b'"')
    match = _QUOTED.match(rest)
    if match is None or not match[1] or _CONTROLS.search(match[1]):
        return None
    return match[1].replace(b'""', b'"')


# The data connection: the port in a 229 reply (RFC 2428) or a 227 reply (RFC 959, RFC 1123 4.1.2.6).
#
# Only the port is used. The four host numbers in a 227 reply are ignored. The data connection always goes to
# the peer of the control connection (S13, FTP bounce; CVE-2020-8284).

_ENTERING_EXTENDED = 229
_EXTENDED = re.compile(rb"\(([!-~])\1\1(\d{1,5})\1\)")
_SIX_NUMBERS = re.compile(rb"(?<!\d)(?<!\d,)(\d{1,3}(?:,\d{1,3}){5})(?!,?\d)")


class PassiveReply(NamedTuple):
    """A reply to EPSV or PASV, and the port in the reply or None."""

    reply: ControlReply
    port: int | None


def parse_extended(reply: ControlReply) -> int | None:
    """Return the port of a 2yz reply to EPSV.

    The result is `None` for a reply without a port whose code is not 229.

    Raises:
        ProtocolError: A 229 reply has no port, a port out of range, or a protocol or address before the port.
    """
    match = _EXTENDED.search(reply.octets)
    if match is None or not 1 <= (port := int(match[2])) <= 65_535:
        if reply.code != _ENTERING_EXTENDED:
            return None
        raise ProtocolError(f"cannot find a port in the reply to EPSV: {reply.shown!r}")
    return port


def parse_passive(reply: ControlReply) -> int:
    """Return the port in a 227 reply.

    The six numbers may be anywhere in the text of the reply.

    Raises:
        ProtocolError: The six numbers are missing, a number is above 255, or the port is 0.
    """
    match = _SIX_NUMBERS.search(reply.octets)
    numbers = [int(number) for number in match[1].split(b",")] if match else [256]
    if max(numbers) > 255 or (port := numbers[4] << 8 | numbers[5]) == 0:
        raise ProtocolError(f"cannot find a port in the reply to PASV: {reply.shown!r}")
    return port


def read_offer(
    reader: Reader[ControlReply], parse: Callable[[ControlReply], int | None]
) -> Reader[PassiveReply]:
    """Return a reader for a reply that contains a port. It returns the reply and the port."""

    def read(buffer: Buffer) -> Generator[Rest | None, None, PassiveReply]:
        reply = yield from reader(buffer)
        return PassiveReply(reply, parse(reply) if reply.good else None)

    return read
