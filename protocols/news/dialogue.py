"""A conversation with a news server from the greeting to the farewell (RFC 3977 5).

`converse` goes round a *request*, the commands that get what a URL names: it joins a connection, hears the
greeting of a new one before anything is sent, and meets what the server wants first.
"""

from __future__ import annotations

from collections.abc import Hashable

from protocols.errors import (
    AccessDenied,
    Declined,
    Disconnected,
    NetworkError,
    NotFound,
    ProtocolError,
    TryLater,
)
from protocols.news.negotiation import Login, Negotiation, Precondition
from protocols.news.request import Found, Request, request_of
from protocols.news.response import Response, declined, read_status
from protocols.news.session import (
    NntpState,
    NotShareable,
    Packed,
    Reissue,
    Session,
    is_loopback,
    undivided,
)
from protocols.news.url import NewsUrl, NntpUrl
from protocols.options import Limits, Options
from protocols.step import Begin, Dialogue, EndResponse, Joined, JoinPipeline, Note, hear

_GREETING = "the greeting"
_BRANCHES = (
    "if the server wants it: MODE READER (once), STARTTLS, AUTHINFO with the name and password given for it;"
    " then the commands again"
)


def converse(url: NewsUrl | NntpUrl, options: Options, limits: Limits) -> Dialogue[None]:
    """Get what the URL names. When all of it has been read, and not before, others may read their responses
    on the connection (`EndResponse`).

    Raises `Declined` where the server says no, `LoginRequired` where it wants a login and there is none,
    `Refused` (S06) where a login would be in the clear, `ProtocolError` for what is no news server.
    """
    request = request_of(url, options, limits)
    session, found = yield from _find(url, options, limits, request)
    found.reply.findings.extend(session.state.findings)
    if found.body is None:
        yield from _leave()
        yield Begin(found.reply)
        return
    yield Begin(found.reply)
    try:
        yield from found.body
    except Declined as refused:
        if not session.state.closing:
            yield from _drop_own(session, refused)
            yield EndResponse()
        raise
    yield from _leave()
    found.reply.verified.add("terminator")


def _leave() -> Dialogue[None]:
    yield EndResponse()
    yield Note("QUIT, when nobody needs the connection any more; its answer is not waited for")


def _find(
    url: NewsUrl | NntpUrl, options: Options, limits: Limits, request: Request
) -> Dialogue[tuple[Session, Found]]:
    """A connection that others have used may turn out to be dead, or be given up by them: then there is one
    that is new."""
    anew = apart = unpacked = False
    while True:
        session, is_new = yield from _reach(url, options, limits, anew, apart, unpacked)
        try:
            negotiation = Negotiation(session, Login(url.user, url.password), options)
            return session, (yield from _get(session, negotiation, request, is_new))
        except NotShareable:
            yield EndResponse()
            apart = True
        except Packed:
            yield EndResponse()
            unpacked = True
        except (Disconnected, Declined) as error:
            if not is_new and _is_dead(session, error):
                anew = True
                continue
            if isinstance(error, Declined) and not (session.pending or session.state.closing):
                yield EndResponse()
            raise


def _is_dead(session: Session, error: Disconnected | Declined) -> bool:
    """Was the connection at its end before it could be of use? A 400 as a later response is one."""
    return isinstance(error, Disconnected) or (session.state.closing and not session.heard)


def _reach(
    url: NewsUrl | NntpUrl, options: Options, limits: Limits, anew: bool, apart: bool, unpacked: bool
) -> Dialogue[tuple[Session, bool]]:
    """Join a connection; is it new? Those who give other credentials, or want other TLS, never share it.
    `news:` and `nntp:` do, but `apart`: that is for a scheme that credentials may be held for (S11). One
    that is `unpacked` is for who has to log in and met one that is compressed."""
    tls = url.scheme in ("snews", "nntps")
    state = NntpState(limits)
    state.tls = tls
    key: tuple[Hashable, ...] = ("nntp", url.user, url.password, options.tls, options.login_in_clear)
    key = (*key, apart and url.scheme, *(("unpacked",) if unpacked else ()))
    joined = yield JoinPipeline(key, state, tls=tls, anew=anew)
    if joined is not None:
        assert isinstance(joined, Joined)
        assert isinstance(joined.state, NntpState)
        state.private = tls or is_loopback(joined.peer)
        return Session(joined.state, url.scheme, may_pack=not unpacked), joined.state is state
    return Session(state, url.scheme), True


def _get(session: Session, negotiation: Negotiation, request: Request, is_new: bool) -> Dialogue[Found]:
    """Have the request granted, whatever the server wants first."""
    if is_new:
        yield from _greet(session, negotiation)
        yield Note(_BRANCHES)
    while True:
        try:
            return (yield from request(session))
        except Reissue:
            continue
        except Precondition as precondition:
            yield from negotiation.meet(precondition)
        except Declined as refused:
            if session.state.closing:
                raise
            yield from _look_again(session, negotiation, refused)


def _greet(session: Session, negotiation: Negotiation) -> Dialogue[None]:
    state = session.state
    yield from session.start_response()
    greeting = yield from undivided(hear(read_status(state.limits.line), _GREETING, Response(200)))
    _check_greeting(greeting)
    state.greeted = True
    state.request_ended = False
    yield from negotiation.begin()
    if greeting.code == 480 and not state.logged_in:  # in no RFC, but seen
        yield from negotiation.log_in(_GREETING, greeting)


def _check_greeting(greeting: Response) -> None:
    match greeting.code:
        case 200 | 201 | 480:
            return
        case 400:
            raise declined(TryLater, _GREETING, greeting, "the server is not available now")
        case 502:
            raise declined(AccessDenied, _GREETING, greeting, "the server does not want this client")
        case 220:
            raise ProtocolError(
                f"{greeting.shown} is how servers of mail and files greet: this is none of news"
            )
    raise ProtocolError(f"{greeting.shown} is no greeting of a news server")


def _look_again(session: Session, negotiation: Negotiation, refused: Declined) -> Dialogue[None]:
    """What is not found may only be hidden; and whatever is refused, nothing of it stays unread."""
    yield from _drop_own(session, refused)
    login = (yield from negotiation.find_help()) if isinstance(refused, NotFound) else None
    if login is None:
        raise refused
    yield from negotiation.authenticate(login)


def _drop_own(session: Session, refused: Declined) -> Dialogue[None]:
    try:
        yield from session.drop_own()
    except NetworkError as error:
        session.state.closing = True
        raise refused from error
