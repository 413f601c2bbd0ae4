"""From an ftp URL to commands (RFC 1738 3.2.2): log in, one CWD each, then TYPE and RETR or NLST.

Without a typecode: an empty name is a directory; any other name is taken as a file in type I, and where
RETR is refused with 550 `CWD name` tells whether it is a directory. Arguments are sent as they are: no
segment is dropped, joined or normalized.
"""

from __future__ import annotations

from functools import partial

from protocols.errors import Disconnected, InvalidUrl, TryLater
from protocols.ftp.control import Control, ServiceClosing, command, refusal, shown_command
from protocols.ftp.data_connection import hear_port, open_data, set_type
from protocols.ftp.description import describe
from protocols.ftp.directory import list_names
from protocols.ftp.login import is_implicit
from protocols.ftp.passive import PassiveReply
from protocols.ftp.reply import ControlReply
from protocols.ftp.reuse import FtpSessionState, login_key, stands_in
from protocols.ftp.session import (
    ConnectionNotReusable,
    FtpSession,
    arrive,
    enter,
    hear_size,
    hear_time,
    request_size,
    request_time,
    return_to,
)
from protocols.ftp.transfer import BodyForm, FtpTransfer, TransferRefusal, refuse_transfer, settle, transfer
from protocols.ftp.url import FtpUrl
from protocols.location import Kind
from protocols.options import Limits, Options, Validators
from protocols.reply import Reply
from protocols.step import Acquire, Connect, Dialogue, PlanNote, StartBody
from protocols.values import replace


def retrieve(
    url: FtpUrl, options: Options | None = None, limits: Limits | None = None
) -> Dialogue[FtpSessionState | None]:
    """The steps of a retrieval. The body begins once data comes, or once the final reply has said that there
    is none; its end is the end of the transfer, final reply and all. Returns how the connection stands, if it
    is in order.

    A 421 before any data, and a failure of the first command on a kept connection, are tried again once
    on a new one.
    """
    options, limits = options or Options(), limits or Limits()
    check_expressible(url)
    check_arguments(url)
    tls, tries, suits = is_implicit(url), 2, partial(stands_in, url.cwds)
    while (state := (yield Acquire(login_key(url, options), tls, suits))) is not None:
        assert isinstance(state, FtpSessionState)
        session = FtpSession(Control(limits, state), url, options)
        try:
            yield from return_to(session.control, url.cwds)
            yield from _inquire(session)
            return session.state if session.state.idle else None
        except ConnectionNotReusable:
            continue
        except (Disconnected, ServiceClosing) as error:
            if session.control.commands > 1:
                if isinstance(error, Disconnected):
                    raise
                tries = 1
    while True:
        session = FtpSession(Control(limits, FtpSessionState()), url, options)
        try:
            yield from arrive(session)
            yield from _inquire(session)
            return session.state if session.state.idle else None
        except ServiceClosing as error:
            tries -= 1
            if not tries:
                raise TryLater(error.message, code=error.code, text=error.text) from error
            yield Connect(tls)


def _inquire(session: FtpSession) -> Dialogue[None]:
    if session.options.want == "facts":
        yield StartBody((yield from describe(session)))
    else:
        yield from _fetch(session)


def check_expressible(url: FtpUrl) -> None:
    """Raises `InvalidUrl` for a URL that asks for a file and names none: RETR needs an argument."""
    if not url.name and url.typecode in ("a", "i"):
        place = url.place("name")
        where = len(url.text) if place is None else place.start
        raise InvalidUrl("missing-path", where, "RETR of an empty name cannot be expressed: nothing is sent")


def check_arguments(url: FtpUrl) -> None:
    """Raises `Refused` (S02) for what could not be sent, while nothing is connected yet."""
    command(b"CWD", url.user or b"", url.password or b"", *url.cwds, url.name or b"")


def _fetch(session: FtpSession) -> Dialogue[None]:
    if session.url.typecode == "d" or not session.name:
        yield from list_names(session, session.name)
        return
    refused = yield from retrieve_file(session)
    if refused is None:
        return
    failure = refuse_transfer(refused, b"RETR", session.name)
    if (
        session.url.typecode is not None
        or refused.reply.code != 550
        or refused.started
        or session.options.start
    ):
        raise failure
    if not (yield from enter(session)).good:
        raise failure
    yield from list_names(session, b"")


