"""The protocol exchange with a news server, from the greeting to the last command (RFC 3977 5).

`converse` sends a *request*, the commands for one URL. The dialogue takes a connection from the connection
pool or opens a new connection. On a new connection, the dialogue reads the greeting before it sends a
command. The dialogue then fulfills the preconditions of the server (TLS, a login, reader mode). This module
also replays archived responses.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from protocols.contract import ArchivedObject
from protocols.errors import (
    AccessDenied,
    Declined,
    Disconnected,
    LimitExceeded,
    NetworkError,
    NotFound,
    ProtocolError,
    TryLater,
)
from protocols.news.negotiation import NewsNegotiation, Precondition
from protocols.news.request import Request, RequestTarget, choose_request
from protocols.news.response import NntpResponse, make_declined, read_status
from protocols.news.session import (
    ConnectionCompressed,
    NntpSession,
    NntpState,
    NotShareable,
    RequestReissue,
    is_loopback,
    require_response,
)
from protocols.news.url import NewsUrl, NntpUrl
from protocols.options import Limits, Options
from protocols.step import Dialogue, EndResponse, JoinedPipeline, JoinPipeline, PlanNote, StartBody, receive
from protocols.wire import encode_line

_GREETING = "the greeting"
_BRANCHES = (
    "if the server requires it: MODE READER (once), STARTTLS, AUTHINFO with the configured name and password;"
    " then the commands again"
)


def converse(url: NewsUrl | NntpUrl, options: Options, limits: Limits) -> Dialogue[None]:
    """Return the dialogue that retrieves a news URL.

    Several dialogues share the connection. The next dialogue can read its responses only after this dialogue
    has read its complete body (`EndResponse`).

    Raises:
        Declined: the server refused the request.
        LoginRequired: the server requires a login, but no credentials are available.
        Refused: a login would be sent in cleartext (S06, passwords sent without TLS).
        ProtocolError: the peer is not a news server.
    """
    request = choose_request(url, options, limits)
    session, target = yield from _send_request(url, options, limits, request)
    target.reply.findings.extend(session.state.findings)
    if target.body is None:
        yield from _end(session)
        yield StartBody(target.reply)
        return
    yield StartBody(target.reply)
    try:
        yield from target.body
    except Declined as error:
        if not session.state.closing:
            yield from _discard_responses(session, error)
            yield EndResponse()
        raise
    yield from _end(session)
    target.reply.verified.add("terminator")


def _end(session: NntpSession) -> Dialogue[None]:
    yield EndResponse()
    if session.is_new:
        yield PlanNote("QUIT when the connection is no longer needed; its response is not waited for")


def _send_request(
    url: NewsUrl | NntpUrl, options: Options, limits: Limits, request: Request
) -> Dialogue[tuple[NntpSession, RequestTarget]]:
    """Find a usable connection, and send the request on that connection.

    A pooled connection may be stale, because the server or another dialogue closed it. The request is then
    sent again on a new connection.
    """
    needs_new = is_apart = is_plain = False
    while True:
        session = yield from _connect(url, options, limits, needs_new, is_apart, is_plain)
        try:
            negotiation = NewsNegotiation(session, url, options)
            return session, (yield from _perform(session, negotiation, request))
        except NotShareable:
            yield EndResponse()
            is_apart = True
        except ConnectionCompressed:
            yield EndResponse()
            is_plain = True
        except (Disconnected, Declined) as error:
            if not session.is_new and _is_dead(session, error):
                needs_new = True
                continue
            if isinstance(error, Declined) and not (session.pending or session.state.closing):
                yield EndResponse()
            raise


def _is_dead(session: NntpSession, error: Disconnected | Declined) -> bool:
    """Return whether a pooled connection was closed before this dialogue read a response.

    A 400 response means that the server closes the connection.
    """
    return isinstance(error, Disconnected) or (session.state.closing and not session.response_count)


def _connect(
    url: NewsUrl | NntpUrl, options: Options, limits: Limits, needs_new: bool, is_apart: bool, is_plain: bool
) -> Dialogue[NntpSession]:
    """Return the session on a connection that is taken from the pool or opened.

    Dialogues with different credentials or TLS settings never share a connection.

    Args:
        url: The URL to retrieve.
        options: The options of the caller.
        limits: The limits of the session.
        needs_new: Whether to open a new connection.
        is_apart: Whether `news:` and `nntp:` URLs must not share a connection. The caller may have
            credentials for only one of these schemes (S11, credential scope).
        is_plain: Whether the connection must be uncompressed, so that a login can be sent.
    """
    tls = url.scheme in ("snews", "nntps")
    state = NntpState(limits)
    state.tls = tls
    key: tuple[Hashable, ...] = ("nntp", url.user, url.password, options.tls, options.login_in_clear)
    key = (*key, is_apart and url.scheme, *(("unpacked",) if is_plain else ()))
    pipeline = yield JoinPipeline(key, state, tls=tls, anew=needs_new)
    if pipeline is not None:
        assert isinstance(pipeline, JoinedPipeline)
        assert isinstance(pipeline.state, NntpState)
        is_new = pipeline.state is state
        if is_new:
            state.is_private = tls or is_loopback(pipeline.peer)
        return NntpSession(pipeline.state, url.scheme, is_new=is_new, may_pack=not is_plain)
    return NntpSession(state, url.scheme)


def _perform(session: NntpSession, negotiation: NewsNegotiation, request: Request) -> Dialogue[RequestTarget]:
    """Send the request, and fulfill the server's preconditions until the server accepts the request."""
    if session.is_new:
        yield from _greet(session, negotiation)
        yield PlanNote(_BRANCHES)
    while True:
        try:
            return (yield from request(session))
        except RequestReissue:
            continue
        except Precondition as precondition:
            yield from negotiation.fulfill(precondition)
        except Declined as error:
            if session.state.closing:
                raise
            yield from _retry_login(session, negotiation, error)


