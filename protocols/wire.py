"""Bytes to send and received bytes: the only module that ends a line.

Outgoing: only `encode_line` and its siblings create a `Line`, and a connection sends nothing else. They
refuse bytes that would end a command early (rule S02, command injection). So even if another module forgets a
check, a URL cannot become two commands.

Incoming: a `Buffer` holds the received bytes. A *reader* is a generator that takes a value out of the buffer.
It yields when it needs more bytes, and raises an error when the bytes cannot form a value. Every reader has a
limit, and a search continues at its last position. During a long computation a reader yields `REST`
regularly.
"""

from __future__ import annotations

import enum
import re
from binascii import a2b_base64
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias, TypeVar

from protocols.contract import Line
from protocols.errors import Disconnected, LimitExceeded, NetworkError, Refused

T = TypeVar("T")


class Rest(enum.Enum):
    """The yield of a reader that has much work and needs no bytes: other tasks run before it continues."""

    REST = enum.auto()


REST = Rest.REST
Reader: TypeAlias = "Callable[[Buffer], Generator[Rest | None, None, T]]"

_CRLF = b"\r\n"
_HIDDEN = b"****"
_LEAST_SECRET = 4  # A shorter secret would also be found, and masked, in most ordinary replies of a peer.
#: The minimum size in bytes of a cookie value that is masked. A session identifier has 64 bits at least
#: (OWASP, session management). A shorter value is a setting, such as a language, and occurs in many replies.
_LEAST_COOKIE = 8
_ENDS_LINE = re.compile(rb"[\0\r\n]")
_ENDS_FIELD = re.compile(rb"[\0\r\n\t]")
_IAC = 0xFF
_LONE_CR = re.compile(rb"\r(?!\n)")
_LARGEST_APDU = 10_000  # wais page, section 14


class Secret(NamedTuple):
    """An argument that is sent unchanged and shown as `****`; an empty secret is shown as empty."""

    octets: bytes

    @property
    def shown(self) -> bytes:
        return self.octets and _HIDDEN

    def __repr__(self) -> str:
        return "Secret(****)"


def encode_line(*words: bytes | Secret, sep: bytes = b" ") -> Line:
    """Join the arguments and end the line with CR LF.

    Args:
        words: The arguments.
        sep: The separator. If it is a space, the last argument may contain it; a TAB is never allowed in an
            argument.

    Raises:
        Refused: An argument holds CR, LF or NUL, or the separator if that is a TAB (S02, command injection).
    """
    forbidden = _ENDS_FIELD if sep == b"\t" else _ENDS_LINE
    octets: list[bytes] = []
    secrets: tuple[bytes, ...] = ()
    for word in words:
        if isinstance(word, Secret):
            secrets, word = (*secrets, word.octets), word.octets
        _check_word(word, forbidden)
        octets += (word,)
    sent = sep.join(octets) + _CRLF
    if not secrets:
        return Line(sent, sent)
    shown = sep.join([word.shown if isinstance(word, Secret) else word for word in words]) + _CRLF
    return Line(sent, shown, secrets)


def encode_block(first: Line, values: tuple[bytes, ...], *, hidden: bool = False) -> Line:
    """Return a line followed by a dot-terminated block: Gopher+'s `+-1` form (RFC 1738 3.4.9).

    Only this function sends more than one line because of one URL. Each value becomes a line. A value that is
    a lone period would look like the end and is refused, as are CR, LF and NUL. `hidden` values are shown as
    one `****`.
    """
    for value in values:
        _check_word(value)
        if value == b".":
            raise Refused("S03", "an answer of a form cannot be a lone period: it would end the form")
    block = b"".join(value + _CRLF for value in (b"+-1", *values, b"."))
    shown = b"+-1" + _CRLF + _HIDDEN + _CRLF + b"." + _CRLF if hidden else block
    secrets = tuple(value for value in values if len(value) >= _LEAST_SECRET) if hidden else ()
    return Line(first.octets + block, first.shown + shown, secrets)


def encode_head(head: bytes, secrets: Sequence[tuple[bytes, bytes]] = ()) -> Line:
    """Return a request head that h11 has written, with the header values in `secrets` shown as `****`.

    h11 writes these lines and checks their content; this function checks them a second time.

    Raises:
        Refused: The head would end before its last byte, or holds CR, LF or NUL elsewhere (S02, command
            injection).
    """
    lines = head.count(_CRLF)
    stray = b"\0" in head or head.count(b"\r") != lines or head.count(b"\n") != lines
    if stray or head.find(_CRLF * 2) != len(head) - 4:
        raise Refused("S02", "cannot send the request head: it would end early")
    shown = head
    for name, value in secrets:
        start = _CRLF + name + b": "
        shown = shown.replace(start + value + _CRLF, start + _HIDDEN + _CRLF)
    return Line(head, shown, secret_parts(secrets))


