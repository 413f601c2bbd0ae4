"""Pages as answers of any subject, streamed, and the dialogues of the last pages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response as Answer
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from protocols.errors import ResolveError
from resolver.url.parsing import parse, redact
from resolver.web import access as addresses
from resolver.web import headers
from resolver.web.dialogue.drawing import as_text, panel, svg
from resolver.web.dialogue.exchange import RecordedExchange
from resolver.web.headers import SessionKeys
from resolver.web.pages.page import Breadcrumb, PageAddressBar, PageFrame, WebPage, pieces, render
from resolver.web.session import new_id

if TYPE_CHECKING:
    from resolver.transfer.archives import ArchiveSource


# A page that is sent while it is made.
#
# The framework's own class is not used: it waits for the browser to close while it sends, and cancels itself
# within its last message, so that the server closes no connection and forgets to time idle ones.


class StreamedPage(Answer):
    """Whatever length it has."""

    def __init__(self, chunks: Iterable[bytes], media_type: str = headers.HTML) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for chunk in self._chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body"})


class PageAnswers:
    """Those of one run, whose forms are proved by its keys."""

    def __init__(self, keys: SessionKeys, archive: ArchiveSource | None = None) -> None:
        self._keys = keys
        self._archive = archive

    def place(self, text: str, page_id: str, from_id: str = "") -> PageAddressBar:
        """Links of the page are found at `page_id`; asked again, it is from where it was before."""
        return PageAddressBar(
            redact(text),
            addresses.path(text),
            partial(addresses.make_link, from_id=page_id),
            partial(addresses.look, from_id=page_id),
            from_id,
        )

    def page(
        self,
        page: WebPage,
        address: str = "",
        from_id: str = "",
        *,
        crumbs: tuple[Breadcrumb, ...] = (),
        panel: str = "",
    ) -> Answer:
        """A page that failed has its dialogue open."""
        failed = page.status != 200
        archived = "" if self._archive is None else describe_time(self._archive, address)
        frame = PageFrame(redact(address), crumbs, panel, failed, self._keys.csrf, from_id, archived)
        if not failed:
            return StreamedPage(piece.encode("utf-8", "replace") for piece in pieces(page, frame))
        return Answer(render(page, frame).encode("utf-8", "replace"), page.status, media_type=headers.HTML)


def describe_time(archive: ArchiveSource, address: str) -> str:
    """Of what time a page is."""
    until = "" if archive.at is None else f", as of {archive.at:%Y-%m-%d %H:%M:%S} UTC"
    kept = ""
    if address:
        with suppress(ResolveError):
            kept = f"This was kept on {archive.find(parse(address)).date:%Y-%m-%d at %H:%M:%S} UTC. "
    return f"{kept}An archive is shown{until}: nothing comes from the network."


def get_form(request: Request) -> dict[str, str]:
    """What the entrance read, and found to be sent by a form of ours."""
    form: dict[str, str] = request.scope["resolver.form"]
    return form


def query_of(request: Request) -> dict[str, str]:
    """The fields of an address of ours, as they came; of several with one name, the last."""
    return dict(pairs_of(request))


def pairs_of(request: Request) -> list[tuple[str, str]]:
    """All of them; none where they are more than anybody writes."""
    try:
        return addresses.form(request.scope["query_string"])
    except ValueError:
        return []


def see(where: str) -> Answer:
    """Another address of ours, made here."""
    return Answer(status_code=303, headers=headers.make_header("location", where))


# The dialogues of the last pages for download: the diagram, and the data that it is made of.

_MOST = 64

#: A dialogue as a file, by how its name ends.
_KINDS: dict[str, tuple[str, Callable[[RecordedExchange], str]]] = {
    "svg": (headers.SVG, svg),
    "json": (headers.JSON, as_text),
}


class TraceHistory:
    """Of one run. The oldest ones are forgotten."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, RecordedExchange] = OrderedDict()
        self.routes = [Route("/dialogue/{name}", self._answer)]

    def panel(self, said: RecordedExchange, plan: RecordedExchange) -> str:
        """What stands below a page."""
        while len(self._kept) >= _MOST:
            self._kept.popitem(last=False)
        self._kept[found := new_id()] = said
        return panel(said, plan, away=f"/dialogue/{found}")

    async def _answer(self, request: Request) -> Answer:
        found, _, kind = request.path_params["name"].partition(".")
        said = self._kept.get(found)
        if said is None or kind not in _KINDS:
            return Answer(status_code=404)
        media_type, made = _KINDS[kind]
        saved = headers.make_header(
            "content-disposition", headers.disposition(f"dialogue.{kind}", inline=False)
        )
        return Answer(made(said), media_type=media_type, headers=saved)
