"""What a person is asked on a page: words to search for, and the forms of others.

A form is asked for, looked at as it would be sent, and sent once, each by an address of its own, and only the
last by a POST that sends it (S05). What was typed stays here in between, and not on a page: some of it was
typed hidden.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TypeAlias, TypeVar

from starlette.requests import Request
from starlette.responses import Response as Answer
from starlette.routing import Route

from protocols.errors import InvalidUrl, Refused, ResolveError, UnsupportedScheme
from protocols.location import HostUrl, Url
from protocols.values import NamedTuple
from resolver.policy import judge
from resolver.policy.schemes import rules_of
from resolver.retrieval.form import PutForm, form_at
from resolver.retrieval.response import Response
from resolver.window import addresses
from resolver.window.answers import answered_form, pairs_of, query_of
from resolver.window.dialogue.planned import planned
from resolver.window.pages.form import answers_from, form_page, sending_page
from resolver.window.pages.page import WebPage, read_query
from resolver.window.pages.refining import refined
from resolver.window.reading import PageReader, while_wanted
from resolver.window.said import TraceHistory
from resolver.window.session import SessionLink, UrlOrigin, WebSession

#: Forms that are being filled in.
_MOST = 64

#: What the window does for them: go to an address, show a page about a URL, and show what became of one with
#: the dialogue's panel.
See: TypeAlias = Callable[[str], Answer]
Show: TypeAlias = Callable[[WebPage, str, str], Answer]
Tell: TypeAlias = Callable[[Request, "Response | ResolveError", str, str, UrlOrigin, str], Answer]

_Kept = TypeVar("_Kept")


class _PendingForm(NamedTuple):
    """A form that a server put, and the way that its URL came here."""

    put: PutForm
    url: HostUrl
    way: UrlOrigin


class _FilledForm(NamedTuple):
    """The URL that submits one, and the way of what a person typed."""

    url: Url
    way: UrlOrigin


class FormQuestions:
    """Of one run."""

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
        """The URL with the words in it is a link like any other of the page that it was asked on."""
        fields = query_of(request)
        text, from_id = fields.get("url", ""), fields.get("from", "")
        try:
            found = refined(text, "search", fields.get("words", ""))
        except (InvalidUrl, UnsupportedScheme, UnicodeEncodeError):
            return self._see(addresses.look(text, from_id))
        relevant = read_query(pairs_of(request)).relevant
        return self._see(addresses.found(found, from_id, relevant))

    async def _ask(self, request: Request) -> Answer:
        """The questions: only they are fetched, and not the item. No link leads here, so whoever asks pressed
        a button of ours, on the page of that URL."""
        fields = query_of(request)
        text, from_id = fields.get("url", ""), fields.get("from", "")
        way = UrlOrigin("chosen", self._session.way_to(text, from_id).referrer)
        url = self._reading.url(text, way)
        if not isinstance(url, HostUrl) or rules_of(url.scheme).form is None:
            return self._see(addresses.look(text, from_id))
        found = await while_wanted(request.receive, partial(self._put, url, way))
        if found is None:
            return Answer(status_code=408)  # nobody reads it
        if isinstance(found, ResolveError):
            return self._tell(request, found, text, from_id, way, "")
        blank, way = (
            found.specimen(),
            UrlOrigin("user", way.referrer),
        )  # what is sent, the person will have typed
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
        """What would be sent; nothing is."""
        fields = answered_form(request)
        asked = self._asked.get(fields.get("form", ""))
        if asked is None:
            return self._see("/")
        text = asked.url.text
        answers = answers_from(asked.put.form, fields.items())
        try:
            url = asked.put.filled(answers)
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
        """Once, whatever becomes of it: it may have changed something."""
        fields = answered_form(request)
        filled = self._filled.pop(fields.get("answers", ""), None)
        if filled is None:
            return self._see("/")
        work = partial(self._reading.fetch, filled.url, filled.way)
        found = await while_wanted(request.receive, work)
        if found is None:
            return Answer(status_code=408)
        said = self._said.panel(found.exchange, planned(self._reading.plan(filled.url, filled.way)))
        return self._tell(request, found.reply, filled.url.shown, "", filled.way, said)

    def _keep(self, kept: OrderedDict[str, _Kept], value: _Kept) -> str:
        """Its ID; the oldest ones make room."""
        while len(kept) >= _MOST:
            kept.popitem(last=False)
        kept[found := self._session.mark(SessionLink(None))] = value
        return found
