"""Preconditions of a news server: reader mode, TLS, a login, compression (RFC 3977 5.3, 4642, 4643, 8054).

The client requests reader mode, TLS or a login only if the server requires it. A response that states such a
precondition raises `Precondition`. This module then discards the outstanding commands and fulfills the
precondition; afterwards the commands are sent again. Credentials are sent only over an encrypted or local
connection, unless the caller allows cleartext.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from protocols.errors import (
    AccessDenied,
    Declined,
    Disconnected,
    LoginRequired,
    NetworkError,
    ProtocolError,
    Refused,
    TlsError,
)
from protocols.location import Finding
from protocols.news.response import (
    LISTS,
    READER_VERBS,
    NntpCommand,
    NntpResponse,
    NntpVerb,
    make_declined,
    refusal,
)
from protocols.news.session import ConnectionCompressed, Deflate, NntpSession, require_response
from protocols.news.url import NewsUrl, NntpUrl
from protocols.options import Credentials, DecodingBudget, Options
from protocols.step import Dialogue, PlanNote, RequestCredentials, StartPacking, StartTls
from protocols.wire import Secret

_TLS_MISSING = "the server requires a login, but does not offer TLS: the password would be sent in cleartext"


#: The notes in a plan for a server without STARTTLS. The first note is for preferred TLS, the second note is
#: for required TLS.
_STARTTLS_NOTES = (
    "if the server does not offer STARTTLS: the same without TLS",
    "if the server does not offer STARTTLS: nothing more is sent",
)


class Precondition(Exception):
    """The signal that a response states a precondition; every dialogue catches this exception."""

    def __init__(self, command: NntpCommand, response: NntpResponse) -> None:
        super().__init__(response.shown)
        self.command = command
        self.response = response


@dataclass(frozen=True, slots=True)
class NewsLogin:
    """The user name and password of a login. If the server requires an absent password, the user is asked."""

    user: bytes
    password: bytes | None = field(repr=False)


def check_precondition(session: NntpSession, command: NntpCommand, response: NntpResponse) -> None:
    """Check whether the response states a precondition that the client can fulfill.

    A server in transit mode responds with 401. A server older than RFC 3977 responds with 500, 502 or 480, or
    with 501 to a variant of LIST. Therefore the client interprets these codes as transit mode until the
    server is certainly in reader mode.

    Raises:
        Precondition: the response states a precondition.
    """
    state = session.state
    unknown = (500, 501, 502) if command.verb in LISTS else (500, 502)
    wants_reader = response.code == 401 and response.text.upper().split()[:1] == [b"MODE-READER"]
    if response.code in (480, 483) or (wants_reader and state.may_request_reader):
        raise Precondition(command, response)
    if command.verb in READER_VERBS:
        if response.code in unknown and state.may_request_reader and not state.reader:
            raise Precondition(command, response)
        if command.verb not in LISTS:  # a server in transit mode supports LIST, too
            state.reader = True


class NewsNegotiation:
    """The negotiation of reader mode, TLS, login and compression for one request."""

    def __init__(self, session: NntpSession, url: NewsUrl | NntpUrl, options: Options) -> None:
        self._session = session
        self._state = session.state
        self._url = url
        self._options = options

    @property
    def _expected_capabilities(self) -> bytes:
        return b"COMPRESS DEFLATE" if self._state.tls else b"STARTTLS"

    def begin(self) -> Dialogue[None]:
        """Start TLS directly after the greeting if the options prefer or require TLS.

        Raises:
            TlsError: TLS is required, but the server does not offer STARTTLS.
        """
        if self._options.tls == "never" or self._state.tls:
            return
        yield PlanNote(_STARTTLS_NOTES[self._options.tls == "require"])
        is_encrypted = yield from self._start_tls()
        if not is_encrypted and self._options.tls == "require":
            raise TlsError("TLS is required, but the server does not offer STARTTLS")

    def fulfill(self, precondition: Precondition) -> Dialogue[None]:
        """Discard the outstanding responses; fulfill the precondition or raise the response's exception."""
        state, code = self._state, precondition.response.code
        try:
            yield from self._session.discard_all_responses()
            if code == 401 or (
                code in (480, 500, 501, 502) and state.may_request_reader and not state.reader
            ):
                yield from self._request_reader()
                return
        except Disconnected as error:
            if code == 502:  # a server may send 502 and close the connection
                raise refusal(precondition.command, precondition.response) from error
            raise
        if code == 480:
            yield from self.log_in(precondition.command, precondition.response)
        else:
            yield from self._start_required_tls(precondition.command, precondition.response)

    def log_in(self, action: NntpCommand | str, response: NntpResponse) -> Dialogue[None]:
        """Log in, because `response` requires a login for `action`, a command or an action."""
        if self._state.logged_in:
            raise make_declined(AccessDenied, action, response, "not permitted for this login")
        if self._state.login_refused:
            raise make_declined(
                AccessDenied, action, response, "the server rejected the login on this connection before"
            )
        login = yield from self._find_login()
        if login is None:
            raise refusal(action, response)
        yield from self.authenticate(login)

    def authenticate(self, login: NewsLogin) -> Dialogue[None]:
        """Log in to the server.

        The state from before the login, such as capabilities, is discarded.

        Raises:
            CompressionState: the connection is compressed.
        """
        self._check_uncompressed()
        yield from self._encrypt_login()
        command, response = yield from self._send_login(login)
        if response.code == 483:
            yield from self._start_required_tls(command, response)
            command, response = yield from self._send_login(login)
        if response.is_refusal:
            self._state.login_refused = True
            raise (yield from self._login_refusal(command, response))
        self._state.logged_in = True
        self._state.reset()

    def find_optional_login(self) -> Dialogue[NewsLogin | None]:
        """Return a stored optional login, with which the server may list more objects, or None.

        The user is not asked for a login. If a login is available, outstanding responses are discarded.
        """
        was_tried = self._state.logged_in or self._state.login_refused
        login = None if was_tried else (yield from self._find_login())
        if login is None or login.password is None:
            return None
        yield from self._session.discard_all_responses()
        yield from self._request_capabilities()
        offer = self._state.capabilities
        if offer is None or not offer.has(b"AUTHINFO"):
            return None
        in_clear = offer.has(b"AUTHINFO", b"USER") and (
            self._state.is_private or self._options.login_in_clear
        )
        return login if in_clear or offer.has(b"STARTTLS") else None

    def _find_login(self) -> Dialogue[NewsLogin | None]:
        """Return the login in the URL, or else the login stored for this host and port."""
        if self._url.user:
            return NewsLogin(self._url.user, self._url.password)
        credentials = yield from self._request_credentials(None)
        return None if credentials is None else NewsLogin(credentials.user, credentials.password)

    def _request_credentials(self, user: bytes | None) -> Dialogue[Credentials | None]:
        login: Credentials | None = yield RequestCredentials(user, None)
        if login is not None:  # stored credentials are valid for one scheme only (S11, credential scope)
            self._state.credentials_scheme = self._session.scheme
        if login is not None and len((login.user + b"." + login.password).split()) > 1:
            detail = "the name or password contains a blank; servers use only the text before it"
            self._state.findings.append(Finding("nntp:login-blank", "warn", detail))
        return login

    def _encrypt_login(self) -> Dialogue[None]:
        """Start TLS before a login, unless the connection is local or the caller allows cleartext.

        Raises:
            Refused: the server does not offer TLS (S06, passwords sent without TLS).
        """
        state = self._state
        offer = state.capabilities
        requires_tls = (  # RFC 4643 2.1: the server does not accept passwords without TLS
            offer is not None and offer.has(b"AUTHINFO") and not offer.has(b"AUTHINFO", b"USER")
        )
        if state.tls or self._options.login_in_clear or (state.is_private and not requires_tls):
            return
        if not (yield from self._start_tls()) and not state.is_private:
            raise Refused("S06", _TLS_MISSING, flag="--tls never")

    def _send_login(self, login: NewsLogin) -> Dialogue[tuple[NntpCommand, NntpResponse]]:
        """Send AUTHINFO USER and, if required, PASS. Return the last command and its response."""
        user, password = login.user, login.password
        command = NntpCommand(NntpVerb.AUTHINFO_USER, user)
        response = yield from require_response(self._session.request(command, NntpResponse(381)))
        if response.code != 381:
            return command, response
        if password is None:
            credentials = yield from self._request_credentials(user)
            if credentials is None or credentials.user != user:
                raise LoginRequired(f"{command}: a password is required, but none is available", code="381")
            password = credentials.password
        command = NntpCommand(NntpVerb.AUTHINFO_PASS, Secret(password))
        return command, (yield from require_response(self._session.request(command, NntpResponse(281))))

    def _login_refusal(
        self, command: NntpCommand, response: NntpResponse
    ) -> Dialogue[Declined | ProtocolError]:
        if response.code in (500, 501, 503):
            return make_declined(Declined, command, response, "logins are not supported")
        if response.code == 482 and (yield from self._sends_old_codes()):
            return make_declined(AccessDenied, command, response, "wrong name or password")
        return refusal(command, response)

    def _sends_old_codes(self) -> Dialogue[bool]:
        """Return whether the server, older than RFC 4643, sends 482 where the RFC requires 481."""
        if self._state.capabilities is None and not self._state.lacks_capabilities:
            try:
                yield from self._session.request_capabilities(self._expected_capabilities)
            except NetworkError:
                return False
        return self._state.lacks_capabilities

    def _start_required_tls(self, command: NntpCommand, response: NntpResponse) -> Dialogue[None]:
        """Start TLS after the response 483 (TLS required).

        The exception for the response is raised if TLS is already active or not available, or if the caller
        allows cleartext logins.
        """
        if self._state.tls or self._options.login_in_clear or not (yield from self._start_tls()):
            raise refusal(command, response)

    def _start_tls(self) -> Dialogue[bool]:
        """Send STARTTLS; return False if it is not offered. A failed handshake raises `TlsError`."""
        state = self._state
        self._check_uncompressed()
        yield from self._request_capabilities()
        if state.capabilities is not None and not state.capabilities.has(b"STARTTLS"):
            return False
        command = NntpCommand(NntpVerb.STARTTLS)
        response = yield from self._session.request(command, NntpResponse(382))
        if response.is_refusal:
            return False
        if response.code != 382:
            raise ProtocolError(f"{response.shown} is not a valid response to {command}")
        yield StartTls()
        state.tls = state.has_starttls = state.is_private = True
        state.reset()
        yield from self._session.request_capabilities(self._expected_capabilities)
        return True

    def _check_uncompressed(self) -> None:
        """Raise `ConnectionCompressed` on a compressed connection.

        A password must not be sent compressed, and STARTTLS is not allowed on a compressed connection (RFC
        8054 2.2.2, 6).
        """
        if self._state.is_compressed:
            raise ConnectionCompressed

    def _request_capabilities(self) -> Dialogue[None]:
        """Request the capabilities once, and send MODE READER if the server requires it."""
        state = self._state
        if state.capabilities is not None or state.lacks_capabilities:
            return
        yield from self._session.request_capabilities(self._expected_capabilities)
        transit = state.capabilities is not None and state.capabilities.in_transit
        if state.may_request_reader and (transit or (state.lacks_capabilities and not state.reader)):
            yield from self._request_reader()
            if transit:
                yield from self._session.request_capabilities(self._expected_capabilities)

    def _request_reader(self) -> Dialogue[None]:
        """Send MODE READER; a server that does not support this command is always in reader mode."""
        state, command = self._state, NntpCommand(NntpVerb.MODE_READER)
        state.reader_requested = True
        response = yield from self._session.request(command, NntpResponse(200))
        if response.code == 480:
            yield from self.log_in(command, response)
            # RFC 4643 2.2 forbids MODE READER after a login. However, a server may require a login for MODE
            # READER. This server expects MODE READER again after the login.
            response = yield from self._session.request(command, NntpResponse(200))
        if response.is_refusal and response.code not in (500, 501):
            after_login = response.code == 480 and state.logged_in
            raise (
                make_declined(AccessDenied, command, response, "not permitted")
                if after_login
                else refusal(command, response)
            )
        state.reader = True
        state.capabilities = None
        state.group = None


