"""One transfer: a data connection of its own, a command, the octets, the final reply (RFC 959 5, RFC 2428).

The data connection is made before the command is sent: all servers hold the 150 back until
it is there. Stream mode has no length, so a transfer is whole only with a 2yz as final reply, an orderly
end of the data (in TLS with close_notify) and no fewer octets than SIZE gave. The data connection is
closed before the final reply is waited for: ProFTPD sends none until then. Between the command and the
final reply nothing is sent.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from protocols.errors import Disconnected, ProtocolError, TimedOut, Truncated
from protocols.ftp.control import PRELIMINARY_LIMIT, Closing, Control, refusal, shown_command
from protocols.ftp.reply import ControlReply
from protocols.location import Kind
from protocols.step import (
    AwaitData,
    Begun,
    CloseData,
    Dialogue,
    HandOver,
    Pace,
    hear,
)

if TYPE_CHECKING:  # a plan has no dates
    from datetime import datetime


class Form(enum.Enum):
    """What the octets of a body are."""

    FILE = "the octets of the file"
    TEXT = "the text of the file"
    NAMES = "the names in the directory"
    FACTS = "the names in the directory, with facts"


class Found(NamedTuple):
    """What a retrieval has found. `size` are the octets of the whole object as they would be sent, None
    if unknown; the body begins at octet `start` of it. `argument` is what NLST was given, empty if
    nothing."""

    kind: Kind
    form: Form
    size: int | None = None
    start: int = 0
    modified: datetime | None = None
    argument: bytes = b""

    @property
    def expected(self) -> int | None:
        """Octets that the body will have."""
        return None if self.size is None else max(0, self.size - self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(HandOver):
    """The data has begun to come. Answered with `Ended` when it has ended in an orderly way."""

    found: Found


class Ended(NamedTuple):
    """`received` octets came in all; did TLS end with close_notify?"""

    received: int
    close_notify: bool


class Refusal(NamedTuple):
    """The final reply was 4yz or 5yz and no octet came; `started` if a 1yz had been there before."""

    reply: ControlReply
    started: bool


class Whole(NamedTuple):
    """A transfer of so many octets, complete, and what shows that it is."""

    received: int
    verified: frozenset[str]


def transfer(control: Control, found: Found, verb: bytes, *arguments: bytes) -> Dialogue[Refusal | Whole]:
    """Send the command on a data connection that is open already, and see the transfer through.

    Raises `Truncated` with both numbers when octets came and not all of them, `Disconnected` when the
    data connection broke before the first, `Closing` for a 421 before the first.
    """
    doing = shown_command(verb, *arguments)
    control.standing.whole = False
    yield from control.say(verb, *arguments)
    begun = yield from _await_data(control, doing, found)
    heard = list(begun.values)
    if not begun.octets:
        return (yield from _conclude_nothing(control, heard, begun, found, doing))
    ended = yield Transfer(found.form.value, found=found)
    if not isinstance(ended, Ended):  # only rehearsed
        ended = Ended(max(begun.octets, found.expected or 0), close_notify=True)
    yield CloseData()
    try:
        final = yield from _hear_final(control, heard, ended.received, found, doing)
        return _check_whole(control, final, ended, found, doing)
    except ProtocolError as error:
        error.say_more(_count(ended.received, found))
        raise


def _await_data(control: Control, doing: str, found: Found) -> Dialogue[Begun[ControlReply]]:
    begun = yield AwaitData(
        control.reader, f"the first reply to {doing}, or the first data", ControlReply(150), _weigh
    )
    assert isinstance(begun, Begun)
    for reply in begun.values:
        if reply.preliminary:
            control.take(reply)
    return begun


def _weigh(heard: Sequence[ControlReply]) -> Pace:
    """A refusal is the end of it; behind a 1yz octets may have come before."""
    if heard[-1].preliminary:
        return Pace.MORE
    if heard[-1].good:
        return Pace.LAST
    return Pace.OVER if len(heard) == 1 else Pace.BROKEN


def _conclude_nothing(
    control: Control,
    heard: list[ControlReply],
    begun: Begun[ControlReply],
    found: Found,
    doing: str,
) -> Dialogue[Refusal | Whole]:
    """No octet came: an empty object, a refusal, or a failure. The final reply tells."""
    yield CloseData()
    try:
        final = yield from _hear_final(control, heard, 0, found, doing)
    except (Disconnected, TimedOut) as error:
        raise (begun.broken or error) from None
    if final.refused and final.code != 426:
        control.standing.whole = True
        return Refusal(final, started=any(reply.preliminary for reply in heard))
    if final.good and begun.broken is not None:
        raise begun.broken
    return _check_whole(control, final, Ended(0, begun.close_notify), found, doing)


def _hear_final(
    control: Control, heard: list[ControlReply], received: int, found: Found, doing: str
) -> Dialogue[ControlReply]:
    """The reply that ends the transfer, heard already or still to come; 1yz ones join `heard`. Without
    one nothing is proved: `Truncated`."""
    try:
        if heard and not heard[-1].preliminary:
            control.take(heard[-1])
            return heard[-1]
        while len(heard) < PRELIMINARY_LIMIT:
            reply = yield from hear(control.reader, f"the final reply to {doing}", ControlReply(226))
            control.take(reply)
            if not reply.preliminary:
                yield from control.refuse_options()
                return reply
            heard.append(reply)
    except Closing as error:
        if received == 0:
            raise
        raise _cut(f"{doing}: {error.message}", received, found) from error
    except (Disconnected, TimedOut) as error:
        if received == 0:
            raise
        raise _cut(f"{doing}: the data ended and no final reply came", received, found) from error
    raise ProtocolError(f"{doing}: {PRELIMINARY_LIMIT} preliminary replies and no final one")


def _check_whole(control: Control, final: ControlReply, ended: Ended, found: Found, doing: str) -> Whole:
    if not final.good:
        raise _broken_off(final, ended.received, found, doing)
    control.standing.whole = True
    secured = control.standing.protected
    if secured and not ended.close_notify:
        raise _cut(f"{doing}: the data connection ended without TLS's close_notify", ended.received, found)
    if found.expected is not None and ended.received < found.expected:
        raise _cut(f"{doing}: fewer octets came than SIZE had given", ended.received, found)
    proofs = {
        "final-reply": True,
        "close-notify": secured,
        "length": ended.received == found.expected,
    }
    return Whole(ended.received, frozenset(word for word, shown in proofs.items() if shown))


def _broken_off(reply: ControlReply, received: int, found: Found, doing: str) -> Exception:
    """A final reply that is not 2yz: however many octets came, the transfer failed."""
    if (received == 0 and reply.code != 426) or reply.intermediate:
        return refusal(reply, doing)
    message = f"{doing}: the transfer broke off, the server said {reply.shown!r}"
    if received == 0:
        return Disconnected(f"{message}, before the first octet")
    return _cut(message, received, found)


def _cut(message: str, received: int, found: Found) -> Truncated:
    return Truncated(f"{message}, {_count(received, found)}", received=received, expected=found.expected)


def _count(received: int, found: Found) -> str:
    announced = "" if found.expected is None else f" of {found.expected}"
    return f"after {received}{announced} octets"


def refuse_transfer(refused: Refusal, verb: bytes, *arguments: bytes) -> Exception:
    """The error for a transfer that was refused."""
    return refusal(refused.reply, shown_command(verb, *arguments))