def encode_head_lines(lines: Sequence[bytes], secrets: Sequence[tuple[bytes, bytes]] = ()) -> Line:
    """Return a request head from its lines, which must not hold a line end; raise `Refused` (S02)."""
    _check_word(b"".join(lines))
    return encode_head(_CRLF.join([*lines, b"", b""]), secrets)


def secret_parts(secrets: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, ...]:
    """Return the parts of these headers' values that a peer may repeat.

    They are each value, the text after the name of its authentication scheme, the password in that text (RFC
    7617), and the value of each cookie (RFC 6265 4.2).
    """
    found: list[bytes] = []
    for name, value in secrets:
        if name.lower() == b"cookie":
            values = [pair.partition(b"=")[2].strip(b'" ') for pair in value.split(b";")]
            found += [value, *(each for each in values if len(each) >= _LEAST_COOKIE)]
            continue
        scheme, _, token = value.partition(b" ")
        found += [value, token]
        if scheme.lower() == b"basic":
            with suppress(ValueError):
                found.append(a2b_base64(token, strict_mode=True).partition(b":")[2])
    return tuple(each for each in found if each)


def encode_payload(octets: bytes) -> Line:
    """Return the body of a request, composed by the caller without parts of a URL (S05, no side effects)."""
    return Line(octets, octets)


def encode_frames(
    frames: bytes,
    shown: Iterable[tuple[bytes, bytes]] | None = None,
    secrets: Sequence[tuple[bytes, bytes]] = (),
) -> Line:
    """Return frames of HTTP/2. Their ends are given by lengths, so a URL cannot end them early.

    If the frames hold `secrets`, the `shown` fields of the request are displayed instead, one per line:
    compressed fields cannot be masked.
    """
    if shown is None:
        return Line(frames, frames)
    fields = b"".join(name + b": " + value + _CRLF for name, value in shown)
    return Line(frames, fields, secret_parts(secrets))


def encode_counted(octets: bytes, *secrets: bytes) -> Line:
    """Return a message of SOCKS5 (RFC 1928); its length fields prevent an early end.

    A message that holds `secrets` is shown as `****`.
    """
    if not secrets:
        return Line(octets, octets)
    return Line(octets, _HIDDEN, tuple(secret for secret in secrets if secret))


def encode_refusals(options: Iterable[tuple[int, int]]) -> Line:
    """Return Telnet's refusals of a peer's `(verb, option)` pairs (RFC 854), which are not lines.

    The answer to DO is WONT, and the answer to WILL is DONT. A WONT or DONT of the peer needs no answer. The
    bytes have no line end.
    """
    answer = {0xFB: b"\xff\xfe", 0xFD: b"\xff\xfc"}
    octets = b"".join(answer[verb] + bytes((option,)) for verb, option in options if verb in answer)
    return Line(octets, octets)


def encode_negotiation(verb: int, option: int) -> Line:
    """Return WILL, WONT, DO or DONT and the code of an option (RFC 855)."""
    octets = bytes((_IAC, verb, option))
    return Line(octets, octets)


def encode_subnegotiation(option: int, octets: bytes) -> Line:
    """Return IAC SB, the option and its data with each 255 doubled, IAC SE (RFC 855)."""
    sent = bytes((_IAC, 0xFA, option)) + octets.replace(b"\xff", b"\xff\xff") + b"\xff\xf0"
    return Line(sent, sent)


def encode_command(command: int) -> Line:
    """Return a command of RFC 854 that has no option: an IAC and its code."""
    octets = bytes((_IAC, command))
    return Line(octets, octets)


def encode_typed(octets: bytes, *, binary: bool = False) -> Line:
    """Return text typed into a telnet session (RFC 854), shown as `****` because it may be a password.

    Each byte 255 is doubled. If the session is not `binary`, a carriage return without a line feed after it
    is sent as CR NUL.
    """
    sent = octets.replace(b"\xff", b"\xff\xff")
    if not binary:
        sent = _LONE_CR.sub(b"\r\0", sent)
    return Line(sent, _HIDDEN)


def encode_keys(octets: bytes, *, binary: bool = False) -> Line:
    """Return keys as they are pressed in a telnet session; a carriage return is the Enter key."""
    sent = octets.replace(b"\xff", b"\xff\xff")
    return Line(sent if binary else sent.replace(b"\r", b"\r\0"), _HIDDEN)


def encode_entered(text: bytes, *, binary: bool = False) -> Line:
    """Return a line typed into a telnet session, shown as `****` because it may be a password.

    The line ends with CR LF, or with a CR alone if the session is `binary` (RFC 1123 3.3.1).

    Raises:
        Refused: The text would end the line (S02, command injection).
    """
    _check_word(text)
    sent = text.replace(b"\xff", b"\xff\xff")
    end = b"\r" if binary else _CRLF
    return Line(sent + end, (sent and _HIDDEN) + end, (sent,) if sent else ())


