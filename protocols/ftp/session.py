"""One URL on one control connection: how to get to its directory, and what may be asked there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocols.ftp.control import Control, refusal, shown_command
from protocols.ftp.facts import parse_path, parse_size, parse_time
from protocols.ftp.login import log_in
from protocols.ftp.reply import ControlReply
from protocols.ftp.reuse import DirectoryRoute, FtpSessionState
from protocols.ftp.url import FtpUrl
from protocols.options import Options
from protocols.step import Dialogue
from protocols.values import NamedTuple

if TYPE_CHECKING:  # a plan has no dates
    from datetime import datetime

_ABSOLUTE = "an empty segment is a CWD without argument; an absolute path is written %2F"


class ConnectionNotReusable(Exception):
    """A kept connection does not get to where the URL begins."""


class FtpSession(NamedTuple):
    """One URL on one control connection."""

    control: Control
    url: FtpUrl
    options: Options

    @property
    def name(self) -> bytes:
        return self.url.name or b""

    @property
    def state(self) -> FtpSessionState:
        return self.control.state


def arrive(session: FtpSession) -> Dialogue[None]:
    """Log in on a new connection, and go where the URL's directory is."""
    control = session.control
    yield from log_in(control, session.url, session.options)
    if session.options.keep:
        reply = yield from control.command(b"PWD", ideal=(257, b'"/"'))
        session.state.home = parse_path(reply) if reply.code == 257 else None
    yield from change_directory(control, session.url.cwds)


def return_to(control: Control, cwds: tuple[bytes, ...]) -> Dialogue[None]:
    """On a kept connection, through the login directory if it stands elsewhere."""
    state = control.state
    route = state.route(cwds)
    if route is DirectoryRoute.ANEW:
        raise ConnectionNotReusable
    if route is DirectoryRoute.STAY:
        return
    home, state.cwds = state.home, None
    assert home is not None
    moved = yield from control.command(b"CWD", home, ideal=(250, b"OK"))
    reply = yield from control.command(b"PWD", ideal=(257, b'"/"'))
    if not moved.good or reply.code != 257 or parse_path(reply) != home:
        raise ConnectionNotReusable
    yield from change_directory(control, cwds)


def change_directory(control: Control, cwds: tuple[bytes, ...]) -> Dialogue[None]:
    for cwd in cwds:
        control.state.cwds = None
        yield from control.demand(b"CWD", cwd, ideal=(250, b"OK"), hint="" if cwd else _ABSOLUTE)
    control.state.cwds = cwds


def enter(session: FtpSession) -> Dialogue[ControlReply]:
    """CWD to the name itself: is it a directory?"""
    session.state.cwds = None
    return (yield from session.control.command(b"CWD", session.name, ideal=(250, b"OK")))


def request_size(session: FtpSession) -> Dialogue[int | None]:
    return _size_in((yield from request_fact(session, b"SIZE", b"0")))


def hear_size(session: FtpSession) -> Dialogue[int | None]:
    """What the server says to SIZE, which was sent."""
    return _size_in((yield from _hear_fact(session, b"SIZE", b"0")))


def _size_in(reply: ControlReply) -> int | None:
    return parse_size(reply) if reply.code == 213 else None


def request_time(session: FtpSession) -> Dialogue[datetime | None]:
    return _time_in((yield from request_fact(session, b"MDTM", b"-")))


def hear_time(session: FtpSession) -> Dialogue[datetime | None]:
    """What the server says to MDTM, which was sent."""
    return _time_in((yield from _hear_fact(session, b"MDTM", b"-")))


def _time_in(reply: ControlReply) -> datetime | None:
    return parse_time(reply.octets) if reply.code == 213 else None


def request_fact(session: FtpSession, verb: bytes, ideal: bytes) -> Dialogue[ControlReply]:
    yield from session.control.say(verb, session.name)
    return (yield from _hear_fact(session, verb, ideal))


def _hear_fact(session: FtpSession, verb: bytes, ideal: bytes) -> Dialogue[ControlReply]:
    reply = yield from session.control.hear_reply(verb, session.name, ideal=(213, ideal))
    if reply.good or reply.refused:
        return reply
    raise refusal(reply, shown_command(verb, session.name))
