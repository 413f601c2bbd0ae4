"""The facts of what a URL names and no more: SIZE and MDTM for a file, CWD to tell a directory (RFC 3659)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocols.ftp.control import refusal, shown_command
from protocols.ftp.data_connection import set_type
from protocols.ftp.directory import UNIMPLEMENTED, names_reply
from protocols.ftp.facts import parse_size
from protocols.ftp.reply import ControlReply
from protocols.ftp.session import FtpSession, enter, request_fact, request_time
from protocols.location import Kind
from protocols.reply import Reply
from protocols.step import Dialogue, PlanNote
from protocols.values import replace

if TYPE_CHECKING:  # a plan has no dates
    from datetime import datetime


def describe(session: FtpSession) -> Dialogue[Reply]:
    """What is found, without a data connection. `Kind.UNKNOWN` where the server knows neither SIZE nor
    MDTM and the name is no directory. In type A there is no size: SIZE counts what is stored, not what
    would be sent."""
    if session.url.typecode == "d" or not session.name:
        return (yield from _describe_directory(session))
    yield from set_type(session.control, b"I")
    sized = yield from request_fact(session, b"SIZE", b"0")
    modified = yield from request_time(session)
    if sized.code != 213:
        return (yield from _describe_unsized(session, sized, modified))
    return _file(session, parse_size(sized), modified)


def _describe_directory(session: FtpSession) -> Dialogue[Reply]:
    if session.name:
        reply = yield from enter(session)
        if not reply.good:
            raise refusal(reply, shown_command(b"CWD", session.name))
    return names_reply(session)


def _file(session: FtpSession, size: int | None, modified: datetime | None) -> Reply:
    if session.url.typecode == "a":
        return Reply(kind=Kind.DOCUMENT, media_type="text/plain", modified=modified)
    return Reply(kind=Kind.DOCUMENT, size=size, modified=modified)


def _describe_unsized(session: FtpSession, sized: ControlReply, modified: datetime | None) -> Dialogue[Reply]:
    """No size: a directory (of which some servers tell the time), nothing, or a server without SIZE."""
    if session.url.typecode is None:
        yield PlanNote("the name may be that of a directory: CWD tells")
        entered = yield from enter(session)
        if entered.good:
            return replace(names_reply(session), modified=modified)
    if modified is not None:
        return _file(session, None, modified)
    if sized.refused and sized.code not in UNIMPLEMENTED:
        raise refusal(sized, shown_command(b"SIZE", session.name))
    return Reply(kind=Kind.UNKNOWN)
