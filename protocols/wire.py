"""Sent and received bytes. No other module writes line ends to a connection.

Sending: only `encode_line` and the other `encode_…` functions create a `Line`, and a connection sends only
`Line`s. The `encode_…` functions refuse bytes that would end a command early (S02, CRLF injection). So a URL
cannot become two commands, even if another module lacks a check.

Receiving: a `Buffer` contains the received bytes. A *reader* is a generator that parses a value from the
buffer. The reader yields when it needs more bytes, and raises an error if the bytes do not form a value.
Every reader has a limit. A search for a byte continues where the previous search ended, so parsing takes
linear time. During a long computation, a reader yields `REST` regularly.
"""

from __future__ import annotations

import enum
import re
from binascii import a2b_base64
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias, TypeVar, final

from protocols.contract import Line
from protocols.errors import Disconnected, LimitExceeded, NetworkError, Refused

T = TypeVar("T")


class Rest(enum.Enum):
    """The value that a reader yields during a long computation.

    A reader that yields `REST` does not wait for bytes. The driver lets other tasks run, and then continues
    the reader.
    """

    REST = enum.auto()


REST = Rest.REST
Reader: TypeAlias = "Callable[[Buffer], Generator[Rest | None, None, T]]"

_CRLF = b"\r\n"
_HIDDEN = b"****"
#: The minimum size in bytes of a masked secret. Most replies contain shorter secrets by chance.
_MIN_SECRET = 4
#: The minimum size in bytes of a cookie value that is masked. A session identifier has at least 64 bits
#: (OWASP, session management). A shorter value is usually a setting, such as a language, and occurs in many
#: replies.
_MIN_COOKIE = 8
_ENDS_LINE = re.compile(rb"[\0\r\n]")
_HEAD = re.compile(rb"(?:[^\0\r\n]+\r\n)+\r\n")
_ENDS_FIELD = re.compile(rb"[\0\r\n\t]")
_IAC = 0xFF
_LONE_CR = re.compile(rb"\r(?!\n)")
_MAX_APDU = 10_000  # maximum size of a request in bytes (wais page, section 14)


@final
class Secret(NamedTuple):
    """An argument that is sent unchanged but displayed as `****`. An empty secret is displayed as empty."""

    octets: bytes

    @property
    def shown(self) -> bytes:
        return self.octets and _HIDDEN

    def __repr__(self) -> str:
        return "Secret(****)"


def encode_line(*words: bytes | Secret, sep: bytes = b" ") -> Line:
    """Join the arguments of a command, and end the line with CR LF.

    Args:
        words: The arguments.
        sep: The separator. If the separator is a space, the last argument may contain spaces. If the
            separator is a TAB, no argument may contain a TAB.

    Raises:
        Refused: An argument contains CR, LF, NUL, or a TAB as the separator (S02, command injection).
    """
    octets: list[bytes] = []
    secrets: tuple[bytes, ...] = ()
    for word in words:
        if type(word) is Secret:
            secrets, word = (*secrets, word.octets), word.octets
        octets.append(word)
    sent = sep.join(octets)
    if sep == b"\t":
        check_word(b"".join(octets), _ENDS_FIELD)
    else:
        check_word(sent)
    sent += _CRLF
    if not secrets:
        return Line(sent, sent)
    shown = sep.join([word.shown if isinstance(word, Secret) else word for word in words]) + _CRLF
    return Line(sent, shown, secrets)


def encode_block(first: Line, values: tuple[bytes, ...], *, hidden: bool = False) -> Line:
    """Return a line and a data block, which a period ends, in the form `+-1` of Gopher+ (RFC 1738 3.4.9).

    No other function writes several lines for one URL. Each value becomes one line. A value that is a single
    period is refused, because the period would end the block early. Values with CR, LF or NUL are refused
    too. If `hidden` is set, all values together are displayed as one `****`.
    """
    for value in values:
        check_word(value)
        if value == b".":
            raise Refused("S03", "an answer of a form cannot be a lone period: it would end the form")
    block = b"".join(value + _CRLF for value in (b"+-1", *values, b"."))
    shown = b"+-1" + _CRLF + _HIDDEN + _CRLF + b"." + _CRLF if hidden else block
    secrets = tuple(value for value in values if len(value) >= _MIN_SECRET) if hidden else ()
    return Line(first.octets + block, first.shown + shown, secrets)


