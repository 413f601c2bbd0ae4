"""What becomes of transfers, told to the page that shows them as it happens (server-sent events, WHATWG HTML
9.2): their rows, and no more.

A stream ends when nothing is under way, when its browser leaves, when the server stops, and after a while in
any case: a browser comes back by itself, says how far it heard, and is told with 204 that it need not come
again. Browsers have six connections to a place, and six streams would stop every page of ours; so of more
than four the oldest ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial

import trio
from starlette.requests import Request
from starlette.responses import Response as Answer
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from resolver.terminal import escape_controls
from resolver.window import headers
from resolver.window.answers import PageAnswers, query_of
from resolver.window.pages.own import SavedTransfer, transfer_shown
from resolver.window.pages.page import PageAddressBar
from resolver.window.reading import while_wanted
from resolver.window.transfers import TransferQueue

#: Streams at a time.
MOST = 4
#: Seconds between two messages at least; of silence, until a comment shows whether anybody is there; and of
#: one stream.
PACE = 0.25
_SILENCE = 15.0
_LASTS = 600.0
#: Milliseconds in which a browser comes back.
_RETRY = 2_000


class TransferEvents:
    """Of one run."""

    def __init__(self, transfers: TransferQueue, answers: PageAnswers) -> None:
        self._transfers = transfers
        self._answers = answers
        self._open: dict[_EventStream, None] = {}
        self.routes = [Route("/transfers/events", self._answer)]

    def end(self) -> None:
        """The server stops."""
        self._end(len(self._open))

    def _end(self, count: int) -> None:
        for stream in list(self._open)[:count]:
            stream.is_over = True
            del self._open[stream]
        self._transfers.wake()

    async def _answer(self, request: Request) -> Answer:
        since = _number(request.headers.get("last-event-id") or query_of(request).get("since", ""))
        transfers = self._transfers
        if request.method != "GET" or not (transfers.are_under_way or transfers.since(since)):
            return Answer(status_code=204)  # by which a browser knows that there is nothing to wait for
        self._end(max(0, len(self._open) + 1 - MOST))
        stream = _EventStream(transfers, self._answers.place("", ""), since, self._open)
        self._open[stream] = None
        return stream


class _EventStream(Answer):
    """One of them, among those that are `open`; it tells what changed behind the change `since`."""

    def __init__(
        self, transfers: TransferQueue, place: PageAddressBar, since: int, open_: dict[_EventStream, None]
    ) -> None:
        super().__init__(media_type=headers.EVENTS)
        del self.headers["content-length"]
        self._transfers = transfers
        self._place = place
        self._since = since
        self._among = open_
        self.is_over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            if await while_wanted(receive, partial(self._tell, send)):
                await send({"type": "http.response.body"})
        finally:
            self._among.pop(self, None)

    async def _tell(self, send: Send) -> bool:
        """Until nothing more is to be told here; true then."""
        transfers, ends = self._transfers, trio.current_time() + _LASTS
        await _say(send, f"retry: {_RETRY}\n\n")
        while True:
            news = transfers.news  # taken first: a change that comes while this is sent is not missed
            if changed := transfers.since(self._since):
                self._since = transfers.change
                await _say(send, _message(self._since, changed, self._place))
            if self.is_over or trio.current_time() >= ends:
                return True
            if not transfers.are_under_way and self._since == transfers.change:
                return True
            with trio.move_on_after(_SILENCE) as silence:
                await news.wait()
            if silence.cancelled_caught:
                await _say(send, ": nothing new\n\n")
            if not self.is_over:
                await trio.sleep(PACE)


async def _say(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode("ascii"), "more_body": True})


def _message(change: int, changed: Iterable[SavedTransfer], place: PageAddressBar) -> str:
    rows = [_row(each, place) for each in changed]
    return f"id: {change}\ndata: {json.dumps(rows)}\n\n"


def _row(one: SavedTransfer, place: PageAddressBar) -> dict[str, object]:
    shown = transfer_shown(one, place)
    return {
        "number": shown.number,
        "name": escape_controls(shown.name),
        "state": shown.state,
        "amount": shown.amount,
        "percent": shown.percent,
        "rate": shown.rate,
        "proofs": escape_controls(shown.proofs),
        "error": escape_controls(shown.error),
        "buttons": shown.buttons,
    }


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
