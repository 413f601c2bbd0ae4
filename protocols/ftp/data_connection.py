"""What a transfer needs before it: the type, and a data connection of its own (RFC 959 5, RFC 2428).

Passive only. EPSV first; where it is refused or its port cannot be reached, PASV, whose host is ignored.
Which of them works is remembered for the connection. A port is used once.
"""

from __future__ import annotations

from protocols.errors import Disconnected, ProtocolError, TimedOut, Unreachable
from protocols.ftp.control import Control, refusal
from protocols.ftp.passive import Offer, parse_extended, parse_passive, read_offer
from protocols.ftp.reply import ControlReply
from protocols.step import AskPeer, Dialogue, Note, OpenData, hear


def set_type(control: Control, code: bytes) -> Dialogue[None]:
    """TYPE, unless the server has it so already."""
    if control.standing.type_code != code:
        yield from control.demand(b"TYPE", code, ideal=(200, b"Type set"))
        control.standing.type_code = code


def open_data(control: Control) -> Dialogue[None]:
    """EPSV, and where that does not work PASV (IPv4 only); then the data connection."""
    standing = control.standing
    if standing.extended is not False:
        peer = yield AskPeer(
            "if EPSV is refused or its port cannot be reached: PASV, on IPv4 only, and only the port it gives"
        )
        failure = yield from _try_extended(control)
        if failure is None:
            return
        if isinstance(peer, str) and ":" in peer:
            raise failure
        standing.extended = False
    offer = yield from _ask_port(control, b"PASV", Offer(ControlReply(227), 0))
    if offer.port is None:
        raise refusal(offer.reply, "'PASV'")
    yield OpenData(offer.port, standing.protected)


def _try_extended(control: Control) -> Dialogue[Exception | None]:
    offer = yield from _ask_port(control, b"EPSV", Offer(ControlReply(229), 0))
    if offer.port is None:
        failure = refusal(offer.reply, "'EPSV'")
        if isinstance(failure, ProtocolError):
            raise failure
        return failure
    yield Note("the port of the data connection is the server's choice; shown as 0")
    try:
        yield OpenData(offer.port, control.standing.protected)
    except (Unreachable, TimedOut, Disconnected) as error:
        return error
    control.standing.extended = True
    return None


def _ask_port(control: Control, verb: bytes, ideal: Offer) -> Dialogue[Offer]:
    parse = parse_extended if verb == b"EPSV" else parse_passive
    yield from control.say(verb)
    offer = yield from hear(read_offer(control.reader, parse), f"the reply to {verb.decode('ascii')}", ideal)
    control.take(offer.reply)
    yield from control.refuse_options()
    return offer