# COMPRESS DEFLATE (RFC 8054) for long responses: the overview of many articles, the list of all groups.
#
# For an article or a short listing, the two extra commands take more time than compression saves. Compression
# cannot be ended on a connection. Therefore a dialogue that needs a login or TLS continues on another
# connection. Secrets and data from the peer are never compressed together, because compression side channels
# such as CRIME could reveal the secrets (RFC 8054 section 6).

#: The minimum number of articles for compression. The overview of 1,000 articles has about 160 kB;
#: compressed, it has 14 kB (measured with INN).
MIN_TO_COMPRESS = 1_000


def compress(session: NntpSession, user: bytes | None) -> Dialogue[None]:
    """Start compression if compression is safe and the server offers it.

    Compression is not started if the URL has a `user` and a login may still follow. It is also not started if
    the server is in transit mode. If the server refuses compression, the connection stays uncompressed.
    """
    state = session.state
    if not session.may_pack or state.is_compressed is not None or (user and not state.logged_in):
        return
    if state.capabilities is None and not state.lacks_capabilities:
        yield from session.request_capabilities(expected=b"COMPRESS DEFLATE")
    offer = state.capabilities
    if offer is None or offer.in_transit or not offer.has(b"COMPRESS", b"DEFLATE"):
        return
    command = NntpCommand(NntpVerb.COMPRESS_DEFLATE)
    response = yield from session.request(command, NntpResponse(206))
    state.is_compressed = False
    if response.is_refusal:
        return
    if response.code != 206:
        raise ProtocolError(f"{response.shown} is not a valid response to {command}")
    yield StartPacking(Deflate(DecodingBudget(state.limits.ratio, None)))
    state.is_compressed = True
