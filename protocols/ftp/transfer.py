"""One FTP transfer: a data connection, a command, the data, the final reply (RFC 959 5, RFC 2428).

The data connection is made before the command is sent: all servers hold the 150 back until it exists. Stream
mode has no length, so a transfer is complete only with a 2yz as final reply, an orderly end of the data (in
TLS with close_notify) and no fewer bytes than SIZE gave. The data connection is closed before the final reply
is awaited: ProFTPD sends none until then. Nothing is sent between the command and the final reply.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from protocols.contract import Reply
from protocols.errors import Changed, Disconnected, ProtocolError, Refused, TimedOut, Truncated, Unreachable
from protocols.ftp.control import (
    PRELIMINARY_LIMIT,
    Control,
    FtpSessionState,
    ServiceClosing,
    refusal,
    shown_command,
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
    RequestPeer,
    StartBody,
    copy_body,
    receive,
)

# Type A: data travels as NVT text, with lines that end in CR LF on every system (RFC 959 3.1.1.1).


class NetworkText:
    """Turns the octets of a type A transfer into text with our own line end, LF.

    CR LF becomes LF and CR NUL a CR. A CR or LF alone stays, for vsftpd by default sends a file
    untouched in type A. A CR at the end of what came is carried over; at the end of all it is data.
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


class BodyForm(enum.Enum):
    """What the octets of a body are."""

    FILE = "the octets of the file"
    TEXT = "the text of the file"
    NAMES = "the names in the directory"
    FACTS = "the names in the directory, with facts"
    LINES = "the lines of the listing"


class FtpTransfer(NamedTuple):
    """What is to be transferred: the facts that are known before, and what its octets are. `is_listed` where
    a listing said how many, which then may be more than there are now (RFC 3659 7.5.7)."""

    reply: Reply
    form: BodyForm
    is_listed: bool = False

    @property
    def expected(self) -> int | None:
        """Octets that the body will have; None where SIZE did not tell."""
        end = self.reply.size if self.reply.stop is None else self.reply.stop
        return None if end is None else max(0, end - self.reply.start)


class TransferRefusal(NamedTuple):
    """The final reply was 4yz or 5yz and no octet came; `started` if a 1yz had been there before."""

    reply: ControlReply
    started: bool


class CompleteTransfer(NamedTuple):
    """A transfer of so many octets, complete, what shows that it is, and what the server said at its end."""

    received: int
    verified: frozenset[str]
    text: bytes = b""


def transfer(
    control: Control, planned: FtpTransfer, verb: bytes, *arguments: bytes
) -> Dialogue[TransferRefusal | CompleteTransfer]:
    """Send the command on a data connection that is open already, and see the transfer through. With the
    first octet the body begins; where none comes, `settle` begins it. Of a part no more is taken than it has:
    then the connection is of no more use, for servers differ in what they say to that, and when.

    Raises `Truncated` with both numbers when octets came and not all of them, `Disconnected` when the
    data connection broke before the first, `ServiceClosing` for a 421 before the first.
    """
    doing = shown_command(verb, *arguments)
    control.state.idle = False
    yield from control.say(verb, *arguments)
    begun = yield from _await_data(control, doing, announced=_is_announced(control.state, verb))
    heard = list(begun.values)
    if not begun.octets:
        return (yield from _conclude_nothing(control, heard, begun, planned, doing))
    yield StartBody(planned.reply)
    text = NetworkText() if planned.form is BodyForm.TEXT else None
    count = None if planned.reply.stop is None else planned.expected
    octets = CopyBody(planned.form.value, count, source="data", filter=text, expected=planned.expected)
    passed = yield from copy_body(octets)
    yield CloseData()
    if count is not None:
        return CompleteTransfer(count, frozenset({"length"}))
    try:
        final = yield from _hear_final(control, heard, passed.octets, planned, doing)
        return _check_whole(control, final, passed, planned, doing)
    except ProtocolError as error:
        raise error.saying(_count(passed.octets, planned)) from error.__cause__