def join_head(lines: Sequence[bytes]) -> bytes:
    """Return the head of a message from its lines, for `encode_head`.

    Raises:
        Refused: A line contains CR LF (S02, command injection). `encode_head` refuses a single CR or LF.
    """
    head = _CRLF.join([*lines, b"", b""])
    if head.count(_CRLF) != len(lines) + 1:
        raise Refused("S02", "cannot send the request head: a line would end early")
    return head


def encode_head(head: bytes, secrets: Sequence[tuple[bytes, bytes]] = ()) -> Line:
    """Return a complete request head, with `****` for header values in `secrets`.

    The writer of the head already checks the content of the lines. This function checks the content again.

    Raises:
        Refused: The head ends before its last byte, or contains CR, LF or NUL within a line (S02, command
            injection).
    """
    if not _HEAD.fullmatch(head):
        raise Refused("S02", "cannot send the request head: it would end early")
    if not secrets:
        return Line(head, head)
    shown = head
    for name, value in secrets:
        start = _CRLF + name + b": "
        shown = shown.replace(start + value + _CRLF, start + _HIDDEN + _CRLF)
    return Line(head, shown, secret_parts(secrets))


def begin_head(start: bytes, fields: Line) -> Line:
    """Return a complete request head: its first line, and its fields, which `encode_head` checked.

    Raises:
        Refused: The first line contains CR, LF or NUL (S02, command injection).
    """
    check_word(start)
    start += _CRLF
    return Line(start + fields.octets, start + fields.shown, fields.secrets)


def secret_parts(secrets: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, ...]:
    """Return the secret parts of header values, which a peer may repeat in its response.

    The secret parts are: the complete value; the text after the authentication scheme; the password in this
    text (RFC 7617); the value of each cookie (RFC 6265 4.2).
    """
    parts: list[bytes] = []
    for name, value in secrets:
        if name.lower() == b"cookie":
            values = [pair.partition(b"=")[2].strip(b'" ') for pair in value.split(b";")]
            parts += [value, *(part for part in values if len(part) >= _MIN_COOKIE)]
            continue
        scheme, _, token = value.partition(b" ")
        parts += [value, token]
        if scheme.lower() == b"basic":
            with suppress(ValueError):
                parts.append(a2b_base64(token, strict_mode=True).partition(b":")[2])
    return tuple(part for part in parts if part)


def encode_payload(octets: bytes) -> Line:
    """Return a request body that the caller composed, without text of a URL (S05, no side effects)."""
    return Line(octets, octets)


def encode_frames(
    frames: bytes,
    shown: Iterable[tuple[bytes, bytes]] | None = None,
    secrets: Sequence[tuple[bytes, bytes]] = (),
) -> Line:
    """Return frames of HTTP/2. Their length fields prevent that a value ends a frame early (injection).

    If the frames contain `secrets`, messages display the header fields in `shown` instead of the frames, one
    per line. Compressed fields cannot be masked.
    """
    if shown is None:
        return Line(frames, frames)
    fields = b"".join(name + b": " + value + _CRLF for name, value in shown)
    return Line(frames, fields, secret_parts(secrets))


def encode_counted(octets: bytes, *secrets: bytes) -> Line:
    """Return a message of SOCKS5 (RFC 1928). Length fields prevent that a value ends it early.

    If the message contains `secrets`, the message is displayed as `****`.
    """
    if not secrets:
        return Line(octets, octets)
    return Line(octets, _HIDDEN, tuple(secret for secret in secrets if secret))


