"""Markup of exchanges: the panel beside a page, a page that stands alone, files to take away."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from protocols.values import NamedTuple
from resolver.window.dialogue.drawing import Drawing, draw, milliseconds
from resolver.window.dialogue.exchange import DiagramLane, DiagramMessage, Kind, Place, RecordedExchange
from resolver.window.dialogue.words import counted
from resolver.window.pages.render import environment

_NONE = "–"
#: Messages whose words were on the wire; the words of a plan for what would come are ours.
_ON_THE_WIRE: frozenset[Kind] = frozenset({"say", "hear", "body", "ask", "answer"})
_PLANNED: frozenset[Kind] = frozenset({"say"})


class MessageRow(NamedTuple):
    """A message in the table: `way` says from whom to whom."""

    at: str
    way: str
    lines: tuple[str, ...]
    kind: str
    tag: str


class ExchangePanel(NamedTuple):
    """An exchange with all that is made of it; `name` is told to nobody and stands once on a page."""

    exchange: RecordedExchange
    drawing: Drawing
    rows: tuple[MessageRow, ...]
    ended: str
    name: str


class _PanelSection(NamedTuple):
    name: str
    url: str
    shown: tuple[ExchangePanel, ...]


def panel(*exchanges: RecordedExchange, away: str = "") -> str:
    """What stands on a page: the dialogue, and the plan beside it. `away` is the address at which the first
    is to be had as a file, without how its name ends."""
    return _render("exchange.html", {"shown": _shown(exchanges, "dialogue"), "away": away})


def svg(exchange: RecordedExchange) -> str:
    """A file that shows the diagram wherever it is opened."""
    return _render("exchange.svg", {"drawing": draw(exchange)}).lstrip()


def as_text(exchange: RecordedExchange) -> str:
    """JSON; its members are those of `resolver.window.dialogue.exchange`."""
    return json.dumps(exchange.as_json(), ensure_ascii=False, indent=1) + "\n"


def page(sections: Sequence[tuple[RecordedExchange, ...]], heading: str, *, left_out: int = 0) -> str:
    """A page that needs nothing else, with a section for each URL: its own stylesheet, no script, and a
    policy that allows neither another sheet nor anything from elsewhere."""
    sheet = _render("exchange_page.css", {})
    made = tuple(
        _PanelSection(f"url-{number}", each[0].url, _shown(each, f"d{number}"))
        for number, each in enumerate(sections, 1)
        if each
    )
    title = made[0].url if len(made) == 1 else counted(len(made) + left_out, "URL")
    subtitle = "A URL, and what it takes to get it." if len(made) == 1 else title
    if left_out:
        subtitle += f", of which {left_out:,} are left out in the middle"
    values = {
        "title": f"{heading}: {title}",
        "heading": heading,
        "subtitle": subtitle,
        "sections": made,
        "digest": b64encode(sha256(sheet.encode()).digest()).decode(),
    }
    return _render("exchange_page.html", values).lstrip()


def rows(exchange: RecordedExchange) -> tuple[MessageRow, ...]:
    """The table that says what the diagram shows, in the same order."""
    names = {lane.place: lane for lane in exchange.lanes}
    told = _PLANNED if exchange.kind == "plan" else _ON_THE_WIRE
    return tuple(_row(message, names, told) for message in exchange.messages)


def _row(message: DiagramMessage, lanes: dict[Place, DiagramLane], wire: frozenset[Kind]) -> MessageRow:
    lines = message.lines if message.size is None else (counted(message.size), *message.lines)
    at = _NONE if message.at is None else milliseconds(message.at)
    tag = "code" if message.kind in wire else "span"
    return MessageRow(at, _way(message, lanes), lines, message.kind, tag)


def _way(message: DiagramMessage, lanes: dict[Place, DiagramLane]) -> str:
    if message.source is None or message.target is None:
        return _NONE
    words = {"client": "client", "server": "server", "data": "data", "names": "names"}
    if message.source == message.target:
        return words[message.source]
    between = f"{words[message.source]} → {words[message.target]}"
    return f"{between}, in TLS" if message.secured else between


def _shown(exchanges: Iterable[RecordedExchange], name: str) -> tuple[ExchangePanel, ...]:
    return tuple(
        ExchangePanel(each, draw(each), rows(each), _ended(each), f"{name}-{number}")
        for number, each in enumerate(exchanges, 1)
    )


def _ended(exchange: RecordedExchange) -> str:
    if exchange.outcome is None:
        return ""
    if exchange.kind == "plan":
        return f"verdict: {exchange.outcome}"
    if exchange.elapsed is None:
        return exchange.outcome
    return f"{exchange.outcome}, after {milliseconds(exchange.elapsed)} ms"


def _render(template: str, values: Mapping[str, object]) -> str:
    return environment().get_template(template).render(values)
