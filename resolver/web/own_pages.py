"""The pages of the web UI itself, and their form actions: help, settings, history, bookmarks, transfers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from starlette.requests import Request
from starlette.responses import Response as Answer
from starlette.routing import Route

from protocols.errors import LocalError
from resolver.web import headers
from resolver.web import session as bookmarks
from resolver.web.answers import PageAnswers, get_form, redirect
from resolver.web.forms import TypedLogins, show_place
from resolver.web.pages.own import (
    OpenedUrl,
    RuleRow,
    bookmarks_page,
    help_page,
    history_page,
    settings_page,
    start_page,
    transfers_page,
)
from resolver.web.pages.page import FactRow, parse_number
from resolver.web.session import WebSession
from resolver.web.transfers import TransferQueue

Schemes: TypeAlias = "Sequence[tuple[str, str]]"


class OwnPageFacts(NamedTuple):
    """The data for the help and settings pages: policy rules, exit codes, settings."""

    rules: Sequence[RuleRow] = ()
    statuses: Mapping[int, str] = {}
    settings: Sequence[FactRow] = ()


class OwnPages:
    """The routes of the pages of the web UI itself: help, settings, history, bookmarks, transfers."""

    def __init__(
        self,
        answers: PageAnswers,
        session: WebSession,
        transfers: TransferQueue,
        facts: OwnPageFacts,
        schemes: Schemes,
        logins: TypedLogins,
    ) -> None:
        self._answers = answers
        self._session = session
        self._transfers = transfers
        self._facts = facts
        self._schemes = schemes
        self._logins = logins
        self.routes = [
            Route("/", self._start),
            Route("/help", self._help),
            Route("/settings", self._settings),
            Route("/history", self._history),
            Route("/history", self._clear_history, methods=["POST"]),
            Route("/bookmarks", self._bookmarks),
            Route("/bookmarks", self._change_bookmarks, methods=["POST"]),
            Route("/transfers", self._show_transfers),
            Route("/transfers", self._change_transfers, methods=["POST"]),
            Route("/save", self._save, methods=["POST"]),
        ]

    async def _start(self, request: Request) -> Answer:
        bar = self._answers.make_address_bar("", "")
        return self._answers.page(start_page(bar, self._list_newest(), self._schemes))

    async def _help(self, request: Request) -> Answer:
        return self._answers.page(help_page(self._facts.rules, self._facts.statuses))

    async def _settings(self, request: Request) -> Answer:
        places = map(show_place, self._logins.places)
        return self._answers.page(settings_page(self._facts.settings, places))

    async def _history(self, request: Request) -> Answer:
        return self._answers.page(history_page(self._answers.make_address_bar("", ""), self._list_newest()))

    async def _clear_history(self, request: Request) -> Answer:
        self._session.history = []
        return redirect("/history")

    def _list_newest(self) -> list[OpenedUrl]:
        return self._session.history[::-1]

    async def _bookmarks(self, request: Request) -> Answer:
        try:
            saved = bookmarks.read_bookmarks()
        except LocalError as error:
            return _answer_failed(error)
        return self._answers.page(bookmarks_page(self._answers.make_address_bar("", ""), saved))

    async def _change_bookmarks(self, request: Request) -> Answer:
        form = get_form(request)
        try:
            if "remove" in form:
                bookmarks.remove_bookmark(form["remove"])
            elif form.get("url"):
                bookmarks.add_bookmark(form["url"], form.get("title", ""))
        except LocalError as error:
            return _answer_failed(error)
        return redirect("/bookmarks")

    async def _show_transfers(self, request: Request) -> Answer:
        bar, transfers = self._answers.make_address_bar("", ""), self._transfers
        complaint = await transfers.recall()
        return self._answers.page(transfers_page(bar, transfers.all, transfers.change, complaint))

    async def _change_transfers(self, request: Request) -> Answer:
        form = get_form(request)
        await self._transfers.recall()
        if form.get("pause") == "all":
            self._transfers.pause(None)
        self._transfers.pause(parse_number(form.get("pause", "")))
        self._transfers.resume(parse_number(form.get("resume", "")))
        self._transfers.stop(parse_number(form.get("stop", "")))
        return redirect("/transfers")

    async def _save(self, request: Request) -> Answer:
        """Start a transfer for a save button; the URL has the origin of the link next to the button."""
        form = get_form(request)
        url = form.get("url", "")
        if url:
            path = url.partition("#")[0].rstrip("/").rpartition("/")[2]
            source = self._session.find_source(url, form.get("from", "") or "forgotten")
            await self._transfers.recall()
            self._transfers.begin(url, headers.make_file_name(path.partition("?")[0]), source)
        return redirect("/transfers")


def _answer_failed(error: LocalError) -> Answer:
    return Answer(f"{error.message}\n", 500, media_type=headers.TEXT)
