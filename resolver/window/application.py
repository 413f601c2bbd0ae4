"""What our pages' addresses answer. Whoever gets here was let in (`entrance`); a GET reads, and what acts is
a POST of a form of ours.

Who chose a URL decides what the policy lets it do: typed in our address bar it is the `user`'s; a link of a
page of ours is `derived`, found where that page is from; what a person looked at first, or brought from
elsewhere, is `chosen`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import Response as Answer
from starlette.routing import Route, Router

from protocols.errors import ResolveError
from protocols.location import Referrer
from resolver import registry
from resolver.retrieval.response import Response
from resolver.url import redact
from resolver.window import addresses, headers
from resolver.window.entrance import House
from resolver.window.pages.choice import page_of
from resolver.window.pages.crumbs import crumbs_of, parent_of
from resolver.window.pages.errors import error_page
from resolver.window.pages.look import look_page
from resolver.window.pages.own import Opened, history_page, start_page
from resolver.window.pages.page import Frame, Page, Place, read_query
from resolver.window.pages.render import environment, pieces, render, static_file
from resolver.window.questions import Questions
from resolver.window.reading import Reading, while_wanted
from resolver.window.session import Document, Mark, Session, Way
from resolver.window.streamed import Streamed

_STATIC = {"window.css": headers.SHEET, "window.js": headers.SCRIPT}
_TYPED_BY_HAND = (
    "This was typed behind /u/ by hand. A browser takes dots, a # and what follows, or a ? out of such an "
    "address before anybody sees it: see that it is still what was meant."
)


class Window:
    """The pages of one run. `content` is where the content port is, `size` how many rows a page has."""

    def __init__(self, house: House, session: Session, reading: Reading, content: str, size: int) -> None:
        self._house = house
        self._session = session
        self._reading = reading
        self._content = content
        self._size = size
        self.router = Router(
            [
                Route("/", self._start),
                Route("/enter", self._enter),
                Route("/look", self._look),
                Route("/open", self._open, methods=["POST"]),
                Route("/u/{url:path}", self._show),
                Route("/history", self._history),
                Route("/history", self._forget, methods=["POST"]),
                Route("/static/{name}", self._static),
                *Questions(session, reading, _see, self._about, self._told).routes,
            ],
            redirect_slashes=False,  # it would answer by the Host of the request
        )

    def ask(self, text: str) -> str:
        """The page that somebody else led the browser to; it needs no session, and nothing is sent."""
        look = addresses.look(text, addresses.ASKED) if text else "/"
        return environment().get_template("asked.html").render(url=redact(text), look=look)

    async def _start(self, request: Request) -> Answer:
        rows = ((name, registry.find(name)) for name in sorted(registry.SCHEMES))
        schemes = [(name, row.names) for name, row in rows if row is not None]
        return self._answer(start_page(self._place("", ""), self._newest(), schemes), self._frame(""))

    async def _history(self, request: Request) -> Answer:
        return self._answer(history_page(self._place("", ""), self._newest()), self._frame(""))

    async def _forget(self, request: Request) -> Answer:
        self._session.history = []
        return _see("/history")

    def _newest(self) -> list[Opened]:
        return self._session.history[::-1]

    async def _enter(self, request: Request) -> Answer:
        """For a token the cookie, and on by a page of its own: the target of a redirect would not get the
        cookie where the browser came from a file or another site."""
        asked = _query(request)
        if request.method != "GET" or not self._house.keys.enter(asked.get("t", "")):
            self._house.tell("refused an entry: no token, or one that was used or is too old")
            words = "This way in was used, or is too old. Start with: resolve serve --open\n"
            return Answer(words, 403, headers=dict(headers.NO_REFERRER), media_type=headers.TEXT)
        where = addresses.look(asked["url"], addresses.ASKED) if asked.get("url") else "/"
        page = environment().get_template("entered.html").render(where=where)
        answer = Answer(page, media_type=headers.HTML)
        answer.headers["set-cookie"] = self._house.keys.cookie
        answer.headers.update(headers.NO_REFERRER)
        return answer

    async def _static(self, request: Request) -> Answer:
        name = request.path_params["name"]
        if name not in _STATIC:
            return Answer(status_code=404)
        return Answer(static_file(name), media_type=_STATIC[name])

    async def _look(self, request: Request) -> Answer:
        """What the address bar asks for, and what no page may open by itself."""
        asked = _query(request)
        text, from_id = asked.get("url", ""), asked.get("from", "")
        if not text:
            return _see("/")
        if not from_id and request.headers.get("sec-fetch-site") == "same-origin":
            return self._judged(text, Way("user"))
        mark = self._session.marked(from_id)
        return self._judged(text, Way("chosen", None if mark is None else mark.found))

    def _judged(self, text: str, way: Way, note: str | None = None) -> Answer:
        """What is known of a URL before anything is sent, and a way to open it where nothing speaks against
        that."""
        plan, verdict = self._reading.plan(text, way), self._reading.verdict(text, way)
        url = self._reading.url(text, way)
        from_id = self._session.mark(Mark(None, text, way))
        page = look_page(text, plan, verdict, url, self._place(text, ""), note=note)
        return self._answer(page, self._frame(text, from_id))

    async def _open(self, request: Request) -> Answer:
        """What a person decided to open. A form is sent here and now; all else is a page that can be come
        back to."""
        form: dict[str, str] = request.scope["resolver.form"]
        text, from_id = form.get("url", ""), form.get("from", "")
        mark = self._session.marked(from_id)
        if mark is None or mark.opens != text:
            return self._judged(text, Way("chosen"))
        if self._is_form(text, mark.way):
            return await self._fetched(request, text, from_id, mark.way)
        return _see(addresses.found(text, from_id))

    async def _show(self, request: Request) -> Answer:
        asked = addresses.asked(request.scope["raw_path"])
        if asked.raw:
            return self._judged(asked.text, Way("chosen"), _TYPED_BY_HAND)
        from_id = _query(request).get("from", "")
        way = self._session.way_to(asked.text, from_id)
        mark = self._session.marked(from_id)
        decided = mark is not None and mark.opens == asked.text
        if not decided and self._needs_a_look(asked.text, way):
            return _see(addresses.look(asked.text, from_id or addresses.ASKED))
        if self._is_form(asked.text, way):  # a GET only reads
            return self._judged(asked.text, way)
        return await self._fetched(request, asked.text, from_id, way)

    def _needs_a_look(self, text: str, way: Way) -> bool:
        """Does the policy want a person to look, who could then decide for it?"""
        if self._reading.verdict(text, way).action == "allow":
            return False
        return self._reading.verdict(text, Way("chosen", way.referrer)).action != "refuse"

    def _is_form(self, text: str, way: Way) -> bool:
        return "S05" in self._reading.verdict(text, way).rules

    async def _fetched(self, request: Request, text: str, from_id: str, way: Way) -> Answer:
        work: Callable[[], Awaitable[Response | ResolveError]] = partial(self._reading.fetch, text, way)
        found = await while_wanted(request.receive, work)
        if found is None:
            return Answer(status_code=408)  # nobody reads it
        return self._told(request, found, text, from_id, way)

    def _told(
        self, request: Request, found: Response | ResolveError, text: str, from_id: str, way: Way
    ) -> Answer:
        """The page of what became of a URL."""
        url = self._reading.url(text, way)
        if isinstance(found, ResolveError) or url is None:
            assert isinstance(found, ResolveError), "what is no URL has no reply"
            above = None if url is None else parent_of(url)
            mark = self._session.mark(Mark(way.referrer))
            page = error_page(found, text, redact(text), self._place(text, mark, from_id), parent=above)
            return self._answer(page, self._frame(text, mark, open_=True))
        page_id = self._session.mark(Mark(Referrer(found.url, found.peer)))
        query = read_query(_query(request).items(), self._size)
        page = page_of(found, url, query, self._place(text, page_id, from_id), self._keep)
        self._session.visit(Opened(redact(text), page.title))
        frame = self._frame(text, page_id)
        href = partial(addresses.found, from_id=page_id)
        return self._answer(page, frame._replace(crumbs=crumbs_of(url, href)))

    def _about(self, page: Page, text: str, from_id: str) -> Answer:
        return self._answer(page, self._frame(text, from_id))

    def _keep(self, content: bytes, media_type: str, name: str, inline: bool) -> str:
        """For the content port."""
        safe = headers.file_name(name)
        document_id = self._session.keep(Document(content, media_type, safe, inline))
        return f"{self._content}/d/{document_id}/{addresses.whole(safe)}"

    def _place(self, text: str, page_id: str, from_id: str = "") -> Place:
        """Links of the page are found at `page_id`; asked again, it is from where it was before."""
        return Place(
            redact(text),
            addresses.path(text),
            partial(addresses.found, from_id=page_id),
            partial(addresses.look, from_id=page_id),
            from_id,
        )

    def _frame(self, address: str, from_id: str = "", *, open_: bool = False) -> Frame:
        return Frame(redact(address), panel_open=open_, csrf=self._house.keys.csrf, from_id=from_id)

    def _answer(self, page: Page, frame: Frame) -> Answer:
        if page.status == 200:
            return Streamed(piece.encode("utf-8", "replace") for piece in pieces(page, frame))
        return Answer(render(page, frame).encode("utf-8", "replace"), page.status, media_type=headers.HTML)


def _query(request: Request) -> dict[str, str]:
    """The fields of an address of ours, as they came; none where they are more than anybody writes."""
    try:
        return dict(addresses.form(request.scope["query_string"]))
    except ValueError:
        return {}


def _see(where: str) -> Answer:
    """Another address of ours, made here."""
    return Answer(status_code=303, headers=headers.said("location", where))
