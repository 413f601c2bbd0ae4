"""An FTP transfer: a data connection, a command, the data, the final reply (RFC 959 5, RFC 2428).

The data connection is opened before the command is sent, because servers send 150 only after the data
connection is open. Stream mode does not announce a length. Therefore a transfer is complete only if all these
conditions are met:

- the final reply is 2yz
- the data ended in an orderly way (in TLS: with close_notify)
- at least as many bytes arrived as SIZE announced

The client closes the data connection before it waits for the final reply. The reason is that ProFTPD sends
the final reply only after the data connection is closed. No command is sent between the transfer command and
its final reply, except EPSV for the next transfer. EPSV is sent after the end of the data. If the server
reads no command during a transfer, EPSV is sent together with the transfer command.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from protocols.contract import Line, Reply
from protocols.errors import (
    Changed,
    Disconnected,
    NetworkError,
    ProtocolError,
    Refused,
    ResolveError,
    TimedOut,
    Truncated,
    Unreachable,
)
from protocols.ftp.control import (
    EPSV,
    PRELIMINARY_LIMIT,
    Control,
    ServiceClosing,
    UnansweredCommand,
    await_optional,
    refusal,
    shown_line,
)
from protocols.ftp.reply import ControlReply, PassiveReply, parse_extended, parse_passive, read_offer
from protocols.step import (
    AwaitData,
    BodyStarted,
    CloseData,
    CopiedBody,
    CopyBody,
    DataExpectation,
    Dialogue,
    OpenData,
    PlanNote,
    Receive,
    RequestPeer,
    Send,
    StartBody,
)

# In type A, data is sent as NVT text. A line ends in CR LF on every system (RFC 959 3.1.1.1).


class NetworkText:
    """A filter that converts the bytes of a type A transfer into text with the line end LF.

    CR LF becomes LF, and CR NUL becomes CR. A single CR or LF is not changed, because vsftpd by default sends
    a file unchanged in type A. A CR at the end of a block is stored until the next block. A CR at the end of
    the complete data is part of the data.
    """

    def __init__(self) -> None:
        self._carried = b""

    def feed(self, octets: bytes) -> tuple[bytes]:
        octets = self._carried + octets
        self._carried = b"\r" if octets.endswith(b"\r") else b""
        octets = octets.removesuffix(b"\r")
        return (octets.replace(b"\r\n", b"\n").replace(b"\r\0", b"\r"),)

    def finish(self) -> tuple[bytes]:
        carried, self._carried = self._carried, b""
        return (carried,)


#: The expected replies: to a transfer command, at the end of a transfer, and to EPSV.
_STARTED, _COMPLETE = ControlReply(150), ControlReply(226)
_EXTENDED = PassiveReply(ControlReply(229), 0)


class BodyForm(enum.StrEnum):
    """The meaning of a body's bytes."""

    FILE = "the bytes of the file"
    TEXT = "the text of the file"
    NAMES = "the names in the directory"
    FACTS = "the names in the directory, with facts"
    LINES = "the lines of the listing"


class FtpTransfer(NamedTuple):
    """A planned transfer: the metadata that is known in advance, and the meaning of the bytes.

    `is_listed` is set if the size comes from a listing. The file may have become shorter in the meantime (RFC
    3659 7.5.7).
    """

    reply: Reply
    form: BodyForm
    is_listed: bool = False

    @property
    def expected(self) -> int | None:
        """Return the expected size of the body in bytes, or None if SIZE did not return a number."""
        end = self.reply.size if self.reply.stop is None else self.reply.stop
        return None if end is None else max(0, end - self.reply.start)


class TransferRefusal(NamedTuple):
    """A final reply 4yz or 5yz without any data. `started` is set after an earlier 1yz reply.

    `doing` is the transfer command.
    """

    reply: ControlReply
    started: bool
    doing: str

    @property
    def error(self) -> Exception:
        return refusal(self.reply, self.doing)


class CompleteTransfer(NamedTuple):
    """A complete transfer: the number of bytes, the proofs of completeness, and the final reply's text."""

    received: int
    verified: set[str]
    text: bytes = b""


