"""The facts of what a URL names and no more: SIZE and MDTM for a file, CWD to tell a directory (RFC 3659)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocols.ftp.control import refusal, shown_command
from protocols.ftp.data_connection import set_type
from protocols.ftp.directory import UNIMPLEMENTED
from protocols.ftp.facts import parse_size
from protocols.ftp.reply import ControlReply
from protocols.ftp.transfer import Form, Found
from protocols.ftp.visit import Outcome, Visit, ask_fact, ask_time, enter
from protocols.location import Kind
from protocols.step import Dialogue, Note

if TYPE_CHECKING:  # a plan has no dates
    from datetime import datetime

_DIRECTORY = Found(kind=Kind.DIRECTORY, form=Form.NAMES)


def describe(visit: Visit) -> Dialogue[Outcome]:
    """What is found, without a data connection. `Kind.UNKNOWN` where the server knows neither SIZE nor
    MDTM and the name is no directory. In type A there is no size: SIZE counts what is stored, not what
    would be sent."""
    if visit.url.typecode == "d" or not visit.name:
        return (yield from _describe_directory(visit))
    yield from set_type(visit.control, b"I")
    sized = yield from ask_fact(visit, b"SIZE", b"0")
    modified = yield from ask_time(visit)
    if sized.code != 213:
        return (yield from _describe_unsized(visit, sized, modified))
    return _describe_file(visit, parse_size(sized), modified)


def _describe_directory(visit: Visit) -> Dialogue[Outcome]:
    if visit.name:
        reply = yield from enter(visit)
        if not reply.good:
            raise refusal(reply, shown_command(b"CWD", visit.name))
    return visit.come_to(_DIRECTORY)


def _describe_file(visit: Visit, size: int | None, modified: datetime | None) -> Outcome:
    if visit.url.typecode == "a":
        return visit.come_to(Found(kind=Kind.DOCUMENT, form=Form.TEXT, modified=modified))
    return visit.come_to(Found(kind=Kind.DOCUMENT, form=Form.FILE, size=size, modified=modified))


def _describe_unsized(visit: Visit, sized: ControlReply, modified: datetime | None) -> Dialogue[Outcome]:
    """No size: a directory (of which some servers tell the time), nothing, or a server without SIZE."""
    if visit.url.typecode is None:
        yield Note("the name may be that of a directory: CWD tells")
        entered = yield from enter(visit)
        if entered.good:
            return visit.come_to(Found(kind=Kind.DIRECTORY, form=Form.NAMES, modified=modified))
    if modified is not None:
        return _describe_file(visit, None, modified)
    if sized.refused and sized.code not in UNIMPLEMENTED:
        raise refusal(sized, shown_command(b"SIZE", visit.name))
    return visit.come_to(Found(kind=Kind.UNKNOWN, form=Form.FILE))
