"""From an ftp URL to commands (RFC 1738 3.2.2): log in, one CWD each, then TYPE and RETR or NLST.

Without a typecode: an empty name is a directory; any other name is taken as a file in type I, and where
RETR is refused with 550 `CWD name` tells whether it is a directory. Arguments are sent as they are: no
segment is dropped, joined or normalized.
"""

from __future__ import annotations

from protocols.errors import Disconnected, InvalidUrl, TryLater
from protocols.ftp.control import Closing, Control, command, refusal, shown_command
from protocols.ftp.data_connection import open_data, set_type
from protocols.ftp.description import describe
from protocols.ftp.directory import list_names
from protocols.ftp.login import is_implicit
from protocols.ftp.reuse import Standing, login_key
from protocols.ftp.transfer import Form, Found, Refusal, refuse_transfer, transfer
from protocols.ftp.url import FtpUrl
from protocols.ftp.visit import Outcome, Strayed, Visit, arrive, ask_size, ask_time, enter, return_to
from protocols.location import Kind
from protocols.options import Limits, Options, Validators
from protocols.step import Borrow, Connect, Dialogue, Note


def retrieve(url: FtpUrl, options: Options | None = None, limits: Limits | None = None) -> Dialogue[Outcome]:
    """The steps of a retrieval; hands over a `Transfer` once data comes.

    A 421 before any data, and a failure of the first command on a kept connection, are tried again once
    on a new one.
    """
    options, limits = options or Options(), limits or Limits()
    check_expressible(url)
    check_arguments(url)
    tls, tries = is_implicit(url), 2
    while (standing := (yield Borrow(login_key(url, options), tls))) is not None:
        assert isinstance(standing, Standing)
        visit = Visit(Control(limits, standing), url, options)
        try:
            yield from return_to(visit.control, url.cwds)
            return (yield from _inquire(visit))
        except Strayed:
            continue
        except (Disconnected, Closing) as error:
            if visit.control.commands > 1:
                if isinstance(error, Disconnected):
                    raise
                tries = 1
    while True:
        visit = Visit(Control(limits, Standing()), url, options)
        try:
            yield from arrive(visit)
            return (yield from _inquire(visit))
        except Closing as error:
            tries -= 1
            if not tries:
                raise TryLater(error.message, code=error.code, text=error.text) from error
            yield Connect(tls)


def _inquire(visit: Visit) -> Dialogue[Outcome]:
    if visit.options.want == "facts":
        return (yield from describe(visit))
    return (yield from _fetch(visit))


def check_expressible(url: FtpUrl) -> None:
    """Raises `InvalidUrl` for a URL that asks for a file and names none: RETR needs an argument."""
    if not url.name and url.typecode in ("a", "i"):
        place = url.place("name")
        where = len(url.text) if place is None else place.start
        raise InvalidUrl("missing-path", where, "RETR of an empty name cannot be expressed: nothing is sent")


def check_arguments(url: FtpUrl) -> None:
    """Raises `Refused` (S02) for what could not be sent, while nothing is connected yet."""
    command(b"CWD", url.user or b"", url.password or b"", *url.cwds, url.name or b"")


def _fetch(visit: Visit) -> Dialogue[Outcome]:
    if visit.url.typecode == "d" or not visit.name:
        return (yield from list_names(visit, visit.name))
    refused = yield from retrieve_file(visit)
    if isinstance(refused, Outcome):
        return refused
    failure = refuse_transfer(refused, b"RETR", visit.name)
    if visit.url.typecode is not None or refused.reply.code != 550 or refused.started or visit.options.start:
        raise failure
    if not (yield from enter(visit)).good:
        raise failure
    return (yield from list_names(visit, b""))


def retrieve_file(visit: Visit) -> Dialogue[Outcome | Refusal]:
    code = b"A" if visit.url.typecode == "a" else b"I"
    control = visit.control
    yield from set_type(control, code)
    if code == b"A":
        found = Found(kind=Kind.DOCUMENT, form=Form.TEXT)
        yield from open_data(control)
    else:
        found = yield from _measure(visit)
        yield from open_data(control)
        found = yield from _restart(visit, found)
    if visit.url.typecode is None:
        yield Note("if RETR is refused with 550: CWD to the name, and if that is a directory TYPE A and NLST")
    ended = yield from transfer(control, found, b"RETR", visit.name)
    if isinstance(ended, Refusal):
        return ended
    return visit.come_to(found, ended.verified)


def _measure(visit: Visit) -> Dialogue[Found]:
    """SIZE asks only, so it may be refused. MDTM where a file will have the time, or octets are held
    already and may be outdated."""
    size = yield from ask_size(visit)
    modified = None
    if visit.options.start or visit.options.want == "file":
        modified = yield from ask_time(visit)
    return Found(kind=Kind.DOCUMENT, form=Form.FILE, size=size, modified=modified)


def _restart(visit: Visit, found: Found) -> Dialogue[Found]:
    """REST, where octets of this same file are held and there are at least as many (vsftpd sends an empty
    file and 226 for a start beyond the end). Where it is refused, the body begins at octet 0."""
    start = visit.options.start
    same = visit.options.known.agree(Validators(size=found.size, modified=found.modified))
    if not start or not same or found.size is None or start > found.size:
        return found
    octets = str(start).encode("ascii")
    reply = yield from visit.control.ask(b"REST", octets, ideal=(350, b"OK"))
    if reply.refused:
        return found
    if reply.code != 350:
        raise refusal(reply, shown_command(b"REST", octets))
    return Found(kind=found.kind, form=found.form, size=found.size, start=start, modified=found.modified)