def transfer(
    control: Control, planned: FtpTransfer, line: Line
) -> Dialogue[TransferRefusal | CompleteTransfer]:
    """Send the transfer command `line`, and complete the transfer.

    The body begins with the first byte. If no byte arrives, `settle` begins the body. If the caller requests
    a range, the client closes the data connection after the range. The control connection is then not reused,
    because servers differ in their reply to the closed data connection.

    Raises:
        Truncated: Only some of the bytes arrived. The error contains the received and the expected number.
        Disconnected: The data connection failed before the first byte.
        ServiceClosing: A 421 reply arrived before the first byte.
        UnansweredCommand: MLSD received neither a reply nor data. LIST and NLST can replace MLSD.
    """
    doing, verb = shown_line(line), line.octets[:4]
    control.idle = control.has_data = False
    count = None if planned.reply.stop is None else planned.expected
    if not control.ahead:
        yield from send_transfer(control, line, again=count is None)
    yield from control.say(verb)
    what = f"the first reply to {doing}, or the first data"
    # The server sends 150 before the first byte of data. If the control connection uses TLS, a server may
    # complete the TLS handshake of the data connection before 150.
    is_announced = control.in_order and not control.protected and verb == b"RETR"
    try:
        start: BodyStarted[ControlReply] = yield AwaitData(
            control.reader, what, _STARTED, _weigh, is_announced, planned.expected if count is None else None
        )
    except TimedOut as error:
        raise (UnansweredCommand(error.message) if verb == b"MLSD" else error) from error.__cause__
    replies = list(start.values)
    for reply in replies:
        if reply.preliminary:
            control.take(reply)
    if not start.octets:
        outcome = yield from _conclude_nothing(control, replies, start, planned, doing)
        yield from _keep_port(control)
        return outcome
    yield StartBody(planned.reply)
    text = NetworkText() if planned.form is BodyForm.TEXT else None
    copy: CopiedBody = yield CopyBody(planned.form, count, "data", filter=text, expected=planned.expected)
    yield CloseData()
    if count is not None:
        return CompleteTransfer(count, {"length"})
    if not control.ahead and control.asks_ahead:
        with suppress(NetworkError):  # the next reply shows the error
            yield from control.send_ahead(EPSV)
    try:
        final = yield from _hear_final(control, replies, copy.octets, planned, doing)
        complete = _check_whole(control, final, copy, planned, doing)
    except ProtocolError as error:
        raise error.saying(_count(copy.octets, planned)) from error.__cause__
    yield from _keep_port(control)
    return complete


def send_transfer(control: Control, *lines: Line, again: bool = True) -> tuple[Send, ...]:
    """Return the step that sends commands up to a transfer command.

    With `again`, EPSV for the next transfer is added if the server queues commands.
    """
    ahead = (EPSV,) if again and control.queues and control.asks_ahead else ()
    return control.send_ahead(*lines, *ahead)


def _keep_port(control: Control) -> Dialogue[None]:
    """Receive the reply to the EPSV that was sent ahead, if one was sent, and store the port.

    The transfer has ended, so an error only prevents the reuse of the connection.
    """
    if not control.ahead:
        return
    try:
        offer = yield from _request_port(control, b"EPSV", _EXTENDED)
        control.port = offer.port
    except ResolveError:
        control.idle = False


def settle(reply: Reply, whole: CompleteTransfer) -> tuple[StartBody, ...]:
    """Record the proofs of a complete transfer, and return the step that begins an empty body."""
    reply.verified.update(whole.verified)
    return () if whole.received else (StartBody(reply),)


def _weigh(replies: Sequence[ControlReply]) -> DataExpectation:
    """Return whether the server may still send data after these replies.

    If the only reply is a refusal, the server sends no data. After a 1yz reply, the server may have sent data
    before the refusal.
    """
    if replies[-1].preliminary:
        return DataExpectation.MORE
    if replies[-1].good:
        return DataExpectation.LAST
    return DataExpectation.OVER if len(replies) == 1 else DataExpectation.BROKEN


def _conclude_nothing(
    control: Control,
    replies: list[ControlReply],
    start: BodyStarted[ControlReply],
    planned: FtpTransfer,
    doing: str,
) -> Dialogue[TransferRefusal | CompleteTransfer]:
    """Complete a transfer without data.

    The final reply shows whether the file is empty, the server refused, or the transfer failed.
    """
    yield CloseData()
    try:
        final = yield from _hear_final(control, replies, 0, planned, doing)
    except (Disconnected, TimedOut) as error:
        raise (start.broken or error) from None
    if final.refused and final.code != 426:
        control.idle = True
        return TransferRefusal(final, any(reply.preliminary for reply in replies), doing)
    if final.good and start.broken is not None:
        raise start.broken
    return _check_whole(control, final, CopiedBody(0, start.close_notify), planned, doing)


def _hear_final(
    control: Control, replies: list[ControlReply], received: int, planned: FtpTransfer, doing: str
) -> Dialogue[ControlReply]:
    """Return the final reply of the transfer, which may already be among the received replies.

    Preliminary replies (1yz) are added to `replies`. Without a final reply, nothing proves that the transfer
    is complete, so `Truncated` is raised.
    """
    try:
        if replies and not replies[-1].preliminary:
            control.take(replies[-1])
            return replies[-1]
        while len(replies) < PRELIMINARY_LIMIT:
            reply: ControlReply = yield Receive(control.reader, f"the final reply to {doing}", _COMPLETE)
            control.take(reply)
            if not reply.preliminary:
                if control.options:
                    yield from control.refuse_options()
                return reply
            replies.append(reply)
    except ServiceClosing as error:
        if received == 0:
            raise
        raise _cut(f"{doing}: {error.message}", received, planned) from error
    except (Disconnected, TimedOut) as error:
        if received == 0:
            raise
        raise _cut(f"{doing}: the data ended without a final reply", received, planned) from error
    raise ProtocolError(f"{doing}: {PRELIMINARY_LIMIT} preliminary replies without a final reply")


