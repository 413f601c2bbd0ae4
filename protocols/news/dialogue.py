"""A conversation with a news server from the greeting to the farewell (RFC 3977 5).

`converse` goes round a *wish*, the commands that get what a URL names: it finds a connection, hears the
greeting of a new one before anything is said, and takes hurdles out of the way: reader mode, TLS, a login.
"""

from __future__ import annotations

from protocols.errors import (
    AccessDenied,
    Declined,
    Disconnected,
    NetworkError,
    NotFound,
    ProtocolError,
    TryLater,
)
from protocols.news.link import Anew, Link, NotOurs, Talk, is_loopback, undivided
from protocols.news.login import Hurdle, Login, Usher
from protocols.news.refusals import declined
from protocols.news.reply import Answer, read_status
from protocols.news.url import NewsUrl, NntpUrl
from protocols.news.wishes import Found, Wish, wish_of
from protocols.options import Limits, Options
from protocols.step import Dialogue, Join, Joined, Keep, Note, hear

_GREETING = "the greeting"
_BRANCHES = (
    "if the server wants it: MODE READER (once), STARTTLS, AUTHINFO with the name and password given for it;"
    " then the commands again"
)


def converse(url: NewsUrl | NntpUrl, options: Options, limits: Limits) -> Dialogue[Found]:
    """Get what the URL names. Parts of a body are handed over; the result tells what was found.

    A connection that others have used may turn out to be dead, or be given up by them: then there is one
    that is new. When all that was asked for has been read, others may go on with it (`Keep`).
    """
    wish = wish_of(url, options)
    anew = apart = False
    while True:
        talk, is_new = yield from _reach(url, options, limits, anew=anew, apart=apart)
        try:
            found = yield from _get(talk, Usher(talk, Login(url.user, url.password), options), wish, is_new)
        except NotOurs:
            yield Keep()
            apart = True
            continue
        except (Disconnected, Declined) as error:
            if not is_new and _is_dead(talk, error):
                anew = True
                continue
            if isinstance(error, Declined) and not (talk.pending or talk.link.closing):
                yield Keep()
            raise
        yield Keep()
        yield Note("QUIT, when nobody needs the connection any more; its answer is not waited for")
        return found


def _is_dead(talk: Talk, error: Disconnected | Declined) -> bool:
    """Was the connection at its end before it could be of use? A 400 that is not the first answer is one."""
    if isinstance(error, Disconnected):
        return not talk.handed
    return talk.link.closing and not talk.heard


def _reach(
    url: NewsUrl | NntpUrl, options: Options, limits: Limits, *, anew: bool, apart: bool
) -> Dialogue[tuple[Talk, bool]]:
    """Join a connection; is it new? Those who give other credentials, or want other TLS, never share it.
    `news:` and `nntp:` do, but `apart`: that is for a scheme that credentials may be held for (S11)."""
    tls = url.scheme in ("snews", "nntps")
    link = Link(limits)
    link.tls = tls
    whom = ("nntp", url.user, url.password, options.tls, options.login_in_clear, apart and url.scheme)
    joined = yield Join(whom, link, tls=tls, anew=anew)
    if joined is not None:
        assert isinstance(joined, Joined)
        assert isinstance(joined.memory, Link)
        link.private = tls or is_loopback(joined.peer)
        return Talk(joined.memory, url.scheme), joined.memory is link
    return Talk(link, url.scheme), True


def _get(talk: Talk, usher: Usher, wish: Wish, is_new: bool) -> Dialogue[Found]:
    """Have the wish granted, whatever stands in the way of it."""
    if is_new:
        yield from _greet(talk, usher)
        yield Note(_BRANCHES)
    while True:
        try:
            return (yield from wish(talk))
        except Anew:
            continue
        except Hurdle as hurdle:
            yield from usher.take(hurdle)
        except Declined as refused:
            if talk.link.closing:
                raise
            yield from _look_again(talk, usher, refused)


def _greet(talk: Talk, usher: Usher) -> Dialogue[None]:
    link = talk.link
    yield from talk.await_turn()
    greeting = yield from undivided(hear(read_status(link.limits.line), _GREETING, Answer(200)))
    _check_greeting(greeting)
    link.greeted = True
    link.open = False
    yield from usher.begin()
    if greeting.code == 480 and not link.logged_in:  # in no RFC, but seen
        yield from usher.log_in(_GREETING, greeting)


def _check_greeting(greeting: Answer) -> None:
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


def _look_again(talk: Talk, usher: Usher, refused: Declined) -> Dialogue[None]:
    """What is not found may only be hidden; and whatever is refused, nothing of it stays unread."""
    try:
        yield from talk.drop_own()
    except NetworkError as error:
        talk.link.closing = True
        raise refused from error
    login = (yield from usher.find_help()) if isinstance(refused, NotFound) else None
    if login is None:
        raise refused
    yield from usher.authenticate(login)
