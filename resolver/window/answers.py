"""Pages as answers, whatever they are about."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response as Answer

from protocols.errors import ResolveError
from resolver.url import parse, redact
from resolver.window import addresses, headers
from resolver.window.keys import SessionKeys
from resolver.window.pages.page import Breadcrumb, PageAddressBar, PageFrame, WebPage
from resolver.window.pages.render import pieces, render
from resolver.window.streamed import StreamedPage

if TYPE_CHECKING:
    from resolver.warc.archive import Archive


class PageAnswers:
    """Those of one run, whose forms are proved by its keys."""

    def __init__(self, keys: SessionKeys, archive: Archive | None = None) -> None:
        self._keys = keys
        self._archive = archive

    def place(self, text: str, page_id: str, from_id: str = "") -> PageAddressBar:
        """Links of the page are found at `page_id`; asked again, it is from where it was before."""
        return PageAddressBar(
            redact(text),
            addresses.path(text),
            partial(addresses.found, from_id=page_id),
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
        archived = "" if self._archive is None else told_of(self._archive, address)
        frame = PageFrame(redact(address), crumbs, panel, failed, self._keys.csrf, from_id, archived)
        if not failed:
            return StreamedPage(piece.encode("utf-8", "replace") for piece in pieces(page, frame))
        return Answer(render(page, frame).encode("utf-8", "replace"), page.status, media_type=headers.HTML)


def told_of(archive: Archive, address: str) -> str:
    """Of what time a page is."""
    until = "" if archive.at is None else f", as of {archive.at:%Y-%m-%d %H:%M:%S} UTC"
    kept = ""
    if address:
        with suppress(ResolveError):
            kept = f"This was kept on {archive.find(parse(address)).date:%Y-%m-%d at %H:%M:%S} UTC. "
    return f"{kept}An archive is shown{until}: nothing comes from the network."


def answered_form(request: Request) -> dict[str, str]:
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
    return Answer(status_code=303, headers=headers.said("location", where))
