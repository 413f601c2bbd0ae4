"""Forms on pages: search terms, the forms of Gopher+ items, and logins.

Form submission has three steps, each with its own path. The form is fetched first. Then the filled-in form
is previewed. Finally, the form is submitted once. Between the steps, the user's answers are stored in this
process and not on a page, because answers may be secret.
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
from resolver.policy.redirects import may_send_early
from resolver.policy.schemes import find_rules
from resolver.policy.settings import Policy
from resolver.transfer.forms import PutForm, form_at
from resolver.transfer.response import Response
from resolver.url import registry
from resolver.url.parsing import parse
from resolver.web import access
from resolver.web.answers import TraceHistory, get_form, get_query, get_query_pairs, redirect
from resolver.web.dialogue.exchange import make_planned_exchange
from resolver.web.pages.errors import LoginQuestion
from resolver.web.pages.gopher import answers_from, form_page, sending_page
from resolver.web.pages.page import WebPage, read_query, refine_url
from resolver.web.reading import PageReader, run_while_connected
from resolver.web.session import SessionLink, UrlOrigin, WebSession

#: The maximum number of forms that are being filled in. The same number limits the stored logins.
_MAX_FORMS = 64

#: Callbacks of the web UI, which show a page for a URL, or the outcome of a URL with the protocol exchange.
ShowPage: TypeAlias = Callable[[WebPage, str, str], Answer]
ShowOutcome: TypeAlias = Callable[[Request, "Response | ResolveError", str, str, UrlOrigin, str], Answer]

_Value = TypeVar("_Value")


class _PendingForm(NamedTuple):
    """A form from a server, and the origin of its URL."""

    put: PutForm
    url: HostUrl
    source: UrlOrigin


class _FilledForm(NamedTuple):
    """The URL that submits a form, and its origin."""

    url: Url
    source: UrlOrigin


class FormQuestions:
    """The search fields and Gopher+ forms of one run."""

    def __init__(
        self,
        session: WebSession,
        reader: PageReader,
        history: TraceHistory,
        show_page: ShowPage,
        show_outcome: ShowOutcome,
    ) -> None:
        self._session = session
        self._reader = reader
        self._history = history
        self._show_page = show_page
        self._show_outcome = show_outcome
        self._pending_forms: OrderedDict[str, _PendingForm] = OrderedDict()
        self._filled_forms: OrderedDict[str, _FilledForm] = OrderedDict()
        self.routes = [
            Route("/search", self._search),
            Route("/form", self._ask),
            Route("/form", self._look, methods=["POST"]),
            Route("/send", self._send, methods=["POST"]),
        ]

    async def _search(self, request: Request) -> Answer:
        """Redirect to the URL with the search terms, as a link on the page with the search field."""
        fields = get_query(request)
        text, from_id = fields.get("url", ""), fields.get("from", "")
        try:
            refined = refine_url(text, "search", fields.get("words", ""))
        except (InvalidUrl, UnsupportedScheme, UnicodeEncodeError):
            return redirect(access.make_preview_link(text, from_id))
        relevant = read_query(get_query_pairs(request)).relevant
        return redirect(access.make_link(refined, from_id, relevant))

    async def _ask(self, request: Request) -> Answer:
        """Fetch and show the questions of a form without fetching the item.

        Only a button on the page of the URL sends this request.
        """
        fields = get_query(request)
        text, from_id = fields.get("url", ""), fields.get("from", "")
        source = UrlOrigin("chosen", self._session.find_source(text, from_id).referrer)
        url = self._reader.url(text, source)
        if not isinstance(url, HostUrl) or find_rules(url.scheme).form is None:
            return redirect(access.make_preview_link(text, from_id))
        form = await run_while_connected(request.receive, partial(self._fetch_form, url, source))
        if form is None:
            return Answer(status_code=408)  # the browser has disconnected
        if isinstance(form, ResolveError):
            return self._show_outcome(request, form, text, from_id, source, "")
        specimen, source = (
            form.specimen(),
            UrlOrigin("user", source.referrer),
        )  # the origin is `user`, because the user typed the answers
        policy = self._reader.resolver.policy
        refusal = judge(specimen, policy, origin=source.origin, referrer=source.referrer).error(specimen)
        if refusal is not None:
            return self._show_outcome(request, refusal, text, from_id, source, "")
        form_id = _store(self._session, self._pending_forms, _PendingForm(form, url, source))
        return self._show_page(form_page(form.form, url, form_id, form.findings), text, from_id)

    async def _fetch_form(self, url: HostUrl, source: UrlOrigin) -> PutForm | ResolveError:
        try:
            return await form_at(self._reader.resolver, url, origin=source.origin, referrer=source.referrer)
        except ResolveError as error:
            return error

    async def _look(self, request: Request) -> Answer:
        """Show a preview of the submission of a filled-in form: the bytes to send."""
        fields = get_form(request)
        pending = self._pending_forms.get(fields.get("form", ""))
        if pending is None:
            return redirect("/")
        text = pending.url.text
        answers = answers_from(pending.put.form, fields.items())
        try:
            url = pending.put.fill_in(answers)
        except (Refused, ValueError) as error:
            page = form_page(pending.put.form, pending.url, fields["form"], pending.put.findings, str(error))
            return self._show_page(page, text, "")
        plan = self._reader.plan(url, pending.source)
        if plan.error is not None:
            return self._show_outcome(request, plan.error, text, "", pending.source, "")
        octets = "".join(str(step["octets"]) for step in plan.steps if step["action"] == "send")
        filled_id = _store(self._session, self._filled_forms, _FilledForm(url, pending.source))
        return self._show_page(
            sending_page(pending.put.form, answers, pending.url, octets, filled_id), text, ""
        )

    async def _send(self, request: Request) -> Answer:
        """Submit a form once.

        A retry is not possible, because even a failed submission may have changed data on the server.
        """
        fields = get_form(request)
        filled = self._filled_forms.pop(fields.get("answers", ""), None)
        if filled is None:
            return redirect("/")
        work = partial(self._reader.fetch, filled.url, filled.source)
        result = await run_while_connected(request.receive, work)
        if result is None:
            return Answer(status_code=408)
        plan = make_planned_exchange(self._reader.plan(filled.url, filled.source))
        panel = self._history.make_panel(result.exchange, plan)
        return self._show_outcome(request, result.reply, filled.url.shown, "", filled.source, panel)


def _store(session: WebSession, values: OrderedDict[str, _Value], value: _Value) -> str:
    """Store a value and return its ID; discard the oldest values above the limit."""
    while len(values) >= _MAX_FORMS:
        values.popitem(last=False)
    values[value_id := session.add_link(SessionLink(None))] = value
    return value_id


# The names and passwords that the user typed on a page are stored in memory. A login is sent only to the
# scheme, host and port that requested the login (S11). A login is deleted when the run ends or the user
# discards it. Passwords are never displayed, written to a file, or inserted in a URL.

#: Maximum size in bytes of a name or password.
_MAX_CREDENTIAL = 4_096
#: The status code of a proxy that requires authentication (RFC 9110 15.5.8). Logins from a page are never
#: sent to a proxy.
_PROXY_STATUS = "407"


class _LoginForm(NamedTuple):
    """The data of a login form: the scheme, host and port for the credentials, and the URL to open."""

    place: Place
    text: str
    source: UrlOrigin


class TypedLogins:
    """The source of credentials. Logins from pages have priority over logins from the start of the run.

    `CredentialCache` describes `round`.
    """

    def __init__(self, initial: Given | None = None) -> None:
        self.round = 0
        self._logins: OrderedDict[Place, Credentials] = OrderedDict()
        self._untried: set[Place] = set()
        self._initial = None if initial is None else CredentialCache(initial)

    async def __call__(self, scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        login = self._logins.get((scheme, comparable_host(host), port))
        if login is not None and user in (None, login.user):
            return login
        return None if self._initial is None else await self._initial.request(scheme, host, port, user)

    @property
    def places(self) -> list[Place]:
        """Return the scheme, host and port of each stored login."""
        return list(self._logins)

    def store(self, place: Place, login: Credentials) -> None:
        """Store the login for a scheme, host and port, in place of an earlier login."""
        while len(self._logins) >= _MAX_FORMS:
            self.discard(next(iter(self._logins)))
        self._logins[place] = login
        self._untried.add(place)
        self.round += 1

    def discard(self, place: Place) -> None:
        """Discard a login; pooled connections with this login are not reused."""
        if self._logins.pop(place, None) is not None:
            self._untried.discard(place)
            self.round += 1

    def record_response(self, place: Place, *, denied: bool) -> None:
        """Record the first response after the user has typed a login, and discard a denied login."""
        if place in self._untried:
            self._untried.discard(place)
            if denied:
                self.discard(place)


def show_place(place: Place) -> str:
    scheme, host, port = place
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def get_place(url: HostUrl) -> Place:
    return url.scheme, comparable_host(url.host), url.effective_port


class LoginForms:
    """The login forms of one run."""

    def __init__(self, logins: TypedLogins, session: WebSession, policy: Policy) -> None:
        self._logins = logins
        self._session = session
        self._policy = policy
        self._pending_forms: OrderedDict[str, _LoginForm] = OrderedDict()
        self.routes = [
            Route("/login", self._store_login, methods=["POST"]),
            Route("/login/forget", self._discard_login, methods=["POST"]),
        ]

    def record_outcome(self, reply: object, text: str, source: UrlOrigin) -> LoginQuestion | None:
        """Record the outcome of a fetch; return a login form if the server requires a login."""
        if not isinstance(reply, ResolveError):
            url = _parse_url(getattr(reply, "url", ""))
            if url is not None:
                self._logins.record_response(get_place(url), denied=False)
            return None
        if not isinstance(reply, LoginRequired | AccessDenied):
            return None
        url = _parse_url(reply.url or text)
        if url is None or not _asks_login(reply) or getattr(url, "password", None) is not None:
            return None  # a password in the URL has priority over a login from a form
        place = get_place(url)
        has_login = place in self._logins.places
        if not (has_login or isinstance(reply, LoginRequired)):
            return None
        self._logins.record_response(place, denied=True)
        form_id = _store(self._session, self._pending_forms, _LoginForm(place, text, source))
        user = (getattr(url, "user", None) or b"").decode("utf-8", "replace")
        row = registry.find(url.scheme)
        secured = row is not None and row.tls == "always"
        in_clear = not may_send_early(url.host, self._policy, tls=secured)
        return LoginQuestion(form_id, show_place(place), user, in_clear, has_login)

    async def _store_login(self, request: Request) -> Answer:
        """Store the typed login for the scheme, host and port of the form.

        Fields of the request cannot change the scheme, host and port.
        """
        fields = get_form(request)
        login = self._pending_forms.pop(fields.get("login", ""), None)
        if login is None:
            return redirect("/")
        octets = partial(str.encode, encoding="utf-8", errors="surrogateescape")
        user, password = octets(fields.get("user", "")), octets(fields.get("password", ""))
        if user and max(len(user), len(password)) <= _MAX_CREDENTIAL:
            self._logins.store(login.place, Credentials(user, password))
        # A user who types a password for a page has confirmed that the page may be opened.
        source = login.source._replace(origin="chosen") if login.source.origin == "derived" else login.source
        return redirect(
            access.make_link(login.text, self._session.add_link(SessionLink(None, login.text, source)))
        )

    async def _discard_login(self, request: Request) -> Answer:
        text = get_form(request).get("place", "")
        for place in self._logins.places:
            if text in (show_place(place), "all"):
                self._logins.discard(place)
        return redirect("/settings")


def _asks_login(error: Declined) -> bool:
    """Return whether the server (not a proxy, code 407) may require a login, by the error code."""
    code = error.code
    return code is not None and code.isascii() and code.isdigit() and code != _PROXY_STATUS


def _parse_url(text: str) -> HostUrl | None:
    try:
        url = parse(text)
    except InvalidUrl:
        return None
    return url if isinstance(url, HostUrl) else None