def _check_whole(
    control: Control, final: ControlReply, copy: CopiedBody, planned: FtpTransfer, doing: str
) -> CompleteTransfer:
    received, expected = copy.octets, planned.expected
    if not final.good:
        raise _broken_off(final, received, planned, doing)
    control.idle = True
    if control.protected and not copy.close_notify:
        raise _cut(f"{doing}: the data connection ended without TLS's close_notify", received, planned)
    if expected is not None and received < expected:
        if planned.is_listed:
            words = f"{doing}: fewer bytes received than listed, {_count(received, planned)}"
            raise Changed(words, again=True)
        raise _cut(f"{doing}: fewer bytes received than SIZE gave", received, planned)
    verified = {"final-reply"}
    if control.protected:
        verified.add("close-notify")
    if received == expected:
        verified.add("length")
    return CompleteTransfer(received, verified, final.octets)


def _broken_off(reply: ControlReply, received: int, planned: FtpTransfer, doing: str) -> Exception:
    """Return the error for a final reply other than 2yz, however many bytes were received."""
    if (received == 0 and reply.code != 426) or reply.intermediate:
        return refusal(reply, doing)
    message = f"{doing}: transfer aborted, the server said {reply.shown!r}"
    if received == 0:
        return Disconnected(f"{message}, before the first byte")
    return _cut(message, received, planned)


def _cut(message: str, received: int, planned: FtpTransfer) -> Truncated:
    return Truncated(f"{message}, {_count(received, planned)}", received=received, expected=planned.expected)


def _count(received: int, planned: FtpTransfer) -> str:
    announced = "" if planned.expected is None else f" of {planned.expected}"
    return f"after {received}{announced} bytes"


# Preparation of a transfer: the type, and a new data connection (RFC 959 5, RFC 2428).
#
# Only passive mode is used. The client sends EPSV first. PASV follows if the reply to EPSV has no port, or if
# the port is unreachable or refused (S13, FTP data connections). The host in the reply to PASV is ignored.
# `Control` stores whether EPSV works on this control connection. Each port is used for one transfer
# only.


def set_type(control: Control, code: bytes) -> Dialogue[None]:
    """Send TYPE, unless the server already uses that type."""
    if control.type_code != code:
        yield from control.demand(b"TYPE", code, ideal=(200, b"Type set"))
        control.type_code = code


def open_data(control: Control) -> Dialogue[None]:
    """Open the data connection at a port known from EPSV, with EPSV, or with PASV (IPv4 only)."""
    if control.has_data or (yield from open_known(control)):
        return
    failure = None
    if control.extended is not False:
        is_optional = control.extended is None and (yield from _is_ipv4())
        failure = yield from _try_extended(control, is_optional=is_optional)
        if failure is None:
            return
        if not (is_optional or (yield from _is_ipv4())):
            raise failure
        control.extended = False
    offer = yield from _request_port(control, b"PASV", PassiveReply(ControlReply(227), 0))
    if offer.port is None:
        raise failure if isinstance(failure, Refused) else refusal(offer.reply, "'PASV'")
    yield OpenData(offer.port, control.protected)
    control.has_data = True


def open_known(control: Control) -> Dialogue[bool]:
    """Open the data connection to the port of an EPSV that was sent ahead, and return whether it is open."""
    port, control.port = control.port, None
    return port is not None and (yield from _open_port(control, port)) is None


def _is_ipv4() -> Dialogue[bool]:
    """Return whether PASV can replace EPSV."""
    peer = yield RequestPeer(
        "if EPSV is refused or its port cannot be reached: PASV, on IPv4 only, and only the port it gives"
    )
    return not (isinstance(peer, str) and ":" in peer)


def _try_extended(control: Control, *, is_optional: bool) -> Dialogue[Exception | None]:
    """Try EPSV, and return the error, or None after success."""
    reply = _request_port(control, b"EPSV", _EXTENDED)
    offer = yield from (await_optional(control, reply) if is_optional else reply)
    if offer.port is None:
        return refusal(offer.reply, "'EPSV'")
    if control.extended is None:
        yield PlanNote("the port of the data connection is the server's choice; shown as 0")
    failure = yield from _open_port(control, offer.port)
    if failure is None:
        control.extended = True
    return failure


def _open_port(control: Control, port: int) -> Dialogue[Exception | None]:
    """Open the data connection, and return the error of an unusable port, or None after success."""
    try:
        yield OpenData(port, control.protected)
    except (Unreachable, TimedOut, Disconnected) as error:
        return error
    except Refused as error:
        if error.rule != "S13":
            raise
        return error
    control.has_data = True
    return None


def _request_port(control: Control, verb: bytes, ideal: PassiveReply) -> Dialogue[PassiveReply]:
    yield from control.say(verb)
    parse = parse_extended if verb == b"EPSV" else parse_passive
    offer: PassiveReply = yield Receive(
        read_offer(control.reader, parse), f"the reply to {verb.decode('ascii')}", ideal
    )
    control.take(offer.reply)
    if control.options:
        yield from control.refuse_options()
    return offer
