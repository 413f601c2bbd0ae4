"""The dialogues of an ftp URL (RFC 1738 3.2.2): login, one CWD per segment, RETR or a listing.

Without a typecode, a URL with an empty name is a directory. Any other name is requested as a file in type I.
If RETR is refused with 550, `CWD name` shows whether the name is a directory. Each segment of the URL becomes
one unchanged argument: segments are not dropped, joined or normalized. The module also contains the dialogue
for the metadata of a URL, and the replay of an archived object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from protocols.contract import ArchivedObject, Line, Reply
from protocols.errors import AccessDenied, Disconnected, InvalidUrl, NotFound, TryLater
from protocols.ftp.control import (
    EPSV,
    TRANSFERS,
    Control,
    DirectoryRoute,
    ServiceClosing,
    UnansweredCommand,
    await_optional,
    check_arguments,
    command,
    login_key,
    refusal,
    shown_command,
    stands_in,
)
from protocols.ftp.reply import ControlReply, make_refusal, parse_path, parse_size, shown_text
from protocols.ftp.session import (
    ConnectionNotReusable,
    EmptyListing,
    FtpSession,
    arrive,
    change_directory,
    enter,
    is_implicit,
    log_in,
    request_fact,
    request_time,
    return_home,
)
from protocols.ftp.transfer import (
    BodyForm,
    CompleteTransfer,
    FtpTransfer,
    TransferRefusal,
    open_data,
    open_known,
    send_transfer,
    set_type,
    settle,
    transfer,
)
from protocols.ftp.url import FtpUrl
from protocols.location import Finding, JsonValue, Kind
from protocols.options import Limits, Options, Validators
from protocols.step import Acquire, Connect, Dialogue, PlanNote, RequestPeer, StartBody
from protocols.wire import encode_line

if TYPE_CHECKING:
    from datetime import datetime


# The client chooses the command for a directory by these conditions:
# - MLSD, if MLSD is requested, or if the caller reads entries and FEAT lists MLST or MLSD
# - LIST, if the caller reads entries, and the server does not support or refuses MLSD
# - NLST, if the caller reads only names or the body, or if the server refuses MLSD and LIST
#
# An empty listing may also mean a missing directory. CWD distinguishes these cases.

#: The reply codes of a server that does not implement the command.
UNIMPLEMENTED = (500, 502, 504)
#: A line of the reply to FEAT. By RFC 3659, a line `MLST` announces both MLST and MLSD. Some servers send
#: only a line `MLSD`.
_NAMES_FACTS = re.compile(rb" *MLS[TD]\b", re.IGNORECASE)
#: The reply code of a server without a free data port (Pure-FTPd), which may start the transfer later.
_NO_DATA = 425
#: The reply codes to NLST of an empty directory. Servers send the same codes to NLST of a missing name.
_PERHAPS_EMPTY = (450, 550)
#: The texts of the 226 reply to a listing of a directory that can be entered but not read. vsftpd 3.0.3, for
#: LIST and NLST: "Transfer done (but failed to open directory)."; Pure-FTPd 1.0.50, for LIST: "Sorry, we were
#: unable to read [.]".
_UNREADABLE = re.compile(rb"failed to open directory|unable to read")
#: The replies to MLSD and LIST that permit another command for the directory. Pure-FTPd replies 501 to MLSD
#: of a file.
_LISTED_OTHERWISE = (*UNIMPLEMENTED, 501, *_PERHAPS_EMPTY)


#: The additional metadata of a directory, such as the path from PWD.
Extra: TypeAlias = "dict[str, JsonValue] | None"


def names_reply(session: FtpSession, argument: bytes = b"", extra: Extra = None) -> Reply:
    """Return the metadata of a listing by NLST. `argument` is the argument of NLST or empty."""
    from protocols.ftp.listing import NlstReader  # Lazy import: most URLs name files.

    findings: list[Finding] = []
    names = NlstReader(session.url, argument, session.control.limits, findings)
    return Reply(kind=Kind.DIRECTORY, media_type="text/plain", listing=names, findings=findings, extra=extra)


def list_names(session: FtpSession, argument: bytes) -> Dialogue[None]:
    """List the names in the directory `argument`, or in the working directory if `argument` is empty."""
    control = session.control
    yield from set_type(control, b"A")
    extra = yield from _ask_directory(session, argument)
    refused = None
    if (yield from _wants_facts(session)):
        refused = yield from _list_facts(session, argument, extra)
        if refused is None:
            return
    if _is_detailed(session.options):
        argument = yield from _stand_in(session, argument)
        if not argument and (yield from _list_lines(session, extra, refused)):
            return
    yield from open_data(control)
    if argument:
        yield PlanNote(
            "if NLST is refused with 450 or 550, or gives no names: CWD shows whether the directory is empty"
        )
    reply = names_reply(session, argument, extra)
    arguments = (argument,) if argument else ()
    outcome = yield from transfer(control, FtpTransfer(reply, BodyForm.NAMES), command(b"NLST", *arguments))
    if isinstance(outcome, TransferRefusal) or (argument and not outcome.received):
        yield from _check_empty(session, argument, outcome)
    if isinstance(outcome, TransferRefusal):
        detail = f"NLST was refused with {outcome.reply.shown!r}: treated as an empty directory"
        reply.findings.append(Finding("ftp:empty", "warn", detail))
        outcome = CompleteTransfer(0, set())
    yield from _end(session, reply, outcome, refused)


def _end(
    session: FtpSession, reply: Reply, outcome: CompleteTransfer, refused: TransferRefusal | None = None
) -> Dialogue[None]:
    """Finish a listing, and report that the server truncated the listing.

    A complete transfer contains the complete listing, unless the server reports a truncation. Pure-FTPd
    reports a truncation at 10,000 names, in its 226 reply. An empty listing may also mean that the server
    cannot read the directory. `refused` is an earlier refusal of MLSD.

    Raises:
        EmptyListing: The listing is empty, and CWD to the same directory may give another one.
        Declined: The server cannot read the directory.
    """
    if not outcome.received:
        if session.can_repeat:
            raise EmptyListing
        if _UNREADABLE.search(outcome.text):
            text = shown_text(outcome.text)
            raise AccessDenied(
                f"the server cannot read the directory: it said {text!r}", code="226", text=text
            )
        if refused is not None and refused.reply.code not in UNIMPLEMENTED:
            # A server with MLSD lists empty directories. ProFTPD 1.3.8 refuses MLSD of a directory that it
            # cannot read, and replies 226 to LIST and NLST of the same directory.
            raise refused.error
        if session.control.hides_unreadable:
            yield from _check_readable(session)
    if b"truncated" in outcome.text.lower():
        detail = f"the server truncated the listing, names are missing: it said {shown_text(outcome.text)!r}"
        reply.findings.append(Finding("ftp:listing-cut", "warn", detail))
    yield from settle(reply, outcome)


def _check_readable(session: FtpSession) -> Dialogue[None]:
    """Check that STAT lists the working directory, which is empty or cannot be read.

    ProFTPD 1.3.8 replies 226 without names to LIST and NLST in both cases. Only an empty directory has the
    entries `.` and `..` in the reply to STAT.
    """
    reply = yield from session.control.command(b"STAT", b".", ideal=(212, b"Status\n .\nEnd"))
    if reply.good and len(reply.lines) == 2:
        raise make_refusal(AccessDenied, reply, "'STAT .': the server cannot read the directory")


def _ask_directory(session: FtpSession, argument: bytes) -> Dialogue[Extra]:
    """Request the canonical path of the working directory with PWD: symbolic links are resolved."""
    if argument or not session.options.placed:
        return None
    reply = yield from session.control.command(b"PWD", ideal=(257, b'"/"'))
    path = parse_path(reply) if reply.code == 257 else None
    return None if path is None else {"unique": path.decode("latin-1")}


def _wants_facts(session: FtpSession) -> Dialogue[bool]:
    """Return whether to list by MLSD.

    MLSD is used if the options request MLSD. If the options request kinds, sizes and dates, MLSD is used if
    the server supports it (RFC 2389 3.2, RFC 3659 7.8).
    """
    if session.options.mlsd or not _is_detailed(session.options):
        return session.options.mlsd
    control = session.control
    if control.lists_facts is None:
        feat = control.command(b"FEAT", ideal=(211, b"Features\n MLST type*;size*;modify*;"))
        answer = yield from await_optional(control, feat)
        control.lists_facts = answer.good and any(map(_NAMES_FACTS.match, answer.lines))
    return control.lists_facts


def _is_detailed(options: Options) -> bool:
    """Return whether the caller needs a listing with kinds, sizes and dates."""
    return (options.detailed or options.want == "listing") and not options.nlst


def _check_empty(
    session: FtpSession, argument: bytes, outcome: TransferRefusal | CompleteTransfer
) -> Dialogue[None]:
    """Check with CWD that the directory exists after an NLST that returned no names, or raise."""
    if isinstance(outcome, TransferRefusal) and (outcome.started or outcome.reply.code not in _PERHAPS_EMPTY):
        raise outcome.error
    if argument:
        reply = yield from enter(session)
        if not reply.good:
            if reply.code < 500:
                raise refusal(reply, shown_command(b"CWD", argument))
            doing = shown_command(b"NLST", argument)
            raise make_refusal(NotFound, reply, f"{doing}: no names listed, and CWD refused")
    elif not session.url.cwds and not session.name:
        assert isinstance(outcome, TransferRefusal)
        raise outcome.error


def _list_facts(session: FtpSession, argument: bytes, extra: Extra) -> Dialogue[TransferRefusal | None]:
    """List by MLSD (RFC 3659), or return the refusal if another command may succeed."""
    from protocols.ftp.listing import MlsdReader  # Lazy import: most URLs name files.

    yield from open_data(session.control)
    instead = "LIST, in its usual forms" if _is_detailed(session.options) else "NLST"
    yield PlanNote(f"if the server refuses MLSD: {instead}")
    findings: list[Finding] = []
    facts = MlsdReader(session.url, session.control.limits, findings)
    reply = Reply(kind=Kind.DIRECTORY, media_type="text/plain", listing=facts, findings=findings, extra=extra)
    line = command(b"MLSD", argument) if argument else command(b"MLSD")
    outcome = yield from transfer(session.control, FtpTransfer(reply, BodyForm.FACTS), line)
    if isinstance(outcome, CompleteTransfer):
        yield from _end(session, reply, outcome)
        return None
    if outcome.reply.code in _LISTED_OTHERWISE and not outcome.started:
        return outcome
    raise outcome.error


def _stand_in(session: FtpSession, argument: bytes) -> Dialogue[bytes]:
    """Change to the listed directory (CWD), and return the argument for LIST or NLST.

    After CWD, the argument is empty, so LIST is sent without an argument. Some servers interpret an argument
    such as `-a` as an option (argument injection), and send an empty listing for a missing name.
    """
    if not argument or (yield from enter(session)).good:
        return b""
    return argument


def _list_lines(session: FtpSession, extra: Extra, refused: TransferRefusal | None) -> Dialogue[bool]:
    """List with LIST (RFC 959 4.1.3). Return False if LIST failed and NLST may succeed."""
    from protocols.ftp.listing import ListReader  # Lazy import: most servers support MLSD.

    yield from open_data(session.control)
    findings: list[Finding] = []
    clock = session.options.clock
    lines = ListReader(session.url, session.control.limits, findings, None if clock is None else clock())
    reply = Reply(kind=Kind.DIRECTORY, media_type="text/plain", listing=lines, findings=findings, extra=extra)
    outcome = yield from transfer(session.control, FtpTransfer(reply, BodyForm.LINES), command(b"LIST"))
    if isinstance(outcome, CompleteTransfer):
        yield from _end(session, reply, outcome, refused)
        return True
    if not outcome.started and outcome.reply.code in _LISTED_OTHERWISE:
        return False
    raise outcome.error


# The metadata of a URL without its body. SIZE and MDTM return the metadata of a file (RFC 3659). A successful
# CWD shows that the object is a directory.


def describe(session: FtpSession) -> Dialogue[Reply]:
    """Return the metadata of an object, without a data connection.

    The kind is `Kind.UNKNOWN` if the server supports neither SIZE nor MDTM and the name is not a directory.
    In type A, the size is unknown, because SIZE returns the size of the stored file. The line ends change in
    the transfer, so the transferred size is different.
    """
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
    """Return the metadata of a name if the server did not return its size.

    The name may be a directory, a missing name, or a file on a server without SIZE. Only CWD shows that a
    name is a directory, because some servers return a time for a directory, too.
    """
    if session.url.typecode is None:
        yield PlanNote("the name may be a directory: CWD shows it")
        entered = yield from enter(session)
        if entered.good:
            return replace(names_reply(session), modified=modified)
    if modified is not None:
        return _file(session, None, modified)
    if sized.refused and sized.code not in UNIMPLEMENTED:
        raise refusal(sized, shown_command(b"SIZE", session.name))
    return Reply(kind=Kind.UNKNOWN)


def retrieve(
    url: FtpUrl, options: Options | None = None, limits: Limits | None = None
) -> Dialogue[Control | None]:
    """Return the steps of a retrieval.

    The body begins with the first data, or when the final reply shows that the file is empty. The body ends
    after the final reply of the transfer. The client retries once on a new connection after three kinds of
    failures: a 421 reply before any data, a failure of the first command on a pooled connection, and a
    timeout of FEAT, EPSV or MLSD. After the timeout, the client sends PASV, LIST and NLST instead. If a
    pooled connection stays in the URL's directory and finds no object there, the client repeats the retrieval
    once from the login directory.

    Returns:
        The control connection if it can be reused, otherwise None.
    """
    options, limits = options or Options(), limits or Limits()
    check_expressible(url)
    # If an argument cannot be encoded (S02, command injection), not even a connection is opened.
    check_arguments(url.user or b"", url.password or b"", *url.cwds, url.name or b"")
    tls, tries, suits = is_implicit(url), 2, partial(stands_in, url.cwds)
    new: Callable[[Limits, bool], Control] = Control
    while (control := (yield Acquire(login_key(url, options), tls, suits))) is not None:
        assert isinstance(control, Control)
        control.begin(limits, options.keep)
        stays = control.cwds == url.cwds != () and control.home is not None
        session = FtpSession(control, url, options, stays)
        try:
            try:
                yield from _reuse(session)
                yield from _inquire(session)
            except (NotFound, EmptyListing):
                if not session.can_repeat:
                    raise
                # The working directory may be a removed one, so its path is followed again from the login
                # directory.
                control.cwds = None
                control.begin(limits, options.keep)
                session = FtpSession(control, url, options)
                yield from _reuse(session)
                yield from _inquire(session)
            return control if control.idle else None
        except ConnectionNotReusable:
            continue
        except (Disconnected, ServiceClosing) as error:
            if control.commands > 1:
                if isinstance(error, Disconnected):
                    raise
                tries = 1
        except UnansweredCommand:
            new, options = yield from _avoid_unanswered(options, tls)
            break
    while True:
        control = new(limits, options.keep)
        session = FtpSession(control, url, options)
        try:
            yield from log_in(control, url, options)
            yield from _send_ahead(session, DirectoryRoute.ANEW)
            yield from arrive(session)
            yield from _inquire(session)
            return control if control.idle else None
        except ServiceClosing as error:
            tries -= 1
            if not tries:
                raise TryLater(error.message, code=error.code, text=error.text) from error
            yield Connect(tls)
        except UnansweredCommand:
            new, options = yield from _avoid_unanswered(options, tls)


def _reuse(session: FtpSession) -> Dialogue[None]:
    """Change the directory on a pooled connection.

    Raises:
        ConnectionNotReusable: The connection is busy, or the client cannot return to the login directory.
    """
    control, cwds = session.control, session.url.cwds
    route = control.route(cwds)
    if route is DirectoryRoute.ANEW:
        raise ConnectionNotReusable
    yield from _send_ahead(session, route)
    if route is DirectoryRoute.HOME:
        yield from return_home(control)
        yield from change_directory(control, cwds)


def _send_ahead(session: FtpSession, route: DirectoryRoute) -> Dialogue[None]:
    """Send the commands up to the transfer in one write, if the server processes commands in order.

    If a command before the transfer is refused, the data of the transfer is discarded with the connection. If
    the data port is not known yet, EPSV is sent instead of the transfer command.
    """
    control = session.control
    if not control.in_order:
        return
    lines = _commands_ahead(session, route)
    last = lines[-1].octets[:4] if lines else b""
    if last in TRANSFERS and (yield from open_known(control)):
        yield from send_transfer(control, *lines)
        return
    if last in TRANSFERS:
        lines[-1] = EPSV
    elif last == b"FEAT" and control.port is None:
        lines.append(EPSV)
    yield from control.send_ahead(*lines)


def _avoid_unanswered(options: Options, tls: bool) -> Dialogue[tuple[partial[Control], Options]]:
    """Connect again, and return a constructor and options with which FEAT, EPSV and MLSD are not sent.

    A silent server therefore costs one timeout before the old commands. On IPv6, only EPSV works.
    """
    peer = yield RequestPeer("PASV on IPv4")
    yield Connect(tls)
    extended = None if isinstance(peer, str) and ":" in peer else False
    return partial(Control, extended=extended, lists_facts=False), replace(options, mlsd=False)


def _inquire(session: FtpSession) -> Dialogue[None]:
    """Return the dialogue for the object of the URL, after the change of the directory."""
    if session.options.want == "facts":
        return _give_facts(session)
    if session.url.typecode == "d" or not session.name:
        return list_names(session, session.name)
    return _retrieve_file(session)


def _give_facts(session: FtpSession) -> Dialogue[None]:
    yield StartBody((yield from describe(session)))


def check_expressible(url: FtpUrl) -> None:
    """Check that the URL of a file has a file name.

    RETR needs the file name as its argument.

    Raises:
        InvalidUrl: The typecode requests a file, and the name is empty.
    """
    if not url.name and url.typecode in ("a", "i"):
        place = url.place("name")
        where = len(url.text) if place is None else place.start
        raise InvalidUrl("missing-path", where, "RETR needs a file name, got an empty one (nothing is sent)")


def _retrieve_file(session: FtpSession) -> Dialogue[None]:
    """Retrieve the file up to the final reply. If RETR is refused, the name may be a directory."""
    url, control, code = session.url, session.control, b"A" if session.url.typecode == "a" else b"I"
    yield from set_type(control, code)
    planned = yield from (_measure_text(session) if code == b"A" else _measure(session))
    if _is_covered(session.options, planned):
        yield StartBody(replace(planned.reply, unchanged=True))
        return
    yield from open_data(control)
    if code != b"A" and _is_part(session.options):
        planned = yield from _restart(session, planned)
    if url.typecode is None and not control.ahead:
        yield PlanNote("if RETR is refused with 550: CWD to the name; if it is a directory, TYPE A and NLST")
    line = control.ahead[0] if control.ahead else command(b"RETR", session.name)
    outcome = yield from transfer(control, planned, line)
    if isinstance(outcome, TransferRefusal) and planned.reply.start and outcome.reply.code != _NO_DATA:
        # ProFTPD with `AllowRetrieveRestart off` accepts REST and refuses RETR (451).
        yield from open_data(control)
        planned = planned._replace(reply=replace(planned.reply, start=0, stop=None))
        outcome = yield from transfer(control, planned, line)
    if isinstance(outcome, CompleteTransfer):
        yield from settle(planned.reply, outcome)
        return
    if url.typecode is not None or outcome.reply.code != 550 or outcome.started or session.options.start:
        raise outcome.error
    if not (yield from enter(session)).good:
        raise outcome.error
    yield from list_names(session, b"")


def _is_covered(options: Options, planned: FtpTransfer) -> bool:
    """Return whether the caller's copy is current.

    If SIZE failed, the result is False. The name may then be a directory, because some servers return the
    time of a directory for MDTM.
    """
    reply, copy = planned.reply, options.held
    if copy is None or options.start or (reply.size is None and planned.form is not BodyForm.TEXT):
        return False
    return copy.covers(Validators(size=reply.size, modified=reply.modified))


def _measure_text(session: FtpSession) -> Dialogue[FtpTransfer]:
    """Plan a transfer in type A, without SIZE.

    In type A, some servers return the size of the stored file for SIZE, and other servers return the size of
    the transferred text. MDTM is sent only to check whether the caller's copy is outdated.
    """
    modified = (yield from request_time(session)) if session.options.held is not None else None
    form = BodyForm.FILE if session.options.raw else BodyForm.TEXT
    return FtpTransfer(Reply(kind=Kind.DOCUMENT, media_type="text/plain", modified=modified), form)


def _measure(session: FtpSession) -> Dialogue[FtpTransfer]:
    """Plan a transfer in type I: send SIZE, and MDTM if the modification time is needed.

    If the server refuses SIZE, the transfer continues without a size. The modification time is needed to set
    the time of the saved file, or to check whether a partial file is outdated. If a listing has already
    returned the metadata, the client requests the metadata again only for the transfer of a range.
    """
    options = session.options
    is_part = _is_part(options)
    size, modified, _ = Validators() if is_part else options.listed
    is_listed = size is not None
    if not is_listed:
        sized = yield from request_fact(session, b"SIZE", b"0")
        size = parse_size(sized) if sized.code == 213 else None
    if modified is None and (is_part or options.want == "file"):
        modified = yield from request_time(session)
    return FtpTransfer(Reply(kind=Kind.DOCUMENT, size=size, modified=modified), BodyForm.FILE, is_listed)


def _commands_ahead(session: FtpSession, route: DirectoryRoute) -> list[Line]:
    """Return the commands up to the transfer command, or up to a command whose reply decides the next.

    The transfer command of a file is included only if the complete file is transferred in any case.
    """
    control, options, url, name = session.control, session.options, session.url, session.name
    lines: list[Line] = []
    if route is DirectoryRoute.HOME:
        assert control.home is not None
        lines.append(command(b"CWD", control.home))
    if route is DirectoryRoute.HOME or (route is DirectoryRoute.ANEW and options.keep):
        lines.append(command(b"PWD"))
    if route is not DirectoryRoute.STAY:
        lines += [command(b"CWD", cwd) for cwd in url.cwds]
    is_directory = url.typecode == "d" or not name
    if (is_directory and (name or options.want == "facts")) or control.extended is False:
        return lines
    code = b"A" if is_directory or (url.typecode == "a" and options.want != "facts") else b"I"
    if control.type_code != code:
        lines.append(command(b"TYPE", code))
    if is_directory:
        if options.placed:
            lines.append(command(b"PWD"))
        is_detailed = _is_detailed(options)
        if options.mlsd or not is_detailed or control.lists_facts is not None:
            has_facts = options.mlsd or (is_detailed and control.lists_facts)
            lines.append(command(b"MLSD" if has_facts else b"LIST" if is_detailed else b"NLST"))
        else:
            lines.append(command(b"FEAT"))
    elif options.want == "facts":
        lines += (command(b"SIZE", name), command(b"MDTM", name))
    elif code == b"I":
        is_part = _is_part(options)
        listed = Validators() if is_part else options.listed
        if listed.size is None:
            lines.append(command(b"SIZE", name))
        if listed.modified is None and (is_part or options.want == "file"):
            lines.append(command(b"MDTM", name))
        if options.held is None and not is_part:
            lines.append(command(b"RETR", name))
    return lines


def _is_part(options: Options) -> bool:
    return bool(options.start) or options.stop is not None


def _restart(session: FtpSession, planned: FtpTransfer) -> Dialogue[FtpTransfer]:
    """Send REST with the offset of the transfer.

    REST is sent only if the caller's partial file has the same version and SIZE covers the requested range.

    If the start is beyond the end of the file, vsftpd sends an empty file and 226. Therefore the client
    compares the start with the reply to SIZE before it sends REST. If the server refuses REST, the body
    begins at byte 0.
    """
    start, stop, reply = session.options.start, session.options.stop, planned.reply
    same = session.options.known.agree(Validators(size=reply.size, modified=reply.modified))
    if not same or reply.size is None:
        return planned
    if not (start <= reply.size if stop is None else start < stop <= reply.size):
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


# Replay of one archived object. The server accepts every login, and every directory exists. Each directory
# contains only the archived file or listing, in its received format.

_LISTING = "text/x-ftp-"
_GRANTED = {
    **dict.fromkeys((b"USER", b"PASS", b"ACCT"), b"230"),
    **dict.fromkeys((b"TYPE", b"PBSZ", b"PROT", b"NOOP"), b"200"),
    **dict.fromkeys((b"CWD", b"CDUP"), b"250"),
    b"EPSV": b"229",
    b"QUIT": b"221",
}
#: Values in expected replies that the client ignores during a replay: the port, and the text after the login.
_ANY_PORT = b"(|||1024|)"
_ARCHIVE = b"archive"


class FtpReplayServer:
    """The server of a replayed FTP retrieval (see `protocols.contract.ReplayPeer`)."""

    def __init__(self, archived_object: ArchivedObject) -> None:
        self._object = archived_object
        self._listed = archived_object.media_type.removeprefix(_LISTING).upper().encode("ascii", "replace")
        self._is_listing = archived_object.media_type.startswith(_LISTING)

    @property
    def greeting(self) -> bytes:
        return encode_line(b"230", _ARCHIVE).octets

    def answer(self, line: bytes) -> Iterator[bytes | None]:
        verb = line.split(b" ")[0].strip().upper()
        if verb == (self._listed if self._is_listing else b"RETR"):
            yield encode_line(b"150", _ARCHIVE).octets
            yield None
            yield encode_line(b"226", _ARCHIVE).octets
            return
        yield encode_line(*self._reply(verb)).octets

    def _reply(self, verb: bytes) -> tuple[bytes, ...]:
        archived_object = self._object
        if verb in _GRANTED:
            return _GRANTED[verb], _ANY_PORT if verb == b"EPSV" else _ARCHIVE
        if verb == b"FEAT" and self._listed == b"MLSD":
            return b"211", b"MLSD"
        if self._is_listing and verb in (b"RETR", b"SIZE", b"MDTM"):
            return b"550", _ARCHIVE
        if verb == b"SIZE" and archived_object.size is not None:
            return b"213", b"%d" % archived_object.size
        if verb == b"MDTM" and archived_object.modified is not None:
            return b"213", f"{archived_object.modified.year:04}{archived_object.modified:%m%d%H%M%S}".encode(
                "ascii"
            )
        return b"502", _ARCHIVE