def retrieve_file(session: FtpSession) -> Dialogue[TransferRefusal | None]:
    """The file from its first octet to the final reply; the refusal, where RETR was refused."""
    code = b"A" if session.url.typecode == "a" else b"I"
    control = session.control
    yield from set_type(control, code)
    offer = None
    if code == b"A":
        planned = yield from _measure_text(session)
    elif _asks_together(session):
        planned, offer = yield from _measure_and_request_port(session)
    else:
        planned = yield from _measure(session)
    if _is_covered(session.options, planned):
        yield StartBody(replace(planned.reply, unchanged=True))
        return None
    yield from open_data(control, offer)
    if offer is None and code != b"A":
        planned = yield from _restart(session, planned)
    if session.url.typecode is None:
        yield PlanNote(
            "if RETR is refused with 550: CWD to the name, and if that is a directory TYPE A and NLST"
        )
    ended = yield from transfer(control, planned, b"RETR", session.name)
    if isinstance(ended, TransferRefusal):
        return ended
    yield from settle(planned.reply, ended)
    return None


def _is_covered(options: Options, planned: FtpTransfer) -> bool:
    """Is the caller's copy no older? Of a file that SIZE tells nothing of this is not known: it may be a
    directory, and some servers have times of those."""
    reply, held = planned.reply, options.held
    if held is None or options.start or (reply.size is None and planned.form is not BodyForm.TEXT):
        return False
    return held.covers(Validators(size=reply.size, modified=reply.modified))


def _measure_text(session: FtpSession) -> Dialogue[FtpTransfer]:
    """SIZE in type A, if it says anything, is of the text as it is sent. MDTM where a copy may be older."""
    modified = (yield from request_time(session)) if session.options.held is not None else None
    form = BodyForm.FILE if session.options.raw else BodyForm.TEXT
    return FtpTransfer(Reply(kind=Kind.DOCUMENT, media_type="text/plain", modified=modified), form)


def _measure(session: FtpSession) -> Dialogue[FtpTransfer]:
    """SIZE asks only, so it may be refused. MDTM where a file will have the time, or octets are held
    already and may be outdated. Neither of what a listing told, unless it may be outdated, too."""
    options = session.options
    is_part = options.start or options.stop is not None
    size, modified, _ = Validators() if is_part else options.listed
    is_listed = size is not None
    if not is_listed:
        size = yield from request_size(session)
    if modified is None and (is_part or options.want == "file"):
        modified = yield from request_time(session)
    return FtpTransfer(Reply(kind=Kind.DOCUMENT, size=size, modified=modified), BodyForm.FILE, is_listed)


def _asks_together(session: FtpSession) -> bool:
    """May EPSV be asked for before it is known what SIZE and MDTM come to? Where the whole of the file is
    wanted whatever they say."""
    state, options = session.state, session.options
    is_whole = options.held is None and not options.start and options.stop is None
    return state.in_order and state.extended is True and is_whole


def _measure_and_request_port(session: FtpSession) -> Dialogue[tuple[FtpTransfer, PassiveReply]]:
    """As `_measure`, with EPSV in the same write: one round trip for all of them."""
    control, options = session.control, session.options
    size, modified, _ = options.listed
    is_listed, asks_time = size is not None, modified is None and options.want == "file"
    verbs = ([] if is_listed else [b"SIZE"]) + ([b"MDTM"] if asks_time else [])
    yield from control.say_together(*(command(verb, session.name) for verb in verbs), command(b"EPSV"))
    if not is_listed:
        size = yield from hear_size(session)
    if asks_time:
        modified = yield from hear_time(session)
    offer = yield from hear_port(control, b"EPSV", PassiveReply(ControlReply(229), 0))
    return FtpTransfer(
        Reply(kind=Kind.DOCUMENT, size=size, modified=modified), BodyForm.FILE, is_listed
    ), offer


def _restart(session: FtpSession, planned: FtpTransfer) -> Dialogue[FtpTransfer]:
    """REST, where octets of this same file are held and there are at least as many (vsftpd sends an empty
    file and 226 for a start beyond the end). Where it is refused, the body begins at octet 0."""
    start, stop, reply = session.options.start, session.options.stop, planned.reply
    same = session.options.known.agree(Validators(size=reply.size, modified=reply.modified))
    if not same or reply.size is None or (start if stop is None else stop) > reply.size:
        return planned
    if not start:
        return planned._replace(reply=replace(reply, stop=stop))
    octets = str(start).encode("ascii")
    answer = yield from session.control.command(b"REST", octets, ideal=(350, b"OK"))
    if answer.refused:
        return planned
    if answer.code != 350:
        raise refusal(answer, shown_command(b"REST", octets))
    return planned._replace(reply=replace(reply, start=start, stop=stop))
