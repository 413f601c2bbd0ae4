"""The FTP session of one URL: login, the CWD commands to the URL's directory, SIZE and MDTM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from protocols.errors import Declined, LoginRequired, ProtocolError, TlsError
from protocols.ftp.control import (
    PRELIMINARY_LIMIT,
    Control,
    check_good,
    refusal,
    shown_command,
)
from protocols.ftp.reply import (
    ControlReply,
    is_full,
    make_declined,
    make_refusal,
    parse_path,
    parse_time,
)
from protocols.ftp.url import FtpUrl
from protocols.options import Credentials, Options
from protocols.step import Dialogue, PlanNote, RequestCredentials, StartTls
from protocols.wire import Secret

if TYPE_CHECKING:
    from datetime import datetime


# Login, with TLS if the options request TLS (RFC 959 5.4, RFC 4217). TLS starts before any user name or
# password is sent. If TLS is required and does not start, the login fails (CVE-2021-22946, STARTTLS
# stripping).

_UNKNOWN = Secret(b"****")

#: Tested servers that process pipelined commands in order. RFC 959 5.4 requires a client to wait for each
#: reply. Some other servers discard all pipelined commands except the first, and the client would then wait
#: until the idle timeout.
_IN_ORDER = (b"vsFTPd", b"ProFTPD", b"Pure-FTPd")
#: The server of `_IN_ORDER` that reads no command during a transfer. ProFTPD and Pure-FTPd reply to such a
#: command with 450 or 500 before the final reply of the transfer.
_QUEUES = b"vsFTPd"
#: The server of `_IN_ORDER` that lists a directory that it cannot read as an empty directory.
_HIDES_UNREADABLE = b"ProFTPD"


def is_implicit(url: FtpUrl) -> bool:
    """Return whether the connection uses TLS from the first byte."""
    return url.scheme == "ftps"


def log_in(control: Control, url: FtpUrl, options: Options) -> Dialogue[None]:
    """Log in on a new connection, as the URL and the options require.

    Raises:
        LoginRequired: The server needs a user name, a password or an account.
        AccessDenied: The server refuses the login.
        Declined: The server refuses for another reason.
    """
    implicit = is_implicit(url)
    greeting = yield from _hear_greeting(control)
    control.in_order = any(name in greeting.octets for name in _IN_ORDER)
    control.queues = _QUEUES in greeting.octets
    control.hides_unreadable = _HIDES_UNREADABLE in greeting.octets
    if not implicit and options.tls != "never":
        yield from _secure(control, greeting, options.tls)
    if greeting.code != 230:
        yield from _identify(control, url, options)
    if implicit:
        yield from _protect_data(control)


def _hear_greeting(control: Control) -> Dialogue[ControlReply]:
    """Receive the greeting 220 or 230, also after a 120 reply that announces a later 220."""
    for _ in range(PRELIMINARY_LIMIT):
        reply = yield from control.hear_greeting()
        if not reply.preliminary:
            check_good(reply, "the server's greeting")
            return reply
    raise ProtocolError(f"{PRELIMINARY_LIMIT} preliminary replies without a greeting")


def _secure(control: Control, greeting: ControlReply, mode: Literal["try", "require"]) -> Dialogue[None]:
    """Start TLS on the connection with AUTH TLS (STARTTLS, RFC 4217), and on its data connections."""
    answer = greeting
    if greeting.code != 230:
        answer = yield from control.command(b"AUTH", b"TLS", ideal=(234, b"Proceed"))
    if answer.code == 234:
        yield StartTls()
        yield from _protect_data(control)
    elif mode == "try" and (answer.refused or answer is greeting):
        yield PlanNote("no TLS: the server does not offer it")
    else:
        raise TlsError(f"AUTH TLS failed: the server said {answer.shown!r}")


def _protect_data(control: Control) -> Dialogue[None]:
    for verb, argument in ((b"PBSZ", b"0"), (b"PROT", b"P")):
        reply = yield from control.command(verb, argument, ideal=(200, b"OK"))
        if not reply.good:
            raise TlsError(f"the server refused to protect data: {reply.shown!r}")
    control.protected = True


def _identify(control: Control, url: FtpUrl, options: Options) -> Dialogue[None]:
    user, password = url.user, url.password
    if user is None:
        login = yield from _request_credentials(None)
        user, password = (login.user, login.password) if login else (None, options.anonymous_password)
    reply = yield from control.command(
        b"USER", b"anonymous" if user is None else user, ideal=(331, b"Password")
    )
    if reply.good:
        return
    if not reply.intermediate or reply.code == 332:
        raise _login_refusal(reply, "USER", anonymous=user is None)
    if password is None:
        password = yield from _request_password(reply, user)
    secret = password if user is None else Secret(password)
    reply = yield from control.command(b"PASS", secret, ideal=(230, b"Logged in"))
    if not reply.good:
        raise _login_refusal(reply, "PASS", anonymous=user is None)


def _request_password(reply: ControlReply, user: bytes | None) -> Dialogue[bytes]:
    """Return the user's password from a prompt or a credential store.

    The result is never the anonymous password. Without a password, the function raises an error.
    """
    login = yield from _request_credentials(user)
    if login is None or login.user != user:
        raise make_refusal(LoginRequired, reply, "a password is required for this user")
    return login.password


def _request_credentials(user: bytes | None) -> Dialogue[Credentials | None]:
    ideal = None if user is None else Credentials(user, _UNKNOWN.octets)
    login = yield RequestCredentials(user, ideal)
    assert login is None or isinstance(login, Credentials)
    return login


def _login_refusal(reply: ControlReply, verb: str, *, anonymous: bool) -> Declined | ProtocolError:
    error = make_declined(reply, verb) if reply.code == 332 else refusal(reply, verb)
    if anonymous and reply.code == 530 and not is_full(reply):
        error = make_refusal(
            LoginRequired, reply, "no anonymous login, a user name and a password are required"
        )
    return error.for_login() if isinstance(error, Declined) else error


_ABSOLUTE = "an empty segment is a CWD without argument; an absolute path starts with %2F"


class ConnectionNotReusable(Exception):
    """The error of a pooled connection that cannot return to the login directory.

    The path of each URL starts at the login directory, so the connection cannot be reused.
    """


class EmptyListing(Exception):
    """An empty listing of the working directory that a previous URL chose.

    If a directory was removed and created again, vsftpd and Pure-FTPd list the removed directory.
    """


class FtpSession(NamedTuple):
    """A URL and its control connection.

    `stays` is set if no CWD is sent for the URL, and CWD is possible. The server may have removed the working
    directory, and created the URL's directory again.
    """

    control: Control
    url: FtpUrl
    options: Options
    stays: bool = False

    @property
    def name(self) -> bytes:
        return self.url.name or b""

    @property
    def can_repeat(self) -> bool:
        """Return whether the retrieval can be repeated from the login directory on this connection."""
        return self.stays and self.control.idle and not self.control.ahead


def arrive(session: FtpSession) -> Dialogue[None]:
    """Change to the URL's directory on a new connection."""
    control = session.control
    if session.options.keep:
        reply = yield from control.command(b"PWD", ideal=(257, b'"/"'))
        session.control.home = parse_path(reply) if reply.code == 257 else None
    yield from change_directory(control, session.url.cwds)


