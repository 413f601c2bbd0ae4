"""Listing a directory: NLST; MLSD where it is asked for or kinds, sizes and dates are; LIST where they are
and the server has no MLSD. CWD tells an empty directory from a missing one."""

from __future__ import annotations

import re
from typing import TypeAlias

from protocols.errors import NotFound
from protocols.ftp.control import refusal, shown_command
from protocols.ftp.data_connection import open_data, set_type
from protocols.ftp.facts import parse_path
from protocols.ftp.refusal import refusal_of
from protocols.ftp.reply import shown_text
from protocols.ftp.session import FtpSession, enter
from protocols.ftp.transfer import (
    BodyForm,
    CompleteTransfer,
    FtpTransfer,
    TransferRefusal,
    refuse_transfer,
    settle,
    transfer,
)
from protocols.location import Finding, JsonValue, Kind
from protocols.reply import Reply
from protocols.step import Dialogue, PlanNote

#: The server has not got the command.
UNIMPLEMENTED = (500, 502, 504)
#: A line of the answer to FEAT: MLST stands for both, and some name MLSD alone.
_NAMES_FACTS = re.compile(rb" *MLS[TD]\b", re.IGNORECASE)
#: What servers say to NLST in an empty directory, and to NLST of what is not there.
_PERHAPS_EMPTY = (450, 550)


#: What is told of a directory besides what is in it.
Told: TypeAlias = "dict[str, JsonValue] | None"


def names_reply(session: FtpSession, argument: bytes = b"", told: Told = None) -> Reply:
    """What a listing begins with; `argument` is what NLST is given, empty if nothing."""
    from protocols.ftp.listing import NlstReader  # most URLs name files

    findings: list[Finding] = []
    names = NlstReader(session.url, argument, session.control.limits, findings)
    return Reply(kind=Kind.DIRECTORY, media_type="text/plain", listing=names, findings=findings, extra=told)


def list_names(session: FtpSession, argument: bytes) -> Dialogue[None]:
    """Names of what is in `argument`, empty for where the connection stands."""
    control = session.control
    yield from set_type(control, b"A")
    told = yield from _where(session, argument)
    if (yield from _wants_facts(session)) and (yield from _list_facts(session, argument, told)):
        return
    if session.options.detailed:
        argument = yield from _stand_in(session, argument)
        if not argument and (yield from _list_lines(session, told)):
            return
    yield from open_data(control)
    if argument:
        yield PlanNote("if NLST is refused with 450 or 550, or gives nothing: CWD tells an empty directory")
    reply = names_reply(session, argument, told)
    arguments = (argument,) if argument else ()
    ended = yield from transfer(control, FtpTransfer(reply, BodyForm.NAMES), b"NLST", *arguments)
    if isinstance(ended, TransferRefusal) or (argument and not ended.received):
        yield from _check_empty(session, argument, ended)
    if isinstance(ended, TransferRefusal):
        detail = f"NLST was refused with {ended.reply.shown!r}: taken as an empty directory"
        reply.findings.append(Finding("ftp:empty", "warn", detail))
        ended = CompleteTransfer(0, frozenset())
    yield from _end(reply, ended)


def _end(reply: Reply, ended: CompleteTransfer) -> Dialogue[None]:
    """A listing is whole where its transfer is, unless the server says that it cut it: Pure-FTPd does at
    10,000 names, with 226."""
    if b"truncated" in ended.text.lower():
        detail = f"the server cut the listing, names are missing: it said {shown_text(ended.text)!r}"
        reply.findings.append(Finding("ftp:listing-cut", "warn", detail))
    yield from settle(reply, ended)


def _where(session: FtpSession, argument: bytes) -> Dialogue[Told]:
    """Where the connection really stands, whatever links led there: servers resolve them for PWD."""
    if argument or not session.options.placed:
        return None
    reply = yield from session.control.command(b"PWD", ideal=(257, b'"/"'))
    path = parse_path(reply) if reply.code == 257 else None
    return None if path is None else {"unique": path.decode("latin-1")}