def settle(reply: Reply, whole: CompleteTransfer) -> Dialogue[None]:
    """What shows that it is whole becomes known; a body without an octet begins now, and is over."""
    reply.verified.update(whole.verified)
    if not whole.received:
        yield StartBody(reply)


def _is_announced(state: FtpSessionState, verb: bytes) -> bool:
    """Comes 150 before the first octet? Who is inside TLS may want the handshake first."""
    return state.in_order and not state.protected and verb == b"RETR"


def _await_data(control: Control, doing: str, *, announced: bool) -> Dialogue[BodyStarted[ControlReply]]:
    begun = yield AwaitData(
        control.reader, f"the first reply to {doing}, or the first data", ControlReply(150), _weigh, announced
    )
    assert isinstance(begun, BodyStarted)
    for reply in begun.values:
        if reply.preliminary:
            control.take(reply)
    return begun


def _weigh(heard: Sequence[ControlReply]) -> DataExpectation:
    """A refusal is the end of it; behind a 1yz octets may have come before."""
    if heard[-1].preliminary:
        return DataExpectation.MORE
    if heard[-1].good:
        return DataExpectation.LAST
    return DataExpectation.OVER if len(heard) == 1 else DataExpectation.BROKEN


def _conclude_nothing(
    control: Control,
    heard: list[ControlReply],
    begun: BodyStarted[ControlReply],
    planned: FtpTransfer,
    doing: str,
) -> Dialogue[TransferRefusal | CompleteTransfer]:
    """No octet came: an empty object, a refusal, or a failure. The final reply tells."""
    yield CloseData()
    try:
        final = yield from _hear_final(control, heard, 0, planned, doing)
    except (Disconnected, TimedOut) as error:
        raise (begun.broken or error) from None
    if final.refused and final.code != 426:
        control.state.idle = True
        return TransferRefusal(final, started=any(reply.preliminary for reply in heard))
    if final.good and begun.broken is not None:
        raise begun.broken
    return _check_whole(control, final, CopiedBody(0, begun.close_notify), planned, doing)


def _hear_final(
    control: Control, heard: list[ControlReply], received: int, planned: FtpTransfer, doing: str
) -> Dialogue[ControlReply]:
    """The reply that ends the transfer, heard already or still to come; 1yz ones join `heard`. Without
    one nothing is proved: `Truncated`."""
    try:
        if heard and not heard[-1].preliminary:
            control.take(heard[-1])
            return heard[-1]
        while len(heard) < PRELIMINARY_LIMIT:
            reply = yield from receive(control.reader, f"the final reply to {doing}", ControlReply(226))
            control.take(reply)
            if not reply.preliminary:
                yield from control.refuse_options()
                return reply
            heard.append(reply)
    except ServiceClosing as error:
        if received == 0:
            raise
        raise _cut(f"{doing}: {error.message}", received, planned) from error
    except (Disconnected, TimedOut) as error:
        if received == 0:
            raise
        raise _cut(f"{doing}: the data ended and no final reply came", received, planned) from error
    raise ProtocolError(f"{doing}: {PRELIMINARY_LIMIT} preliminary replies and no final one")


def _check_whole(
    control: Control, final: ControlReply, passed: CopiedBody, planned: FtpTransfer, doing: str
) -> CompleteTransfer:
    received, expected = passed.octets, planned.expected
    if not final.good:
        raise _broken_off(final, received, planned, doing)
    control.state.idle = True
    secured = control.state.protected
    if secured and not passed.close_notify:
        raise _cut(f"{doing}: the data connection ended without TLS's close_notify", received, planned)
    if expected is not None and received < expected:
        if planned.is_listed:
            words = f"{doing}: fewer octets came than were listed, {_count(received, planned)}"
            raise Changed(words, again=True)
        raise _cut(f"{doing}: fewer octets came than SIZE had given", received, planned)
    proofs = {"final-reply": True, "close-notify": secured, "length": received == expected}
    return CompleteTransfer(
        received, frozenset(word for word, shown in proofs.items() if shown), final.octets
    )