def encode_refusals(options: Iterable[tuple[int, int]]) -> Line:
    """Return the telnet commands, without line end, that refuse option requests of a peer (RFC 854).

    `options` contains `(verb, option)` pairs. DO is refused with WONT, and WILL is refused with DONT. WONT
    and DONT need no reply.
    """
    answer = {0xFB: b"\xff\xfe", 0xFD: b"\xff\xfc"}
    octets = b"".join(answer[verb] + bytes((option,)) for verb, option in options if verb in answer)
    return Line(octets, octets)


def encode_negotiation(verb: int, option: int) -> Line:
    """Return WILL, WONT, DO or DONT and the code of an option (RFC 855)."""
    octets = bytes((_IAC, verb, option))
    return Line(octets, octets)


def encode_subnegotiation(option: int, octets: bytes) -> Line:
    """Return a subnegotiation (RFC 855): IAC SB, the option, its data with each 255 doubled, IAC SE."""
    sent = bytes((_IAC, 0xFA, option)) + octets.replace(b"\xff", b"\xff\xff") + b"\xff\xf0"
    return Line(sent, sent)


def encode_command(command: int) -> Line:
    """Return a command of RFC 854 without an option: IAC and the command code."""
    octets = bytes((_IAC, command))
    return Line(octets, octets)


def encode_typed(octets: bytes, *, binary: bool = False) -> Line:
    """Return text that the user types into a telnet session (RFC 854).

    The text is displayed as `****` because it may be a password. Each byte 255 is doubled. If the session is
    not `binary`, a carriage return that no line feed follows is sent as CR NUL.
    """
    sent = octets.replace(b"\xff", b"\xff\xff")
    if not binary:
        sent = _LONE_CR.sub(b"\r\0", sent)
    return Line(sent, _HIDDEN)


def encode_keys(octets: bytes, *, binary: bool = False) -> Line:
    """Encode pressed keys for a telnet session (RFC 854). A carriage return represents the Enter key.

    If the session is not `binary`, each carriage return is sent as CR NUL. Each byte 255 is doubled.
    """
    sent = octets.replace(b"\xff", b"\xff\xff")
    return Line(sent if binary else sent.replace(b"\r", b"\r\0"), _HIDDEN)


def encode_entered(text: bytes, *, binary: bool = False) -> Line:
    """Return a line that the user types into a telnet session, displayed as `****`.

    The line may be a password. The line ends with CR LF. If the session is `binary`, the line ends with only
    CR (RFC 1123 3.3.1).

    Raises:
        Refused: The text contains a line end (S02, command injection).
    """
    check_word(text)
    sent = text.replace(b"\xff", b"\xff\xff")
    end = b"\r" if binary else _CRLF
    return Line(sent + end, (sent and _HIDDEN) + end, (sent,) if sent else ())


def encode_message(apdu: bytes) -> Line:
    """Return a WAIS message.

    The 25 header bytes, which are the same in every client, precede the APDU.

    The message has a length field, computed here from the bytes, and no line end.

    Raises:
        Refused: The message has more than 10,000 bytes (S02, buffer overflow). Servers read a request into a
            buffer of 100,000 bytes without a check of its size. Real requests have less than a tenth of this
            size.
    """
    if len(apdu) > _MAX_APDU:
        raise Refused("S02", f"request too long for WAIS: {len(apdu)} bytes, maximum {_MAX_APDU}")
    octets = b"%010dz2wais        0" % len(apdu) + apdu
    return Line(octets, octets)


def encode_commands(*commands: tuple[bytes, ...]) -> Line:
    """Return a Prospero message.

    Each command is a line that ends with LF, and a space separates the arguments.

    The caller quotes the arguments where necessary.

    Raises:
        Refused: An argument contains CR, LF or NUL (S02, command injection). Prospero can quote CR and LF,
            but no real name contains these bytes.
    """
    for command in commands:
        for word in command:
            check_word(word)
    octets = b"".join(b" ".join(command) + b"\n" for command in commands)
    return Line(octets, octets)


def split_message(message: Line, size: int) -> list[Line]:
    """Split a message into packets of at most `size` bytes. The receiver joins the packets (ARDP)."""
    octets = message.octets
    pieces = [octets[start : start + size] for start in range(0, len(octets), size)]
    return [Line(piece, piece) for piece in pieces]