def encode_message(apdu: bytes) -> Line:
    """Return a WAIS message: the 25 bytes of header that every client sends, then the APDU.

    The message has no line end: its length, which is computed here from the bytes, marks its end.

    Raises:
        Refused: The message has more than 10,000 bytes (S02, command injection). Servers read a request into
            a buffer of 100,000 bytes without checking, and no sensible request has a tenth of that size.
    """
    if len(apdu) > _LARGEST_APDU:
        raise Refused("S02", f"request too long for WAIS: {len(apdu)} bytes, maximum {_LARGEST_APDU}")
    octets = b"%010dz2wais        0" % len(apdu) + apdu
    return Line(octets, octets)


def encode_commands(*commands: tuple[bytes, ...]) -> Line:
    """Return a Prospero message: one command per line, arguments separated by a space, LF after each line.

    The caller quotes the arguments where necessary.

    Raises:
        Refused: An argument holds CR, LF or NUL (S02, command injection). CR and LF could be quoted, but no
            real name needs them.
    """
    for command in commands:
        for word in command:
            _check_word(word)
    octets = b"".join(b" ".join(command) + b"\n" for command in commands)
    return Line(octets, octets)


def split_message(message: Line, size: int) -> list[Line]:
    """Return a message in pieces of `size` bytes, the last one shorter; ARDP joins them again."""
    octets = message.octets
    pieces = [octets[start : start + size] for start in range(0, len(octets), size)]
    return [Line(piece, piece) for piece in pieces]


def encode_datagram(header: bytes, piece: Line | None = None) -> Line:
    """Return a datagram: a binary header, then a piece of a message or nothing (ARDP)."""
    octets = header if piece is None else header + piece.octets
    return Line(octets, octets)


def _check_word(word: bytes, forbidden: re.Pattern[bytes] = _ENDS_LINE) -> None:
    if found := forbidden.search(word):
        raise Refused("S02", f"byte {found[0][0]:02X} would end the command or a field of it")


class Buffer:
    """Received bytes that were not read yet, and whether more can come.

    No more bytes come after the end, or if the connection is `broken`. The error in `broken` is raised only
    when a reader has read all bytes before it.
    """

    __slots__ = ("_data", "at_end", "broken", "searched")

    def __init__(self) -> None:
        self._data = bytearray()
        self.at_end = False
        self.broken: NetworkError | None = None
        self.searched = 0  # set by a reader: no line end precedes this index

    def __len__(self) -> int:
        return len(self._data)

    def __bool__(self) -> bool:
        return bool(self._data)

    def feed(self, octets: bytes) -> None:
        """Append received bytes; `b""` means that no more bytes will arrive."""
        if octets:
            self._data += octets
        else:
            self.at_end = True

    @property
    def is_all(self) -> bool:
        """Return whether no more bytes will come."""
        return self.at_end or self.broken is not None

    def find(self, octets: bytes, end: int) -> int:
        """Return the index of `octets` before `end`, or -1, without searching the same bytes twice."""
        index = self._data.find(octets, self.searched, end)
        if index < 0:
            self.searched = max(0, min(len(self._data), end) - len(octets) + 1)
        return index

    def peek(self, count: int) -> bytes:
        """Return the first `count` bytes, or all if there are fewer; they stay in the buffer."""
        return bytes(self._data[:count])

    def peek_head(self, most: int) -> bytes:
        """Return the head, up to and including the first empty line; it stays in the buffer.

        The result is empty if the head does not end within `most` bytes, or has not arrived yet.
        """
        index = self._data.find(_CRLF * 2, 0, most)
        return b"" if index < 0 else bytes(self._data[: index + 4])

    def tail(self, count: int) -> bytes:
        """Return the last `count` bytes, or all if there are fewer; they stay in the buffer."""
        return bytes(self._data[-count:])

    def take(self, count: int | None = None) -> bytes:
        """Remove and return the first `count` bytes (None: all there are)."""
        taken = bytes(self._data[:count])
        del self._data[:count]
        self.searched = 0
        return taken


def count_waiting(buffer: Buffer) -> Generator[None, None, int]:
    """Return the number of received bytes that were not read; this reader takes nothing."""
    return len(buffer)
    yield


def read_line(limit: int) -> Reader[bytes]:
    """Return a reader for one line, ended by LF, returned without its line end (CR LF or LF).

    Args:
        limit: The maximum length in bytes, with the line end.

    Raises:
        LimitExceeded: `line`, if no line end comes within `limit` bytes.
        Disconnected: The connection ended first.
    """

    def reader(buffer: Buffer) -> Generator[None, None, bytes]:
        while (index := buffer.find(b"\n", limit)) < 0:
            if len(buffer) >= limit:
                raise LimitExceeded("line", f"a line of the reply is longer than {limit} bytes")
            if buffer.at_end:
                raise Disconnected(f"the connection ended inside a line, after {len(buffer)} bytes")
            yield
        line = buffer.take(index + 1)[:-1]
        return line[:-1] if line.endswith(b"\r") else line

    return reader


def run_reader(reader: Reader[T], *chunks: bytes) -> T:
    """Run a reader on the given bytes, then signal the end: for tests and for complete data."""
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
