"""What a transfer needs before it: the type, and a data connection of its own (RFC 959 5, RFC 2428).

Passive only. EPSV first; where it is not answered with a port, or that port cannot be reached or is refused
(S13), PASV, whose host is ignored. Which of them works is remembered for the connection. A port is used once.
"""

from __future__ import annotations

from protocols.errors import Disconnected, Refused, TimedOut, Unreachable
from protocols.ftp.control import Control, refusal
from protocols.ftp.passive import PassiveReply, parse_extended, parse_passive, read_offer
from protocols.ftp.reply import ControlReply
from protocols.step import Dialogue, OpenData, PlanNote, RequestPeer, receive


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
