"""Names and passwords that a person typed on a page: in memory, each for the scheme, host and port that it
was asked for and no other (S11), until the run ends or the person has it forgotten.

None is ever shown again, written to a file, or part of an address.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

from starlette.requests import Request
from starlette.responses import Response as Answer
from starlette.routing import Route

from protocols.authority import comparable_host
from protocols.contract import Credentials
from protocols.errors import AccessDenied, Declined, InvalidUrl, LoginRequired, ResolveError
from protocols.location import HostUrl
from protocols.values import NamedTuple
from resolver import registry
from resolver.gate.credentials import CredentialCache, Given, Place
from resolver.policy import Policy
from resolver.policy.credentials import may_go_unasked
from resolver.url import parse
from resolver.window import addresses
from resolver.window.answers import answered_form, see
from resolver.window.pages.errors import LoginQuestion
from resolver.window.session import SessionLink, UrlOrigin, WebSession

#: Forms that are on pages, and places that a login is held for.
_MOST = 64
#: Octets of a name or password.
_LONGEST = 4_096
#: Of a proxy (RFC 9110 15.5.8), to which nothing of this goes.
_OF_PROXY = "407"


class _LoginForm(NamedTuple):
    """What a form is for: the place that gets the login, and the URL that is opened then."""

    place: Place
    text: str
    way: UrlOrigin


class TypedLogins:
    """A source of credentials: those that were typed here, before those that the run was given. See
    `CredentialCache` for `round`."""

    def __init__(self, given: Given | None = None) -> None:
        self.round = 0
        self._held: OrderedDict[Place, Credentials] = OrderedDict()
        self._untried: set[Place] = set()
        self._given = None if given is None else CredentialCache(given)

    async def __call__(self, scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        held = self._held.get((scheme, comparable_host(host), port))
        if held is not None and user in (None, held.user):
            return held
        return None if self._given is None else await self._given.request(scheme, host, port, user)

    @property
    def places(self) -> list[str]:
        """Those that one is held for, as people read them."""
        return [shown(place) for place in self._held]

    def give(self, place: Place, login: Credentials) -> None:
        """Held from now on, in place of another."""
        while len(self._held) >= _MOST:
            self.forget(next(iter(self._held)))
        self._held[place] = login
        self._untried.add(place)
        self.round += 1

    def forget(self, place: Place) -> None:
        """No longer held; and what was logged in with it is used no more."""
        if self._held.pop(place, None) is not None:
            self._untried.discard(place)
            self.round += 1

    @property
    def held(self) -> list[Place]:
        return list(self._held)

    def has(self, place: Place) -> bool:
        return place in self._held

    def was_tried(self, place: Place, *, denied: bool) -> None:
        """What the first answer after it was given says: one that was not taken is not sent again."""
        if place in self._untried:
            self._untried.discard(place)
            if denied:
                self.forget(place)


def shown(place: Place) -> str:
    scheme, host, port = place
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def place_of(url: HostUrl) -> Place:
    return url.scheme, comparable_host(url.host), url.effective_port


class LoginForms:
    """The forms in which they are typed, of one run."""

    def __init__(self, logins: TypedLogins, session: WebSession, policy: Policy) -> None:
        self._logins = logins
        self._session = session
        self._policy = policy
        self._asked: OrderedDict[str, _LoginForm] = OrderedDict()
        self.routes = [
            Route("/login", self._take, methods=["POST"]),
            Route("/login/forget", self._forget, methods=["POST"]),
        ]

    def heard(self, reply: object, text: str, way: UrlOrigin) -> LoginQuestion | None:
        """What became of a URL; and the form, where a login may help."""
        if not isinstance(reply, ResolveError):
            self._tried(getattr(reply, "url", ""), denied=False)
            return None
        if not isinstance(reply, LoginRequired | AccessDenied):
            return None
        url = _url_of(reply.url or text)
        if url is None or not _asks(reply) or getattr(url, "password", None) is not None:
            return None  # the URL has one, and that is the one that counts
        place = place_of(url)
        was_given = self._logins.has(place)
        if not (was_given or isinstance(reply, LoginRequired)):
            return None
        self._logins.was_tried(place, denied=True)
        while len(self._asked) >= _MOST:
            self._asked.popitem(last=False)
        form_id = self._session.mark(SessionLink(None))
        self._asked[form_id] = _LoginForm(place, text, way)
        user = (getattr(url, "user", None) or b"").decode("utf-8", "replace")
        row = registry.find(url.scheme)
        secured = row is not None and row.tls == "always"
        in_clear = not may_go_unasked(url.host, self._policy, tls=secured)
        return LoginQuestion(form_id, shown(place), user, in_clear, was_given)

    def _tried(self, text: str, *, denied: bool) -> None:
        url = _url_of(text)
        if url is not None:
            self._logins.was_tried(place_of(url), denied=denied)

    async def _take(self, request: Request) -> Answer:
        """What was typed goes to the place that the form was for, whatever else is sent with it."""
        form = answered_form(request)
        asked = self._asked.pop(form.get("login", ""), None)
        if asked is None:
            return see("/")
        octets = partial(str.encode, encoding="utf-8", errors="surrogateescape")
        user, password = octets(form.get("user", "")), octets(form.get("password", ""))
        if user and max(len(user), len(password)) <= _LONGEST:
            self._logins.give(asked.place, Credentials(user, password))
        # Who types a password for a page has decided to open it.
        way = asked.way._replace(origin="chosen") if asked.way.origin == "derived" else asked.way
        return see(addresses.found(asked.text, self._session.mark(SessionLink(None, asked.text, way))))

    async def _forget(self, request: Request) -> Answer:
        given = answered_form(request).get("place", "")
        for place in self._logins.held:
            if given in (shown(place), "all"):
                self._logins.forget(place)
        return see("/settings")


def _asks(error: Declined) -> bool:
    """Three digits are the answer of a protocol in which one logs in; all else says it otherwise."""
    code = error.code
    return code is not None and code.isascii() and code.isdigit() and code != _OF_PROXY


def _url_of(text: str) -> HostUrl | None:
    try:
        url = parse(text)
    except InvalidUrl:
        return None
    return url if isinstance(url, HostUrl) else None