def return_home(control: Control) -> Dialogue[None]:
    """Change to the login directory on a pooled connection, or raise `ConnectionNotReusable`."""
    home, control.cwds = control.home, None
    assert home is not None
    change = yield from control.command(b"CWD", home, ideal=(250, b"OK"))
    reply = yield from control.command(b"PWD", ideal=(257, b'"/"'))
    if not change.good or reply.code != 257 or parse_path(reply) != home:
        raise ConnectionNotReusable


def change_directory(control: Control, cwds: tuple[bytes, ...]) -> Dialogue[None]:
    for cwd in cwds:
        control.cwds = None
        yield from control.demand(b"CWD", cwd, ideal=(250, b"OK"), hint="" if cwd else _ABSOLUTE)
    control.cwds = cwds


def enter(session: FtpSession) -> Dialogue[ControlReply]:
    """Send CWD with the URL's name. A 2yz reply shows that the name is a directory."""
    session.control.cwds = None
    return (yield from session.control.command(b"CWD", session.name, ideal=(250, b"OK")))


def request_time(session: FtpSession) -> Dialogue[datetime | None]:
    reply = yield from request_fact(session, b"MDTM", b"-")
    return parse_time(reply.octets) if reply.code == 213 else None


def request_fact(session: FtpSession, verb: bytes, ideal: bytes) -> Dialogue[ControlReply]:
    reply = yield from session.control.command(verb, session.name, ideal=(213, ideal))
    if reply.good or reply.refused:
        return reply
    raise refusal(reply, shown_command(verb, session.name))
