"""What our pages' addresses answer. Whoever gets here was let in (`entrance`); a GET reads, and what acts is
a POST of a form of ours.

Who chose a URL decides what the policy lets it do: typed in our address bar it is the `user`'s; a link of a
page of ours is `derived`, found where that page is from; what a person looked at first, or brought from
elsewhere, is `chosen`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response as Answer
from starlette.routing import Route, Router

from protocols.errors import ResolveError
from protocols.location import Referrer
from resolver.policy.verdict import Verdict
from resolver.retrieval.response import Response
from resolver.url import redact
from resolver.window import addresses, headers
from resolver.window.answers import PageAnswers, answered_form, pairs_of, query_of, see
from resolver.window.dialogue.panel import panel
from resolver.window.dialogue.planned import planned
from resolver.window.entrance import SiteSettings
from resolver.window.gateway import Gateway
from resolver.window.logins import LoginForms
from resolver.window.pages.choice import page_of
from resolver.window.pages.crumbs import crumbs_of, parent_of
from resolver.window.pages.errors import error_page
from resolver.window.pages.look import look_page
from resolver.window.pages.own import OpenedUrl
from resolver.window.pages.page import read_query
from resolver.window.pages.render import environment, static_file
from resolver.window.questions import FormQuestions
from resolver.window.reading import PageReader, ReadRequest, while_wanted
from resolver.window.said import TraceHistory
from resolver.window.session import ContentDocument, SessionLink, UrlOrigin, WebSession

_STATIC = {"window.css": headers.SHEET, "window.js": headers.SCRIPT}
#: Fields of an address that ask for another part of a listing, in which it is not listed anew.
_ANOTHER_PAGE = frozenset({"page", "sort", "q"})
_TYPED_BY_HAND = (
    "This was typed behind /u/ by hand. A browser takes dots, a # and what follows, or a ? out of such an "
    "address before anybody sees it: see that it is still what was meant."
)


class WebApplication:
    """The pages of one run. `content` is where the content port is, `size` how many rows a page has."""

    def __init__(
        self,
        house: SiteSettings,
        session: WebSession,
        reading: PageReader,
        content: str,
        size: int,
        answers: PageAnswers,
        own: Sequence[Route],
        logins: LoginForms,
        gateway: Gateway,
    ) -> None:
        self._house = house
        self._answers = answers
        self._session = session
        self._reading = reading
        self._content = content
        self._size = size
        self._logins = logins
        self._said = TraceHistory()
        self.router = Router(
            [
                *own,
                *self._said.routes,
                *logins.routes,
                Route("/enter", self._enter),
                Route("/start", self._start, methods=["POST"]),
                Route("/look", self._look),
                Route("/open", self._open, methods=["POST"]),
                Route("/u/{url:path}", self._show),
                Route("/g/{url:path}", gateway.answer),
                Route("/static/{name}", self._static),
                *FormQuestions(session, reading, self._said, see, answers.page, self._told).routes,
            ],
            redirect_slashes=False,  # it would answer by the Host of the request
        )

    def ask(self, text: str) -> str:
        """The page that somebody else led the browser to; it needs no session, and nothing is sent."""
        look = addresses.look(text, addresses.ASKED) if text else "/"
        return environment().get_template("asked.html").render(url=redact(text), look=look)

    async def _enter(self, request: Request) -> Answer:
        """For a token the cookie, and on by a page of its own: the target of a redirect would not get the
        cookie where the browser came from a file or another site."""
        token = query_of(request).get("t", "")
        if request.method != "GET" or (url := self._house.keys.enter(token)) is None:
            self._house.tell("refused an entry: no token, or one that was used or is too old")
            words = "This way in was used, or is too old. Start with: resolve serve --open\n"
            return Answer(words, 403, headers=dict(headers.NO_REFERRER), media_type=headers.TEXT)
        where = addresses.look(url, addresses.ASKED) if url else "/"
        page = environment().get_template("entered.html").render(where=where)
        answer = Answer(page, media_type=headers.HTML)
        answer.headers["set-cookie"] = self._house.keys.cookie
        answer.headers.update(headers.NO_REFERRER)
        return answer

    async def _start(self, request: Request) -> Answer:
        """A token for another program of this person, which starts the browser."""
        return Answer(self._house.keys.token(answered_form(request).get("url", "")), media_type=headers.TEXT)

    async def _static(self, request: Request) -> Answer:
        name = request.path_params["name"]
        if name not in _STATIC:
            return Answer(status_code=404)
        return Answer(static_file(name), media_type=_STATIC[name])

    async def _look(self, request: Request) -> Answer:
        """What the address bar asks for, and what no page may open by itself."""
        asked = query_of(request)
        text, from_id = asked.get("url", ""), asked.get("from", "")
        if not text:
            return see("/")
        if not from_id and request.headers.get("sec-fetch-site") == "same-origin":
            return self._judged(text, UrlOrigin("user"))
        mark = self._session.marked(from_id)
        return self._judged(text, UrlOrigin("chosen", None if mark is None else mark.found))

    def _judged(self, text: str, way: UrlOrigin, note: str | None = None) -> Answer:
        """What is known of a URL before anything is sent, and a way to open it where nothing speaks against
        that."""
        plan, verdict = self._reading.plan(text, way), self._reading.verdict(text, way)
        url = self._reading.url(text, way)
        from_id = self._session.mark(SessionLink(None, text, way))
        page = look_page(text, plan, verdict, url, self._answers.place(text, ""), note=note)
        return self._answers.page(page, text, from_id, panel=panel(planned(plan)))

    async def _open(self, request: Request) -> Answer:
        """What a person decided to open. A form is sent here and now; all else is a page that can be come
        back to."""
        form = answered_form(request)
        text, from_id = form.get("url", ""), form.get("from", "")
        mark = self._session.marked(from_id)
        if mark is None or mark.opens != text:
            return self._judged(text, UrlOrigin("chosen"))
        if _is_form(self._reading.verdict(text, mark.way)):
            return await self._fetched(request, text, from_id, mark.way)
        return see(addresses.found(text, from_id))

    async def _show(self, request: Request) -> Answer:
        asked = addresses.asked(request.scope["raw_path"])
        if asked.raw:
            return self._judged(asked.text, UrlOrigin("chosen"), _TYPED_BY_HAND)
        from_id = query_of(request).get("from", "")
        way = self._session.way_to(asked.text, from_id)
        mark = self._session.marked(from_id)
        decided = mark is not None and mark.opens == asked.text
        verdict = self._reading.verdict(asked.text, way)
        if verdict.action != "allow" and not decided and self._may_be_decided(asked.text, way):
            return see(addresses.look(asked.text, from_id or addresses.ASKED))
        if _is_form(verdict):  # a GET only reads
            return self._judged(asked.text, way)
        return await self._fetched(request, asked.text, from_id, way)

    def _may_be_decided(self, text: str, way: UrlOrigin) -> bool:
        """Could a person who looks at it decide to open it?"""
        return self._reading.verdict(text, UrlOrigin("chosen", way.referrer)).action != "refuse"

    async def _fetched(self, request: Request, text: str, from_id: str, way: UrlOrigin) -> Answer:
        asked = query_of(request)
        query = read_query(pairs_of(request))
        wanted = ReadRequest(query.before, query.relevant)
        key = text, way, wanted
        kept = self._session.listings.find(key) if _ANOTHER_PAGE & asked.keys() else None
        if kept is not None:
            return self._told(request, kept, text, from_id, way)
        work = partial(self._reading.fetch, text, way, wanted)
        found = await while_wanted(request.receive, work)
        if found is None:
            return Answer(status_code=408)  # nobody reads it
        if isinstance(found.reply, Response) and found.reply.entries is not None:
            self._session.listings.keep(key, found.reply)
        said = self._said.panel(found.exchange, planned(self._reading.plan(text, way)))
        return self._told(request, found.reply, text, from_id, way, said)

    def _told(
        self,
        request: Request,
        reply: Response | ResolveError,
        text: str,
        from_id: str,
        way: UrlOrigin,
        said: str = "",
    ) -> Answer:
        """The page of what became of a URL; `said` is the dialogue's panel."""
        url = self._reading.url(text, way)
        if isinstance(reply, ResolveError) or url is None:
            assert isinstance(reply, ResolveError), "what is no URL has no reply"
            above = None if url is None else parent_of(url)
            mark = self._session.mark(SessionLink(way.referrer))
            login = self._logins.heard(reply, text, way)
            place = self._answers.place(text, mark, from_id)
            failed = error_page(reply, text, redact(text), place, parent=above, login=login)
            return self._answers.page(failed, text, mark, panel=said)
        self._logins.heard(reply, text, way)
        found_in = Referrer(reply.url, reply.peer)
        page_id = self._session.mark(SessionLink(found_in))
        query = read_query(pairs_of(request), self._size)
        place, judge = self._answers.place(text, page_id, from_id), self._reading.judging(found_in)
        page = page_of(reply, url, query, place, self._keep, judge)
        self._session.visit(OpenedUrl(redact(text), page.title))
        href = partial(addresses.found, from_id=page_id)
        return self._answers.page(page, text, page_id, crumbs=crumbs_of(url, href), panel=said)

    def _keep(self, content: bytes, media_type: str, name: str, inline: bool) -> str:
        """For the content port."""
        safe = headers.file_name(name)
        document_id = self._session.keep(ContentDocument(content, media_type, safe, inline))
        return f"{self._content}/d/{document_id}/{addresses.whole(safe)}"


def _is_form(verdict: Verdict) -> bool:
    return "S05" in verdict.rules
