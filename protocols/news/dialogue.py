"""A conversation with a news server from the greeting to the farewell (RFC 3977 5).

`converse` goes round a *wish*, the commands that get what a URL names: it connects, takes hurdles out of
the way (reader mode, TLS, a login), and says goodbye. The client never speaks before the greeting.
"""

from __future__ import annotations

from contextlib import suppress

from protocols.contract import Options
from protocols.errors import AccessDenied, Declined, NetworkError, NotFound, ProtocolError
from protocols.news.commands import Command, Verb
from protocols.news.link import Link, Talk, is_loopback
from protocols.news.login import Hurdle, Login, Usher
from protocols.news.refusals import Closing, declined
from protocols.news.reply import Answer, read_status
from protocols.news.url import NewsUrl, NntpUrl
from protocols.news.wishes import Found, wish_of
from protocols.step import Connect, Dialogue, Note, hear

_GREETING = "the greeting"
_BRANCHES = (
    "if the server wants it: MODE READER (once), STARTTLS, AUTHINFO with the name and password given for it;"
    " then the commands again"
)


def converse(url: NewsUrl | NntpUrl, options: Options, link: Link) -> Dialogue[Found]:
    """Get what the URL names on `link`, which is connected first if it is new. Parts of a body are
    handed over; the result tells what was found."""
    talk = Talk(link)
    usher = Usher(talk, Login(url.user, url.password), options)
    wish = wish_of(url, options)
    if not link.greeted:
        yield from _greet(talk, usher, tls=url.scheme in ("snews", "nntps"))
        yield Note(_BRANCHES)
    while True:
        try:
            return (yield from wish(talk))
        except Hurdle as hurdle:
            yield from usher.take(hurdle)
        except Closing:
            raise
        except Declined as refused:
            yield from _look_again(talk, usher, refused)


def retrieve(url: NewsUrl | NntpUrl, options: Options, link: Link) -> Dialogue[Found]:
    """The whole of a conversation on a connection that is closed afterwards."""
    try:
        found = yield from converse(url, options, link)
    except Declined:
        yield from take_leave(link)
        raise
    yield from take_leave(link)
    return found


def take_leave(link: Link) -> Dialogue[None]:
    """QUIT. Its answer is not waited for, and who has closed already needs none."""
    if not link.closing and not link.owed:
        with suppress(NetworkError):
            yield from Talk(link).say(Command(Verb.QUIT))


def _greet(talk: Talk, usher: Usher, *, tls: bool) -> Dialogue[None]:
    link = talk.link
    peer = yield Connect(tls=tls)
    link.tls = tls
    link.private = tls or is_loopback(peer)
    greeting = yield from hear(read_status(link.limits.line), _GREETING, Answer(200))
    _check_greeting(greeting)
    link.greeted = True
    yield from usher.begin()
    if greeting.code == 480 and not link.logged_in:  # in no RFC, but seen
        link.open = False
        yield from usher.log_in(_GREETING, greeting)


def _check_greeting(greeting: Answer) -> None:
    match greeting.code:
        case 200 | 201 | 480:
            return
        case 400:
            raise declined(Closing, _GREETING, greeting, "the server is not available now")
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
