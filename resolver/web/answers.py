"""Pages as streaming HTTP responses, and downloads of the protocol exchanges of recent pages."""

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
from resolver.web import access, headers
from resolver.web.dialogue.drawing import encode_json, render_panel, render_svg
from resolver.web.dialogue.exchange import RecordedExchange
from resolver.web.headers import SessionKeys
from resolver.web.pages.page import Breadcrumb, PageAddressBar, PageFrame, WebPage, pieces, render
from resolver.web.session import new_id

if TYPE_CHECKING:
    from resolver.transfer.archives import ArchiveSource


# A page is sent while it is generated.
#
# Starlette's `StreamingResponse` is not used. `StreamingResponse` waits for a disconnect while it sends, and
# is cancelled during its last message. As a result, Hypercorn would never close the connection or apply its
# idle timeout.


class StreamedPage(Answer):
    """A response with a page of unknown length, sent in chunks."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        super().__init__(media_type=headers.HTML)
        del self.headers["content-length"]
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for chunk in self._chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body"})


class PageAnswers:
    """The page responses of a run. All forms in the pages have CSRF tokens."""

    def __init__(self, keys: SessionKeys, archive: ArchiveSource | None = None) -> None:
        self._keys = keys
        self._archive = archive

    def make_address_bar(self, text: str, page_id: str, from_id: str = "") -> PageAddressBar:
        """Return the address bar of a page.

        Args:
            text: The URL that the page shows.
            page_id: ID of the page; the links on the page contain this ID.
            from_id: ID of the page that contained the link to this page. A reload of the page uses the same
                ID.
        """
        return PageAddressBar(
            redact(text),
            access.make_path(text),
            partial(access.make_link, from_id=page_id),
            partial(access.make_preview_link, from_id=page_id),
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
        """Return the response for a page. On an error page, the panel of the protocol exchange is open."""
        is_error = page.status != 200
        archived = "" if self._archive is None else describe_time(self._archive, address)
        frame = PageFrame(redact(address), crumbs, panel, is_error, self._keys.make_csrf, from_id, archived)
        if not is_error:
            return StreamedPage(piece.encode("utf-8", "replace") for piece in pieces(page, frame))
        return Answer(render(page, frame).encode("utf-8", "replace"), page.status, media_type=headers.HTML)


def describe_time(archive: ArchiveSource, address: str) -> str:
    """Return a sentence with the capture date of an archived page."""
    until = "" if archive.at is None else f", as of {archive.at:%Y-%m-%d %H:%M:%S} UTC"
    captured = ""
    if address:
        with suppress(ResolveError):
            captured = f"Captured on {archive.find(parse(address)).date:%Y-%m-%d at %H:%M:%S} UTC. "
    return f"{captured}Pages come from an archive{until}, without network access."


def get_form(request: Request) -> dict[str, str]:
    """Return the form fields of a request, which access control has read and checked (CSRF)."""
    form: dict[str, str] = request.scope["resolver.form"]
    return form


def get_query(request: Request) -> dict[str, str]:
    """Return the query fields of a request by name; the last value of a repeated name counts."""
    return dict(get_query_pairs(request))


def get_query_pairs(request: Request) -> list[tuple[str, str]]:
    """Return all query fields in order, or an empty list if there are too many fields."""
    try:
        return access.parse_form(request.scope["query_string"])
    except ValueError:
        return []


def redirect(path: str) -> Answer:
    """Return a redirect (status 303) to another path of the web UI."""
    return Answer(status_code=303, headers=headers.make_header("location", path))


# The protocol exchanges of recent pages can be downloaded as a diagram and as JSON.

_MAX_EXCHANGES = 64

#: The download formats of a protocol exchange by file name extension.
_FORMATS: dict[str, tuple[str, Callable[[RecordedExchange], str]]] = {
    "svg": (headers.SVG, render_svg),
    "json": (headers.JSON, encode_json),
}


class TraceHistory:
    """The recorded protocol exchanges of the last 64 pages."""

    def __init__(self) -> None:
        self._exchanges: OrderedDict[str, RecordedExchange] = OrderedDict()
        self.routes = [Route("/dialogue/{name}", self._answer)]

    def make_panel(self, exchange: RecordedExchange, plan: RecordedExchange) -> str:
        """Store a protocol exchange, and return its HTML panel for the bottom of the page."""
        while len(self._exchanges) >= _MAX_EXCHANGES:
            self._exchanges.popitem(last=False)
        self._exchanges[exchange_id := new_id()] = exchange
        return render_panel(exchange, plan, away=f"/dialogue/{exchange_id}")

    async def _answer(self, request: Request) -> Answer:
        exchange_id, _, format_name = request.path_params["name"].partition(".")
        exchange = self._exchanges.get(exchange_id)
        if exchange is None or format_name not in _FORMATS:
            return Answer(status_code=404)
        media_type, encode = _FORMATS[format_name]
        disposition = headers.make_header(
            "content-disposition", headers.make_disposition(f"dialogue.{format_name}", inline=False)
        )
        return Answer(encode(exchange), media_type=media_type, headers=disposition)
