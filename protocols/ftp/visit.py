"""One URL on one control connection: how to get to its directory, and what may be asked there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from protocols.ftp.control import Control, refusal, shown_command
from protocols.ftp.facts import parse_path, parse_size, parse_time
from protocols.ftp.login import log_in
from protocols.ftp.reply import ControlReply
from protocols.ftp.reuse import Approach, Standing
from protocols.ftp.transfer import Found
from protocols.ftp.url import FtpUrl
from protocols.location import Finding
from protocols.options import Options
from protocols.step import Dialogue

if TYPE_CHECKING:  # a plan has no dates
    from datetime import datetime

_ABSOLUTE = "an empty segment is a CWD without argument; an absolute path is written %2F"


class Outcome(NamedTuple):
    """What a retrieval came to: what was found, what proves that it is whole, and how the connection
    stands now. `findings` are oddities of the replies."""

    found: Found
    verified: frozenset[str]
    standing: Standing
    findings: tuple[Finding, ...] = ()


class Strayed(Exception):
    """A kept connection does not get to where the URL begins."""


class Visit(NamedTuple):
    """One URL on one control connection."""

    control: Control
    url: FtpUrl
    options: Options

    @property
    def name(self) -> bytes:
        return self.url.name or b""

    @property
    def standing(self) -> Standing:
        return self.control.standing

    def come_to(self, found: Found, verified: Iterable[str] = (), *findings: Finding) -> Outcome:
        return Outcome(found, frozenset(verified), self.standing, findings)


def arrive(visit: Visit) -> Dialogue[None]:
    """Log in on a new connection, and go where the URL's directory is."""
    control = visit.control
    yield from log_in(control, visit.url, visit.options)
    if visit.options.keep:
        reply = yield from control.ask(b"PWD", ideal=(257, b'"/"'))
        visit.standing.home = parse_path(reply) if reply.code == 257 else None
    yield from change_directory(control, visit.url.cwds)


def return_to(control: Control, cwds: tuple[bytes, ...]) -> Dialogue[None]:
    """On a kept connection, through the login directory if it stands elsewhere."""
    standing = control.standing
    approach = standing.approach(cwds)
    if approach is Approach.ANEW:
        raise Strayed
    if approach is Approach.STAY:
        return
    home, standing.cwds = standing.home, None
    assert home is not None
    moved = yield from control.ask(b"CWD", home, ideal=(250, b"OK"))
    told = yield from control.ask(b"PWD", ideal=(257, b'"/"'))
    if not moved.good or told.code != 257 or parse_path(told) != home:
        raise Strayed
    yield from change_directory(control, cwds)


def change_directory(control: Control, cwds: tuple[bytes, ...]) -> Dialogue[None]:
    for cwd in cwds:
        control.standing.cwds = None
        yield from control.demand(b"CWD", cwd, ideal=(250, b"OK"), hint="" if cwd else _ABSOLUTE)
    control.standing.cwds = cwds


def enter(visit: Visit) -> Dialogue[ControlReply]:
    """CWD to the name itself: is it a directory?"""
    visit.standing.cwds = None
    return (yield from visit.control.ask(b"CWD", visit.name, ideal=(250, b"OK")))


def ask_size(visit: Visit) -> Dialogue[int | None]:
    reply = yield from ask_fact(visit, b"SIZE", b"0")
    return parse_size(reply) if reply.code == 213 else None


def ask_time(visit: Visit) -> Dialogue[datetime | None]:
    reply = yield from ask_fact(visit, b"MDTM", b"-")
    return parse_time(reply.octets) if reply.code == 213 else None


def ask_fact(visit: Visit, verb: bytes, ideal: bytes) -> Dialogue[ControlReply]:
    reply = yield from visit.control.ask(verb, visit.name, ideal=(213, ideal))
    if reply.good or reply.refused:
        return reply
    raise refusal(reply, shown_command(verb, visit.name))
