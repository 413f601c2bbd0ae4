"""From the greeting to being logged in, with TLS where it is asked for (RFC 959 5.4, RFC 4217).

TLS is asked for before any name or password is sent. Where it was required, every other outcome than
TLS is a failure (CVE-2021-22946).
"""

from __future__ import annotations

from typing import Literal

from protocols.errors import Declined, LoginRequired, ProtocolError, TlsError
from protocols.ftp.control import PRELIMINARY_LIMIT, Control, check_good, refusal
from protocols.ftp.refusal import declined, is_full, refusal_of
from protocols.ftp.reply import ControlReply
from protocols.ftp.url import FtpUrl
from protocols.options import Credentials, Options
from protocols.step import Dialogue, PlanNote, RequestCredentials, StartTls
from protocols.wire import Secret

_UNKNOWN = Secret(b"****")

#: Servers that answer commands in order that come together: tried with each. Of others some lose all but the
#: first (RFC 959 5.4 has a client wait), and silence would be all that told of it.
_IN_ORDER = (b"vsFTPd", b"ProFTPD", b"Pure-FTPd")


def is_implicit(url: FtpUrl) -> bool:
    """TLS from the first octet?"""
    return url.scheme == "ftps"


def log_in(control: Control, url: FtpUrl, options: Options) -> Dialogue[None]:
    """On a new connection, as the URL says. Raises `LoginRequired`, `AccessDenied`, other `Declined`."""
    implicit = is_implicit(url)
    greeting = yield from _hear_greeting(control)
    control.state.in_order = any(name in greeting.octets for name in _IN_ORDER)
    if not implicit and options.tls != "never":
        yield from _secure(control, greeting, options.tls)
    if greeting.code != 230:
        yield from _identify(control, url, options)
    if implicit:
        yield from _protect_data(control)


def _hear_greeting(control: Control) -> Dialogue[ControlReply]:
    """220 or 230; 120 says that a 220 will follow."""
    for _ in range(PRELIMINARY_LIMIT):
        reply = yield from control.hear_greeting()
        if not reply.preliminary:
            check_good(reply, "the server's greeting")
            return reply
    raise ProtocolError(f"{PRELIMINARY_LIMIT} times the server said that it is not ready yet")


def _secure(control: Control, greeting: ControlReply, mode: Literal["try", "require"]) -> Dialogue[None]:
    """AUTH TLS on a connection in the clear, then TLS for data too (RFC 4217)."""
    answer = greeting
    if greeting.code != 230:
        answer = yield from control.command(b"AUTH", b"TLS", ideal=(234, b"Proceed"))
    if answer.code == 234:
        yield StartTls()
        yield from _protect_data(control)
    elif mode == "try" and (answer.refused or answer is greeting):
        yield PlanNote("no TLS: the server has none to offer")
    else:
        raise TlsError(f"TLS was asked for, and the server said {answer.shown!r}")


def _protect_data(control: Control) -> Dialogue[None]:
    for verb, argument in ((b"PBSZ", b"0"), (b"PROT", b"P")):
        reply = yield from control.command(verb, argument, ideal=(200, b"OK"))
        if not reply.good:
            raise TlsError(f"the server would not protect data: {reply.shown!r}")
    control.state.protected = True


def _identify(control: Control, url: FtpUrl, options: Options) -> Dialogue[None]:
    user, password = url.user, url.password
    if user is None:
        held = yield from _request_credentials(None)
        user, password = (held.user, held.password) if held else (None, options.anonymous_password)
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
    """The password of the URL's user, from a person or a store. Never the anonymous one, never none."""
    held = yield from _request_credentials(user)
    if held is None or held.user != user:
        raise refusal_of(LoginRequired, reply, "a password is needed, and there is none for this name")
    return held.password


def _request_credentials(user: bytes | None) -> Dialogue[Credentials | None]:
    ideal = None if user is None else Credentials(user, _UNKNOWN.octets)
    held = yield RequestCredentials(user, ideal)
    assert held is None or isinstance(held, Credentials)
    return held


def _login_refusal(reply: ControlReply, verb: str, *, anonymous: bool) -> Declined | ProtocolError:
    if reply.code == 332:
        return declined(reply, verb)
    if anonymous and reply.code == 530 and not is_full(reply):
        return refusal_of(LoginRequired, reply, "no anonymous login here, a name and password are needed")
    return refusal(reply, verb)