def _broken_off(reply: ControlReply, received: int, planned: FtpTransfer, doing: str) -> Exception:
    """A final reply that is not 2yz: however many octets came, the transfer failed."""
    if (received == 0 and reply.code != 426) or reply.intermediate:
        return refusal(reply, doing)
    message = f"{doing}: the transfer broke off, the server said {reply.shown!r}"
    if received == 0:
        return Disconnected(f"{message}, before the first octet")
    return _cut(message, received, planned)


def _cut(message: str, received: int, planned: FtpTransfer) -> Truncated:
    return Truncated(f"{message}, {_count(received, planned)}", received=received, expected=planned.expected)


def _count(received: int, planned: FtpTransfer) -> str:
    announced = "" if planned.expected is None else f" of {planned.expected}"
    return f"after {received}{announced} octets"


def refuse_transfer(refused: TransferRefusal, verb: bytes, *arguments: bytes) -> Exception:
    """The error for a transfer that was refused."""
    return refusal(refused.reply, shown_command(verb, *arguments))


# data connection: What a transfer needs before it: the type, and a data connection of its own (RFC 959 5,
# RFC 2428).
#
# Passive only. EPSV first; where it is not answered with a port, or that port cannot be reached or is
# refused (S13), PASV, whose host is ignored. Which of them works is remembered for the connection. A port
# is used once.


def set_type(control: Control, code: bytes) -> Dialogue[None]:
    """TYPE, unless the server has it so already."""
    if control.state.type_code != code:
        yield from control.demand(b"TYPE", code, ideal=(200, b"Type set"))
        control.state.type_code = code


def open_data(control: Control, offer: PassiveReply | None = None) -> Dialogue[None]:
    """EPSV, unless what the server says to it was heard already, and where that does not work PASV (IPv4
    only); then the data connection."""
    state = control.state
    if state.extended is not False:
        peer = yield RequestPeer(
            "if EPSV is refused or its port cannot be reached: PASV, on IPv4 only, and only the port it gives"
        )
        failure = yield from _try_extended(control, offer)
        if failure is None:
            return
        if isinstance(peer, str) and ":" in peer:
            raise failure
        state.extended = False
    else:
        failure = None
    offer = yield from _request_port(control, b"PASV", PassiveReply(ControlReply(227), 0))
    if offer.port is None:
        raise failure if isinstance(failure, Refused) else refusal(offer.reply, "'PASV'")
    yield OpenData(offer.port, state.protected)


def _try_extended(control: Control, offer: PassiveReply | None) -> Dialogue[Exception | None]:
    """What was in the way; None where nothing was."""
    if offer is None:
        offer = yield from _request_port(control, b"EPSV", PassiveReply(ControlReply(229), 0))
    if offer.port is None:
        return refusal(offer.reply, "'EPSV'")
    yield PlanNote("the port of the data connection is the server's choice; shown as 0")
    try:
        yield OpenData(offer.port, control.state.protected)
    except (Unreachable, TimedOut, Disconnected) as error:
        return error
    except Refused as error:
        if error.rule != "S13":
            raise
        return error
    control.state.extended = True
    return None


def _request_port(control: Control, verb: bytes, ideal: PassiveReply) -> Dialogue[PassiveReply]:
    yield from control.say(verb)
    return (yield from hear_port(control, verb, ideal))


def hear_port(control: Control, verb: bytes, ideal: PassiveReply) -> Dialogue[PassiveReply]:
    """What the server says to EPSV or PASV, which was sent."""
    parse = parse_extended if verb == b"EPSV" else parse_passive
    offer = yield from receive(
        read_offer(control.reader, parse), f"the reply to {verb.decode('ascii')}", ideal
    )
    control.take(offer.reply)
    yield from control.refuse_options()
    return offer
