"""Listing a directory: NLST, MLSD where it is asked for, and CWD to tell an empty one from a missing one."""

from __future__ import annotations

from protocols.errors import NotFound
from protocols.ftp.control import refusal, shown_command
from protocols.ftp.data_connection import open_data, set_type
from protocols.ftp.refusal import refusal_of
from protocols.ftp.transfer import Form, Found, Refusal, Whole, refuse_transfer, transfer
from protocols.ftp.visit import Outcome, Visit, enter
from protocols.location import Finding, Kind
from protocols.step import Dialogue, Note

#: The server has not got the command.
UNIMPLEMENTED = (500, 502, 504)
#: What servers say to NLST in an empty directory, and to NLST of what is not there.
_PERHAPS_EMPTY = (450, 550)


def list_names(visit: Visit, argument: bytes) -> Dialogue[Outcome]:
    """Names of what is in `argument`, empty for where the connection stands."""
    control = visit.control
    yield from set_type(control, b"A")
    if visit.options.mlsd:
        outcome = yield from _list_facts(visit, argument)
        if outcome is not None:
            return outcome
    yield from open_data(control)
    if argument:
        yield Note("if NLST is refused with 450 or 550, or gives nothing: CWD tells an empty directory")
    found = Found(kind=Kind.DIRECTORY, form=Form.NAMES, argument=argument)
    arguments = (argument,) if argument else ()
    ended = yield from transfer(control, found, b"NLST", *arguments)
    if isinstance(ended, Whole) and (ended.received or not argument):
        return visit.come_to(found, ended.verified)
    return (yield from _settle_empty(visit, found, ended))


def _settle_empty(visit: Visit, found: Found, ended: Refusal | Whole) -> Dialogue[Outcome]:
    """NLST gave nothing or was refused: is that an empty directory, or is there none?"""
    verb = (b"NLST", found.argument) if found.argument else (b"NLST",)
    if isinstance(ended, Refusal) and (ended.started or ended.reply.code not in _PERHAPS_EMPTY):
        raise refuse_transfer(ended, *verb)
    if found.argument:
        reply = yield from enter(visit)
        if not reply.good:
            if reply.code < 500:
                raise refusal(reply, shown_command(b"CWD", found.argument))
            raise refusal_of(
                NotFound, reply, f"{shown_command(*verb)}: nothing is listed, and CWD is refused"
            )
    elif not visit.url.cwds and not visit.name:
        assert isinstance(ended, Refusal)
        raise refuse_transfer(ended, *verb)
    if isinstance(ended, Whole):
        return visit.come_to(found, ended.verified)
    detail = f"NLST was refused with {ended.reply.shown!r}: taken as an empty directory"
    return visit.come_to(found, (), Finding("ftp:empty", "warn", detail))


def _list_facts(visit: Visit, argument: bytes) -> Dialogue[Outcome | None]:
    """MLSD (RFC 3659); None where the server has not got it."""
    yield from open_data(visit.control)
    yield Note("if the server does not know MLSD: NLST")
    found = Found(kind=Kind.DIRECTORY, form=Form.FACTS)
    arguments = (argument,) if argument else ()
    ended = yield from transfer(visit.control, found, b"MLSD", *arguments)
    if isinstance(ended, Whole):
        return visit.come_to(found, ended.verified)
    if ended.reply.code in UNIMPLEMENTED and not ended.started:
        return None
    raise refuse_transfer(ended, b"MLSD", *arguments)