def _wants_facts(session: FtpSession) -> Dialogue[bool]:
    """MLSD where it is asked for; where kinds, sizes and dates are, if the server has it (RFC 2389 3.2,
    RFC 3659 7.8)."""
    if session.options.mlsd or not session.options.detailed:
        return session.options.mlsd
    state = session.state
    if state.lists_facts is None:
        answer = yield from session.control.command(
            b"FEAT", ideal=(211, b"Features\n MLST type*;size*;modify*;")
        )
        state.lists_facts = answer.good and any(map(_NAMES_FACTS.match, answer.lines))
    return state.lists_facts


def _check_empty(
    session: FtpSession, argument: bytes, ended: TransferRefusal | CompleteTransfer
) -> Dialogue[None]:
    """NLST gave nothing or was refused: is that an empty directory, or is there none?"""
    verb = (b"NLST", argument) if argument else (b"NLST",)
    if isinstance(ended, TransferRefusal) and (ended.started or ended.reply.code not in _PERHAPS_EMPTY):
        raise refuse_transfer(ended, *verb)
    if argument:
        reply = yield from enter(session)
        if not reply.good:
            if reply.code < 500:
                raise refusal(reply, shown_command(b"CWD", argument))
            raise refusal_of(
                NotFound, reply, f"{shown_command(*verb)}: nothing is listed, and CWD is refused"
            )
    elif not session.url.cwds and not session.name:
        assert isinstance(ended, TransferRefusal)
        raise refuse_transfer(ended, *verb)


def _list_facts(session: FtpSession, argument: bytes, told: Told) -> Dialogue[bool]:
    """MLSD (RFC 3659); False where the server has not got it."""
    from protocols.ftp.listing import MlsdReader  # only where it is asked for

    yield from open_data(session.control)
    instead = "LIST, whose usual forms are read" if session.options.detailed else "NLST"
    yield PlanNote(f"if the server does not know MLSD: {instead}")
    findings: list[Finding] = []
    facts = MlsdReader(session.url, session.control.limits, findings)
    reply = Reply(kind=Kind.DIRECTORY, media_type="text/plain", listing=facts, findings=findings, extra=told)
    arguments = (argument,) if argument else ()
    ended = yield from transfer(session.control, FtpTransfer(reply, BodyForm.FACTS), b"MLSD", *arguments)
    if isinstance(ended, CompleteTransfer):
        yield from _end(reply, ended)
        return True
    if ended.reply.code in UNIMPLEMENTED and not ended.started:
        return False
    raise refuse_transfer(ended, b"MLSD", *arguments)


def _stand_in(session: FtpSession, argument: bytes) -> Dialogue[bytes]:
    """Go where the names are, for LIST gets no argument: `-a` is an option to some servers, and a missing
    name looks like an empty directory. What is left of the argument: all of it, where there is no way in."""
    if not argument or (yield from enter(session)).good:
        return b""
    return argument


def _list_lines(session: FtpSession, told: Told) -> Dialogue[bool]:
    """LIST (RFC 959 4.1.3); False where NLST may do better."""
    from protocols.ftp.listing import ListReader  # only where the server has no MLSD

    yield from open_data(session.control)
    findings: list[Finding] = []
    clock = session.options.clock
    lines = ListReader(session.url, session.control.limits, findings, None if clock is None else clock())
    reply = Reply(kind=Kind.DIRECTORY, media_type="text/plain", listing=lines, findings=findings, extra=told)
    ended = yield from transfer(session.control, FtpTransfer(reply, BodyForm.LINES), b"LIST")
    if isinstance(ended, CompleteTransfer):
        yield from _end(reply, ended)
        return True
    if not ended.started and ended.reply.code in (*UNIMPLEMENTED, *_PERHAPS_EMPTY):
        return False
    raise refuse_transfer(ended, b"LIST")