def _greet(session: NntpSession, negotiation: NewsNegotiation) -> Dialogue[None]:
    state = session.state
    yield from session.start_response()
    greeting = yield from require_response(
        receive(read_status(state.limits.line), _GREETING, NntpResponse(200))
    )
    _check_greeting(greeting)
    state.greeted = True
    state.request_ended = False
    yield from negotiation.begin()
    if greeting.code == 480 and not state.logged_in:  # real servers send 480 as the greeting
        yield from negotiation.log_in(_GREETING, greeting)


def _check_greeting(greeting: NntpResponse) -> None:
    match greeting.code:
        case 200 | 201 | 480:
            return
        case 400:
            raise make_declined(TryLater, _GREETING, greeting, "the server is not available now")
        case 502:
            raise make_declined(AccessDenied, _GREETING, greeting, "the server rejected this client")
        case 220:
            raise ProtocolError(
                f"{greeting.shown} is the greeting of a mail or file server, not of a news server"
            )
    raise ProtocolError(f"{greeting.shown} is not the greeting of a news server")


def _retry_login(session: NntpSession, negotiation: NewsNegotiation, error: Declined) -> Dialogue[None]:
    """Log in after a "not found" response, so that the request can be retried.

    Servers may report an object as missing before a login. Any refusal other than "not found" is raised
    again. Before the login or the error, the outstanding responses to this dialogue are read and discarded.
    """
    yield from _discard_responses(session, error)
    login = (yield from negotiation.find_optional_login()) if isinstance(error, NotFound) else None
    if login is None:
        raise error
    yield from negotiation.authenticate(login)


def _discard_responses(session: NntpSession, error: Declined) -> Dialogue[None]:
    try:
        yield from session.discard_own_responses()
    except NetworkError as network_error:
        session.state.closing = True
        raise error from network_error


# Replay of archived responses (WARC) for a group or for the list of all groups.

#: The codes of responses that always have a block. 211 is not in the set, because only the 211 response to
#: LISTGROUP has a block (RFC 3977 6.1.2).
_BLOCK_CODES = frozenset({b"215", b"220", b"221", b"222", b"224", b"225", b"230", b"231"})
#: The maximum size of a line in bytes; articles may have long lines.
_MAX_LINE = 1_048_576


class NewsReplayServer:
    """A replay of a news server; see `protocols.contract.ReplayPeer`."""

    def __init__(self, archived: ArchivedObject) -> None:
        self._commands = frozenset(archived.commands)
        self._lines = _split_lines(archived.block())

    @property
    def greeting(self) -> bytes:
        return encode_line(b"200", b"archive").octets

    def answer(self, line: bytes) -> Iterator[bytes | None]:
        words = line.decode("latin-1").upper().split()
        verb = "_".join(words[:2] if words[:1] == ["LIST"] else words[:1])
        if verb not in self._commands:
            yield encode_line(b"500", b"not in the archive").octets
            return
        status = next(self._lines, b"")
        yield status
        code = status[:3]
        if code in _BLOCK_CODES or (code == b"211" and verb == "LISTGROUP"):
            for reply_line in self._lines:
                yield reply_line
                if reply_line.startswith(b".") and not reply_line.startswith(b".."):
                    return


def _split_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines with their line ends; the last line may lack a line end."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line + b"\n"
        if len(rest) > _MAX_LINE:
            raise LimitExceeded("line", f"a line of the archive is longer than {_MAX_LINE} bytes")
    if rest:
        yield rest
