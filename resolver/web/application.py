"""The routes of the web UI, of the gateway for other clients, and of the content port.

Access control (`resolver.web.access`) checks each request before the routes. GET requests do not change
anything. Only POST requests from forms of the web UI change data.

The verdict of the policy depends on the origin of a URL:
- `user`: the URL was typed in the address bar of the web UI.
- `derived`: the URL is a link on a page. The referrer is the URL of that page.
- `chosen`: the user confirmed the URL in a preview, or opened it from another program.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response as Answer
from starlette.routing import Route, Router

from protocols.errors import InvalidUrl, ResolveError, UnsupportedScheme
from protocols.location import Referrer
from protocols.text import Masked, own_text
from resolver.policy.subject import Verdict
from resolver.transfer.response import Response
from resolver.url.parsing import redact
from resolver.url.suggestions import closest_url
from resolver.web import access, headers
from resolver.web.access import Receive, Scope, Send, SiteSettings, respond, serve_lifespan
from resolver.web.answers import PageAnswers, TraceHistory, get_form, get_query, get_query_pairs, redirect
from resolver.web.dialogue.drawing import render_panel
from resolver.web.dialogue.exchange import make_planned_exchange
from resolver.web.forms import FormQuestions, LoginForms
from resolver.web.pages.document import make_page
from resolver.web.pages.errors import error_page, find_kind
from resolver.web.pages.look import look_page
from resolver.web.pages.own import OpenedUrl
from resolver.web.pages.page import environment, find_parent, make_breadcrumbs, read_query, static_file
from resolver.web.reading import PageReader, ReadRequest, run_while_connected
from resolver.web.session import ContentDocument, SessionLink, UrlOrigin, WebSession

# The gateway for other clients. To use the gateway, the user configures a client with its address. The
# address contains a secret. The body of a response is the body of the target URL. If the policy refuses the
# URL, the response has an error status. The gateway refuses all requests from browsers, even from pages of
# the web UI.

_GATEWAY_PATH = b"/g/"


class GatewayAnswer(Answer):
    """A response with untrusted content. It has the same origin as the pages of the web UI.

    Its headers prevent a browser from running or displaying the content (XSS).
    """

    def __init__(self, content: bytes = b"", status: int = 200, media_type: str = headers.TEXT) -> None:
        super().__init__(content, status)
        self.headers.update(headers.make_gateway_headers(media_type))


class Gateway:
    """The route `GET /g/SECRET/{url}`; all characters of the URL must be percent-encoded."""

    def __init__(self, site: SiteSettings, reader: PageReader) -> None:
        self._site = site
        self._reader = reader

    async def answer(self, request: Request) -> GatewayAnswer:
        secret, _, rest = request.scope["raw_path"][len(_GATEWAY_PATH) :].partition(b"/")
        reason = self._find_refusal(request, secret.decode("latin-1"))
        if reason is not None:
            self._site.log(own_text(f"refused {request.method} /g/...: {reason}"))
            refused = GatewayAnswer(status=403)
            refused.headers["connection"] = "close"
            return refused
        text = access.parse_path(access.PREFIX + rest).text
        work = partial(self._reader.fetch, text, UrlOrigin("derived"))
        result = await run_while_connected(request.receive, work)
        if result is None:
            return GatewayAnswer(status=408)
        if isinstance(result.reply, ResolveError):
            words = f"{redact(text)}: {result.reply.message}\n".encode("utf-8", "replace")
            return GatewayAnswer(words, find_kind(result.reply).status)
        return GatewayAnswer(result.reply.content, media_type=result.reply.media_type or headers.OCTETS)

    def _find_refusal(self, request: Request, secret: str) -> str | None:
        """Return the reason to refuse the request, or None.

        Browsers do not send `Sec-Fetch-*` headers over http to an address other than loopback. Without
        `Sec-Fetch-*` headers, the session cookie identifies the browser of the web UI.
        """
        keys = self._site.keys
        names = [name for name in request.headers if name.startswith("sec-fetch-") or name == "origin"]
        if names:
            return str(names[0])
        if keys.has_session_cookie(value.encode("latin-1") for value in request.headers.getlist("cookie")):
            return "session cookie of the web UI"
        return None if keys.is_gateway_secret(secret) else "no valid secret"


_STATIC = {"window.css": headers.SHEET, "window.js": headers.SCRIPT}
#: Query fields that select another page, order or filter of a cached listing. The listing is not fetched
#: again.
_VIEW_FIELDS = frozenset({"page", "sort", "q"})
_TYPED_BY_HAND = (
    "This URL was typed behind /u/ by hand. A browser removes dot segments, a # with the text behind it, or "
    "a ? from such an address. Check that this is still the URL that you meant."
)


class WebApplication:
    """The ASGI application with the routes of all pages.

    Args:
        site: The settings of the web UI.
        session: The state of the run: cache, history and page IDs.
        reader: The reader, which checks and fetches URLs.
        content: The origin of the content port.
        size: The number of rows on a page.
        answers: A factory that creates page responses.
        own_routes: The routes of the pages that do not show a URL.
        logins: The login forms.
        gateway: The gateway for clients other than the browser.
    """

    def __init__(
        self,
        site: SiteSettings,
        session: WebSession,
        reader: PageReader,
        content: str,
        size: int,
        answers: PageAnswers,
        own_routes: Sequence[Route],
        logins: LoginForms,
        gateway: Gateway,
    ) -> None:
        self._site = site
        self._answers = answers
        self._session = session
        self._reader = reader
        self._content = content
        self._size = size
        self._logins = logins
        self._history = TraceHistory()
        self.router = Router(
            [
                *own_routes,
                *self._history.routes,
                *logins.routes,
                Route("/enter", self._enter),
                Route("/start", self._start, methods=["POST"]),
                Route("/look", self._look),
                Route("/go", self._go, methods=["POST"]),
                Route("/open", self._open, methods=["POST"]),
                Route("/u/{url:path}", self._show),
                Route("/g/{url:path}", gateway.answer),
                Route("/static/{name}", self._static),
                *FormQuestions(session, reader, self._history, answers.page, self._answer_outcome).routes,
            ],
            redirect_slashes=False,  # a redirect would contain the Host header of the request
        )

    def ask(self, text: str) -> str:
        """Return the page with a link to the preview of a URL from another site, without a request."""
        look = access.make_preview_link(text, access.EXTERNAL_ID) if text else "/"
        return environment().get_template("asked.html").render(url=redact(text), look=look)

    async def _enter(self, request: Request) -> Answer:
        """Exchange an entry token for the session cookie, and return a page that leads to the target URL.

        A redirect is not used. If the link to the entry address is in a file or on another site, browsers
        omit the cookie after a redirect (`SameSite`).
        """
        token = get_query(request).get("t", "")
        if request.method != "GET" or (url := self._site.keys.redeem(token)) is None:
            self._site.log(Masked("refused an entry: token missing, used or expired"))
            words = "This link was used or has expired. Start with: resolve serve --open\n"
            return Answer(words, 403, headers=dict(headers.NO_REFERRER), media_type=headers.TEXT)
        where = access.make_preview_link(url, access.EXTERNAL_ID) if url else "/"
        page = environment().get_template("entered.html").render(where=where)
        answer = Answer(page, media_type=headers.HTML)
        answer.headers["set-cookie"] = self._site.keys.cookie
        answer.headers.update(headers.NO_REFERRER)
        return answer

    async def _start(self, request: Request) -> Answer:
        """Return an entry token to another program of the user, which then starts the browser."""
        return Answer(self._site.keys.make_token(get_form(request).get("url", "")), media_type=headers.TEXT)

    async def _static(self, request: Request) -> Answer:
        name = request.path_params["name"]
        if name not in _STATIC:
            return Answer(status_code=404)
        return Answer(static_file(name), media_type=_STATIC[name])

    async def _look(self, request: Request) -> Answer:
        """Show the preview of a URL.

        The preview is for URLs from the address bar, and for URLs that a page must not open directly.
        """
        fields = get_query(request)
        text, from_id = fields.get("url", ""), fields.get("from", "")
        if not text:
            return redirect("/")
        if not from_id and request.headers.get("sec-fetch-site") == "same-origin":
            return self._answer_judged(text, UrlOrigin("user"))
        link = self._session.find_link(from_id)
        return self._answer_judged(text, UrlOrigin("chosen", None if link is None else link.referrer))

    async def _go(self, request: Request) -> Answer:
        """Open a URL that the user typed in the address bar, or redirect to its preview.

        In three cases, the browser is redirected to the preview: the policy does not allow the URL without a
        warning, the URL submits a form, or the user did not change the text in the address bar. An unchanged
        text may be a link from a page, and the policy allows more for typed URLs than for links.
        """
        form = get_form(request)
        text, source = form.get("url", ""), UrlOrigin("user")
        preview = redirect(f"/look?url={access.quote_whole(text)}")
        is_typed = _join_lines(text) != _join_lines(form.get("shown", ""))
        if "preview" in form or not is_typed or request.headers.get("sec-fetch-site") != "same-origin":
            return preview
        plan, verdict = self._reader.plan(text, source), self._reader.verdict(text, source)
        if plan.error is not None or _is_form(verdict) or {plan.verdict, verdict.action} != {"allow"}:
            return preview
        return redirect(access.make_link(text, self._session.add_link(SessionLink(None, text, source))))

    def _answer_judged(self, text: str, source: UrlOrigin, note: str | None = None) -> Answer:
        """Return the preview of a URL: its plan, its verdict, and a button to open it unless refused."""
        plan, verdict = self._reader.plan(text, source), self._reader.verdict(text, source)
        url = self._reader.url(text, source)
        from_id = self._session.add_link(SessionLink(None, text, source))
        hint = _find_suggestion(plan.error, text)
        # A URL that this preview suggests gets the same origin as the URL of the preview. If the origin has
        # no page ID, the origin is `user`.
        mark = (
            ""
            if hint is None or source.origin == "user"
            else self._session.add_link(SessionLink(source.referrer))
        )
        bar = self._answers.make_address_bar(text, mark)
        page = look_page(text, plan, verdict, url, bar, suggestion=hint, note=note)
        return self._answers.page(page, text, from_id, panel=render_panel(make_planned_exchange(plan)))

    async def _open(self, request: Request) -> Answer:
        """Open a URL that the user has confirmed.

        If the URL submits a form, the request is sent immediately. For any other URL, the browser is
        redirected to the page of the URL.
        """
        form = get_form(request)
        text, from_id = form.get("url", ""), form.get("from", "")
        link = self._session.find_link(from_id)
        if link is None or link.opens != text:
            return self._answer_judged(text, UrlOrigin("chosen"))
        if _is_form(self._reader.verdict(text, link.source)):
            return await self._answer_fetched(request, text, from_id, link.source)
        return redirect(access.make_link(text, from_id))

    async def _show(self, request: Request) -> Answer:
        address = access.parse_path(request.scope["raw_path"])
        if address.raw:
            return self._answer_judged(address.text, UrlOrigin("chosen"), _TYPED_BY_HAND)
        from_id = get_query(request).get("from", "")
        source = self._session.find_source(address.text, from_id)
        link = self._session.find_link(from_id)
        is_confirmed = link is not None and link.opens == address.text
        verdict = self._reader.verdict(address.text, source)
        if verdict.action != "allow" and not is_confirmed and self._may_be_confirmed(address.text, source):
            return redirect(access.make_preview_link(address.text, from_id or access.EXTERNAL_ID))
        if _is_form(verdict):  # a GET request must not submit a form
            return self._answer_judged(address.text, source)
        return await self._answer_fetched(request, address.text, from_id, source)

    def _may_be_confirmed(self, text: str, source: UrlOrigin) -> bool:
        """Return whether the policy allows the URL after a confirmation by the user."""
        return self._reader.verdict(text, UrlOrigin("chosen", source.referrer)).action != "refuse"

    async def _answer_fetched(self, request: Request, text: str, from_id: str, source: UrlOrigin) -> Answer:
        fields = get_query(request)
        query = read_query(get_query_pairs(request))
        read_request = ReadRequest(query.before, query.relevant)
        key = text, source, read_request
        listing = self._session.listings.find(key) if _VIEW_FIELDS & fields.keys() else None
        if listing is not None:
            return self._answer_outcome(request, listing, text, from_id, source)
        work = partial(self._reader.fetch, text, source, read_request)
        result = await run_while_connected(request.receive, work)
        if result is None:
            return Answer(status_code=408)  # the browser has disconnected
        if isinstance(result.reply, Response) and result.reply.entries is not None:
            self._session.listings.store(key, result.reply)
        plan = make_planned_exchange(self._reader.plan(text, source))
        panel = self._history.make_panel(result.exchange, plan)
        return self._answer_outcome(request, result.reply, text, from_id, source, panel)

    def _answer_outcome(
        self,
        request: Request,
        reply: Response | ResolveError,
        text: str,
        from_id: str,
        source: UrlOrigin,
        panel: str = "",
    ) -> Answer:
        """Return the page for a response or an error; `panel` is the HTML panel of the exchange."""
        url = self._reader.url(text, source)
        if isinstance(reply, ResolveError) or url is None:
            assert isinstance(reply, ResolveError), "an invalid URL has no response"
            above = None if url is None else find_parent(url)
            page_id = self._session.add_link(SessionLink(source.referrer))
            login = self._logins.record_outcome(reply, text, source)
            bar = self._answers.make_address_bar(text, page_id, from_id)
            hint = _find_suggestion(reply, text)
            page = error_page(reply, text, bar, parent=above, suggestion=hint, login=login)
            return self._answers.page(page, text, page_id, panel=panel)
        self._logins.record_outcome(reply, text, source)
        found_in = Referrer(reply.url, reply.peer)
        page_id = self._session.add_link(SessionLink(found_in))
        query = read_query(get_query_pairs(request), self._size)
        bar, judge = self._answers.make_address_bar(text, page_id, from_id), self._reader.make_judge(found_in)
        page = make_page(reply, url, query, bar, self._store_document, judge)
        self._session.visit(OpenedUrl(redact(text), page.title))
        href = partial(access.make_link, from_id=page_id)
        return self._answers.page(page, text, page_id, crumbs=make_breadcrumbs(url, href), panel=panel)

    def _store_document(self, content: bytes, media_type: str, name: str, inline: bool) -> str:
        """Store a document for the content port, and return its URL on this port."""
        safe = headers.make_file_name(name)
        document_id = self._session.store_document(ContentDocument(content, media_type, safe, inline))
        return f"{self._content}/d/{document_id}/{access.quote_whole(safe)}"


def _find_suggestion(error: ResolveError | None, text: str) -> str | None:
    """Return a valid URL that is similar to the text, or None if the error is about a redirect."""
    if not isinstance(error, InvalidUrl | UnsupportedScheme) or error.url not in (None, redact(text)):
        return None
    return closest_url(text)


def _join_lines(text: str) -> str:
    """Remove line ends, as browsers do in the address field (HTML, value sanitization algorithm)."""
    return text.replace("\r", "").replace("\n", "")


def _is_form(verdict: Verdict) -> bool:
    return "S05" in verdict.rules


# The content port serves untrusted documents from other servers at a separate origin (sandbox). The content
# port serves only stored documents, by random IDs that cannot be guessed, and ignores cookies. The
# Content-Security-Policy header blocks scripts and network requests of the documents.

_PREFIX = "/d/"


class ContentApplication:
    """The ASGI application of the content port. `authority` is the required value of the `Host` header."""

    def __init__(self, session: WebSession, authority: str) -> None:
        self._session = session
        self._authority = authority.encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await serve_lifespan(receive, send)
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return None
        document = self._find_document(scope)
        if document is None:
            return await respond(send, 404, b"", headers.TEXT, {"connection": "close", **headers.NO_REFERRER})
        disposition = headers.make_disposition(document.name, inline=document.inline)
        fields = {"content-disposition": disposition, **headers.NO_REFERRER}
        return await respond(send, 200, document.content, document.media_type, fields)

    def _find_document(self, scope: Scope) -> ContentDocument | None:
        hosts = [value for name, value in scope["headers"] if name.lower() == b"host"]
        path = scope["raw_path"].decode("latin-1")
        if scope["method"] not in ("GET", "HEAD") or scope["http_version"] not in ("1.0", "1.1"):
            return None
        if hosts != [self._authority] or not path.startswith(_PREFIX):
            return None
        return self._session.find_document(path[len(_PREFIX) :].partition("/")[0])