def encode_datagram(header: bytes, piece: Line | None = None) -> Line:
    """Return a datagram of ARDP: a binary header, and possibly a segment of a message."""
    octets = header if piece is None else header + piece.octets
    return Line(octets, octets)


def check_word(word: bytes, forbidden: re.Pattern[bytes] = _ENDS_LINE) -> None:
    """Raise `Refused` for a byte that would end the command or a field of it (S02, command injection)."""
    if match := forbidden.search(word):
        raise Refused("S02", f"byte {match[0][0]:02X} would end the command or a field of it")


class Buffer(bytearray):
    """The received bytes that were not read yet.

    No more bytes arrive after the end, or if the connection is `broken`. The error in `broken` is raised only
    after a reader has read all earlier bytes.
    """

    at_end = False
    broken: NetworkError | None = None
    searched = 0  # `search` begins at this index, because no line ends before it

    def feed(self, octets: bytes) -> None:
        """Append received bytes. The value `b""` means that the connection has ended."""
        if octets:
            self += octets
        else:
            self.at_end = True

    @property
    def is_all(self) -> bool:
        """Return whether all bytes have arrived, because the connection has ended or failed."""
        return self.at_end or self.broken is not None

    def search(self, octets: bytes, end: int) -> int:
        """Return the index of `octets` before `end`, or -1. No byte is searched twice."""
        index = self.find(octets, self.searched, end)
        if index < 0 and self:
            self.searched = max(0, min(len(self), end) - len(octets) + 1)
        return index

    def peek(self, count: int) -> bytes:
        """Return the first `count` bytes, or all if there are fewer, without consuming them."""
        return bytes(self[:count])

    def peek_head(self, max_size: int) -> str:
        """Return the head of the message, up to the first empty line, as Latin-1 text; do not consume it.

        If the head is longer than `max_size` bytes, or has not arrived completely, the result is empty.
        """
        index = self.find(_CRLF * 2, 0, max_size)
        return "" if index < 0 else self[: index + 4].decode("latin-1")

    def tail(self, count: int) -> bytes:
        """Return the last `count` bytes, or all if there are fewer, without consuming them."""
        return bytes(self[-count:])

    def take(self, count: int | None = None) -> bytes:
        """Remove and return the first `count` bytes, or all buffered bytes (None)."""
        octets = bytes(self[:count])
        del self[:count]
        self.searched = 0
        return octets


def count_waiting(buffer: Buffer) -> Generator[None, None, int]:
    """Return the number of buffered bytes, without consuming any bytes."""
    return len(buffer)
    yield


def read_line(limit: int) -> Reader[bytes]:
    """Return a reader for one line.

    The reader returns the line without its line end (CR LF or LF).

    Args:
        limit: The maximum length in bytes, including the line end.

    Raises:
        LimitExceeded: `line`, if no line end arrives within `limit` bytes.
        Disconnected: The connection ended before the line end.
    """

    def reader(buffer: Buffer) -> Generator[None, None, bytes]:
        while (index := buffer.search(b"\n", limit)) < 0:
            if len(buffer) >= limit:
                raise LimitExceeded("line", f"a line of the reply is longer than {limit} bytes")
            if buffer.at_end:
                raise Disconnected(f"the connection ended inside a line, after {len(buffer)} bytes")
            yield
        line = buffer.take(index + 1)[:-1]
        return line[:-1] if line.endswith(b"\r") else line

    return reader


def run_reader(reader: Reader[T], *chunks: bytes) -> T:
    """Run a reader on complete data, for tests and stored data.

    After the data, the reader sees the end of the connection.
    """
    buffer = Buffer()
    waiting = reader(buffer)
    feed = iter(chunks)
    while True:
        try:
            if next(waiting) is REST:
                continue
        except StopIteration as done:
            value: T = done.value
            return value
        assert not buffer.at_end, "a reader asked for more after the end"
        buffer.feed(next(feed, b""))
