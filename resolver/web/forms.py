"""Forms on pages: search terms, the forms of Gopher+ items, and logins.

A form has three steps, each with its own path. Form submission has three steps. Each step has its own path.
The form is fetched first. Then the filled-in form is previewed. Finally, the form is submitted once. Between
the steps, the user's answers are stored in this process and not on a page, because answers may be secret.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

from starlette.requests import Request
from starlette.responses import Response as Answer
from starlette.routing import Route

from protocols.authority import comparable_host
from protocols.contract import Credentials
from protocols.errors import (
    AccessDenied,
    Declined,
    InvalidUrl,
    LoginRequired,
    Refused,
    ResolveError,
    UnsupportedScheme,
)
from protocols.location import HostUrl, Url
from resolver.network.mask import CredentialCache, Given, Place
from resolver.policy.judgment import judge
from resolver.policy.redirects import may_go_unasked
from resolver.policy.schemes import rules_of
from resolver.policy.settings import Policy
from resolver.transfer.forms import PutForm, form_at
from resolver.transfer.response import Response
from resolver.url import registry
from resolver.url.parsing import parse
from resolver.web import access
from resolver.web.answers import TraceHistory, get_form, pairs_of, query_of, see
from resolver.web.dialogue.exchange import make_planned_exchange
from resolver.web.pages.errors import LoginQuestion
from resolver.web.pages.gopher import answers_from, form_page, sending_page
from resolver.web.pages.page import WebPage, read_query, refine_url
from resolver.web.reading import PageReader, while_wanted
from resolver.web.session import SessionLink, UrlOrigin, WebSession

#: The maximum number of forms that are being filled in. The same number limits the stored logins.
_MOST = 64

#: Callbacks of the web UI. The callbacks redirect to a path, show a page for a URL, or show the outcome of a
#: URL with the protocol exchange.
See: TypeAlias = Callable[[str], Answer]
Show: TypeAlias = Callable[[WebPage, str, str], Answer]
Tell: TypeAlias = Callable[[Request, "Response | ResolveError", str, str, UrlOrigin, str], Answer]

_Kept = TypeVar("_Kept")


class _PendingForm(NamedTuple):
    """A form from a server, and the origin of its URL."""

    put: PutForm
    url: HostUrl
    way: UrlOrigin


class _FilledForm(NamedTuple):
    """The URL that submits a form, and its origin."""

    url: Url
    way: UrlOrigin


class FormQuestions:
    """The search fields and Gopher+ forms of one run."""

    def __init__(
        self, session: WebSession, reading: PageReader, said: TraceHistory, see: See, show: Show, tell: Tell
    ) -> None:
        self._session = session
        self._reading = reading
        self._said = said
        self._see = see
        self._show = show
        self._tell = tell
        self._asked: OrderedDict[str, _PendingForm] = OrderedDict()
        self._filled: OrderedDict[str, _FilledForm] = OrderedDict()
        self.routes = [
            Route("/search", self._search),
            Route("/form", self._ask),
            Route("/form", self._look, methods=["POST"]),
            Route("/send", self._send, methods=["POST"]),
        ]

    async def _search(self, request: Request) -> Answer:
        """Redirect to the URL with the search terms.

        The URL counts as a link on the page with the search field.
        """
        fields = query_of(request)
        text, from_id = fields.get("url", ""), fields.get("from", "")
        try:
            found = refine_url(text, "search", fields.get("words", ""))
        except (InvalidUrl, UnsupportedScheme, UnicodeEncodeError):
            return self._see(access.make_preview_link(text, from_id))
        relevant = read_query(pairs_of(request)).relevant
        return self._see(access.make_link(found, from_id, relevant))

    async def _ask(self, request: Request) -> Answer:
        """Fetch and show the questions of a form without fetching the item.

        Only a button on the page of the URL sends this request.
        """
        fields = query_of(request)
        text, from_id = fields.get("url", ""), fields.get("from", "")
        way = UrlOrigin("chosen", self._session.way_to(text, from_id).referrer)
        url = self._reading.url(text, way)
        if not isinstance(url, HostUrl) or rules_of(url.scheme).form is None:
            return self._see(access.make_preview_link(text, from_id))
        found = await while_wanted(request.receive, partial(self._put, url, way))
        if found is None:
            return Answer(status_code=408)  # the browser has disconnected
        if isinstance(found, ResolveError):
            return self._tell(request, found, text, from_id, way, "")
        blank, way = (
            found.specimen(),
            UrlOrigin("user", way.referrer),
        )  # the origin is `user`, because the user typed the answers
        policy = self._reading.resolver.policy
        refusal = judge(blank, policy, origin=way.origin, referrer=way.referrer).error(blank)
        if refusal is not None:
            return self._tell(request, refusal, text, from_id, way, "")
        form_id = self._keep(self._asked, _PendingForm(found, url, way))
        return self._show(form_page(found.form, url, form_id, found.findings), text, from_id)

    async def _put(self, url: HostUrl, way: UrlOrigin) -> PutForm | ResolveError:
        try:
            return await form_at(self._reading.resolver, url, origin=way.origin, referrer=way.referrer)
        except ResolveError as error:
            return error

    async def _look(self, request: Request) -> Answer:
        """Show a preview of the submission of a filled-in form: the bytes to send."""
        fields = get_form(request)
        asked = self._asked.get(fields.get("form", ""))
        if asked is None:
            return self._see("/")
        text = asked.url.text
        answers = answers_from(asked.put.form, fields.items())
        try:
            url = asked.put.fill_in(answers)
        except (Refused, ValueError) as error:
            page = form_page(asked.put.form, asked.url, fields["form"], asked.put.findings, str(error))
            return self._show(page, text, "")
        plan = self._reading.plan(url, asked.way)
        if plan.error is not None:
            return self._tell(request, plan.error, text, "", asked.way, "")
        said = "".join(str(step["octets"]) for step in plan.steps if step["action"] == "send")
        filled_id = self._keep(self._filled, _FilledForm(url, asked.way))
        return self._show(sending_page(asked.put.form, answers, asked.url, said, filled_id), text, "")

    async def _send(self, request: Request) -> Answer:
        """Submit a form once.

        A retry is not possible, because even a failed submission may have changed data on the server.
        """
        fields = get_form(request)
        filled = self._filled.pop(fields.get("answers", ""), None)
        if filled is None:
            return self._see("/")
        work = partial(self._reading.fetch, filled.url, filled.way)
        found = await while_wanted(request.receive, work)
        if found is None:
            return Answer(status_code=408)
        said = self._said.panel(
            found.exchange, make_planned_exchange(self._reading.plan(filled.url, filled.way))
        )
        return self._tell(request, found.reply, filled.url.shown, "", filled.way, said)

    def _keep(self, kept: OrderedDict[str, _Kept], value: _Kept) -> str:
        """Store a value and return its ID; discard the oldest values above the limit."""
        while len(kept) >= _MOST:
            kept.popitem(last=False)
        kept[found := self._session.mark(SessionLink(None))] = value
        return found


# The names and passwords that the user typed on a page are stored in memory. A login is sent only to the
# scheme, host and port that requested the login (S11). A login is deleted when the run ends or the user
# discards it. Passwords are never displayed, written to a file, or inserted in a URL.

#: Maximum size in bytes of a name or password.
_LONGEST = 4_096
#: The status code of a proxy that requires authentication (RFC 9110 15.5.8). Logins from a page are never
#: sent to a proxy.
_OF_PROXY = "407"


class _LoginForm(NamedTuple):
    """The data of a login form: the scheme, host and port for the credentials, and the URL to open."""

    place: Place
    text: str
    way: UrlOrigin


class TypedLogins:
    """The source of credentials. Logins from pages have priority over logins from the start of the run.

    `CredentialCache` describes `round`.
    """

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
        """Return the scheme, host and port of each stored login, as text."""
        return [show_place(place) for place in self._held]

    def give(self, place: Place, login: Credentials) -> None:
        """Store the login for a scheme, host and port, in place of an earlier login."""
        while len(self._held) >= _MOST:
            self.forget(next(iter(self._held)))
        self._held[place] = login
        self._untried.add(place)
        self.round += 1

    def forget(self, place: Place) -> None:
        """Discard a login; pooled connections with this login are not reused."""
        if self._held.pop(place, None) is not None:
            self._untried.discard(place)
            self.round += 1

    @property
    def held(self) -> list[Place]:
        return list(self._held)

    def has(self, place: Place) -> bool:
        return place in self._held

    def was_tried(self, place: Place, *, denied: bool) -> None:
        """Record the first response after the user has typed a login, and discard a denied login."""
        if place in self._untried:
            self._untried.discard(place)
            if denied:
                self.forget(place)


def show_place(place: Place) -> str:
    scheme, host, port = place
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def place_of(url: HostUrl) -> Place:
    return url.scheme, comparable_host(url.host), url.effective_port


class LoginForms:
    """The login forms of one run."""

    def __init__(self, logins: TypedLogins, session: WebSession, policy: Policy) -> None:
        self._logins = logins
        self._session = session
        self._policy = policy
        self._asked: OrderedDict[str, _LoginForm] = OrderedDict()
        self.routes = [
            Route("/login", self._take, methods=["POST"]),
            Route("/login/forget", self._forget, methods=["POST"]),
        ]

    def record_outcome(self, reply: object, text: str, way: UrlOrigin) -> LoginQuestion | None:
        """Record the outcome of a fetch; return a login form if the server requires a login."""
        if not isinstance(reply, ResolveError):
            self._record_try(getattr(reply, "url", ""), denied=False)
            return None
        if not isinstance(reply, LoginRequired | AccessDenied):
            return None
        url = _url_of(reply.url or text)
        if url is None or not _asks_login(reply) or getattr(url, "password", None) is not None:
            return None  # a password in the URL has priority over a login from a form
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
        return LoginQuestion(form_id, show_place(place), user, in_clear, was_given)

    def _record_try(self, text: str, *, denied: bool) -> None:
        url = _url_of(text)
        if url is not None:
            self._logins.was_tried(place_of(url), denied=denied)

    async def _take(self, request: Request) -> Answer:
        """Store the typed login for the scheme, host and port of the form.

        Fields of the request cannot change the scheme, host and port.
        """
        form = get_form(request)
        asked = self._asked.pop(form.get("login", ""), None)
        if asked is None:
            return see("/")
        octets = partial(str.encode, encoding="utf-8", errors="surrogateescape")
        user, password = octets(form.get("user", "")), octets(form.get("password", ""))
        if user and max(len(user), len(password)) <= _LONGEST:
            self._logins.give(asked.place, Credentials(user, password))
        # A user who types a password for a page has confirmed that the page may be opened.
        way = asked.way._replace(origin="chosen") if asked.way.origin == "derived" else asked.way
        return see(access.make_link(asked.text, self._session.mark(SessionLink(None, asked.text, way))))

    async def _forget(self, request: Request) -> Answer:
        given = get_form(request).get("place", "")
        for place in self._logins.held:
            if given in (show_place(place), "all"):
                self._logins.forget(place)
        return see("/settings")


def _asks_login(error: Declined) -> bool:
    """Return whether the server (not a proxy, code 407) may require a login, by the error code."""
    code = error.code
    return code is not None and code.isascii() and code.isdigit() and code != _OF_PROXY


def _url_of(text: str) -> HostUrl | None:
    try:
        url = parse(text)
    except InvalidUrl:
        return None
    return url if isinstance(url, HostUrl) else None
