"""A protocol exchange as a sequence diagram (SVG), and the HTML panel with diagram and table.

Each side of the protocol exchange is a vertical lifeline (lane), and time runs from top to bottom. Shapes are
styled only by attributes and classes, because the Content-Security-Policy of the pages blocks `style=`. The
color of the shapes is the text color (`currentColor`).
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from protocols.text import Masked, format_count
from resolver.web.dialogue.exchange import (
    DiagramLane,
    DiagramMessage,
    Kind,
    Place,
    RecordedExchange,
    estimate_width,
    truncate,
    wrap_text,
)
from resolver.web.pages.page import environment

#: The dimensions of the diagram in SVG user units (pixels if the diagram is not scaled): the height of a text
#: line, and the distances between lanes. The distances are wide enough for the longest line.
LINE = 16
_FIRST_X = 98
_LANE_GAP = 470
_NEXT_GAP = 118
_TIME_X = 58
_TOP_Y = 64
_NOTE_CELLS = 56


Point: TypeAlias = tuple[float, float]


class SvgShape(NamedTuple):
    """An SVG element: tag, attributes and text."""

    tag: str
    attributes: tuple[tuple[str, str], ...]
    text: str = ""


class Drawing(NamedTuple):
    """A complete diagram; `title` and `summary` are for screen readers."""

    width: int
    height: int
    title: str
    summary: str
    shapes: tuple[SvgShape, ...]


def draw(exchange: RecordedExchange) -> Drawing:
    return _DiagramCanvas(exchange).drawing()


def summarize(exchange: RecordedExchange) -> str:
    """Return a summary of the exchange for screen readers."""
    sides = [f"{lane.title} ({lane.who})" if lane.who else lane.title for lane in exchange.lanes]
    words = f"Sequence diagram of {', '.join(sides)}: {format_count(len(exchange.messages), 'message')}"
    if exchange.left_out:
        words += f", {exchange.left_out:,} more omitted"
    if exchange.elapsed is not None:
        words += f", in {milliseconds(exchange.elapsed)} ms"
    if exchange.outcome is not None:
        words += f"; {'verdict' if exchange.kind == 'plan' else 'ended'}: {exchange.outcome}"
    return f"{words}. The table below has the same content."


def milliseconds(at: float) -> str:
    """Format a duration in milliseconds: an integer, but with one decimal place below 100 ms."""
    return f"{at:,.0f}" if at >= 100 else f"{at:.1f}"


class _DiagramCanvas:
    """A canvas on which shapes are added from top to bottom. `_y` is the top of the next shape."""

    def __init__(self, exchange: RecordedExchange) -> None:
        self._exchange = exchange
        self._x: dict[Place, float] = {}
        for number, lane in enumerate(exchange.lanes):
            self._x[lane.place] = _FIRST_X if number == 0 else _FIRST_X + _LANE_GAP + (number - 1) * _NEXT_GAP
        self._width = int(max(*self._x.values(), _FIRST_X + _LANE_GAP) + 66)
        self._y = float(_TOP_Y + 22)
        self._shapes: list[SvgShape] = []
        self._open_bars: dict[Place, float] = {}
        self._bars: list[SvgShape] = []
        self._open_brackets: dict[Place, float] = {}

    def drawing(self) -> Drawing:
        for message in self._exchange.messages:
            self._draw_message(message)
        for place in list(self._open_bars):
            self._end_bar(place, self._y, open_end=True)
        for place in list(self._open_brackets):
            self._end_bracket(place, self._y)
        height = int(self._y + 26)
        lanes = [shape for lane in self._exchange.lanes for shape in self._draw_lane(lane, height)]
        title = f"{self._exchange.title}: {self._exchange.url}"
        shapes = (*lanes, *self._bars, *self._shapes)
        return Drawing(self._width, height, title, summarize(self._exchange), shapes)

    def _draw_lane(self, lane: DiagramLane, height: int) -> list[SvgShape]:
        """Return the heading and the vertical line of a lane (lifeline), dashed for data and DNS lanes."""
        x = self._x[lane.place]
        is_dashed = lane.place in ("data", "names")
        shapes = [
            _make_line("lane", (x, _TOP_Y), (x, height - 10), dashes="5 5" if is_dashed else ""),
            _make_box("side", (x - 56, 10), (112, _TOP_Y - 10)),
        ]
        lines = [(lane.title, "who")] if not lane.who else [(lane.title, "who"), (lane.who, "where")]
        for number, (text, name) in enumerate(lines):
            y = 41 if len(lines) == 1 else 33 + number * 17
            shapes.append(
                _make_text(truncate(text, 15 if name == "who" else 17), name, x, y, anchor="middle")
            )
        return shapes

    def _draw_message(self, message: DiagramMessage) -> None:
        if message.source is None or message.target is None or message.source == message.target:
            self._draw_note(message)
        else:
            self._draw_arrow(message)

    def _draw_note(self, message: DiagramMessage) -> None:
        """Draw a box across the lanes for a note, which is not a message of the protocol."""
        start, end = _FIRST_X + 16, _FIRST_X + _LANE_GAP - 16
        sizes = [] if message.size is None else [format_count(message.size, "byte")]
        lines = [line for text in (*sizes, *message.lines) for line in wrap_text(text, _NOTE_CELLS)]
        height = len(lines) * LINE + 12
        name = "gap" if message.kind == "gap" else f"note {message.tone}"
        dashes = "3 4" if message.kind == "gap" else ""
        self._shapes.append(_make_box(name, (start, self._y), (end - start, height), dashes=dashes))
        for number, line in enumerate(lines):
            self._shapes.append(_make_text(line, f"{name} words", start + 10, self._y + 18 + number * LINE))
        if message.at is not None:
            self._draw_time(message.at, self._y + 18)
        self._y += height + 12

    def _draw_arrow(self, message: DiagramMessage) -> None:
        assert message.source is not None
        assert message.target is not None
        is_action = message.kind in ("open", "close", "tls") or (
            message.kind == "hear" and self._exchange.kind == "plan"
        )
        label_at = self._x["client"] + 16
        labels = self._make_labels(message, is_action=is_action)
        for number, (text, name) in enumerate(labels):
            self._shapes.append(_make_text(text, name, label_at, self._y + 11 + number * LINE))
        self._y += len(labels) * LINE + 5
        start, end = self._x[message.source], self._x[message.target]
        if message.at is not None:
            self._draw_time(message.at, self._y + 4)
        self._draw_connection(message)
        if message.kind == "body":
            self._y += 4
            self._draw_thick(start, end)
            self._y += 4
        else:
            self._draw_thin(message, start, end)
        self._y += 15

    def _make_labels(self, message: DiagramMessage, *, is_action: bool) -> list[tuple[str, str]]:
        if message.size is None and is_action:
            return [(truncate(line, _NOTE_CELLS, estimate_width), "ours") for line in message.lines]
        if message.size is None:
            return [(line, "said") for line in message.lines]
        count = (format_count(message.size, "byte"), "count")
        return [count, *((line, "preview") for line in message.lines)]

    def _draw_thin(self, message: DiagramMessage, start: float, end: float) -> None:
        side = 1 if end > start else -1
        dashes = "6 4" if message.kind in ("open", "close", "tls") else ""
        tip, y = end - side * 5, self._y
        name = f"arrow {message.kind}"
        self._shapes.append(_make_line(name, (start + side * 5, y), (tip - side * 6, y), dashes=dashes))
        if message.kind == "close":
            self._shapes.append(_make_line(name, (tip - 5, y - 5), (tip + 5, y + 5)))
            self._shapes.append(_make_line(name, (tip - 5, y + 5), (tip + 5, y - 5)))
            return
        heads = [(tip, side)] if message.kind != "tls" else [(tip, side), (start + side * 5, -side)]
        for at, turn in heads:
            points = f"{at:g},{y:g} {at - turn * 10:g},{y - 5:g} {at - turn * 10:g},{y + 5:g}"
            self._shapes.append(_make_area(f"head {message.kind}", points))

    def _draw_thick(self, start: float, end: float) -> None:
        side = 1 if end > start else -1
        y, a, b = self._y, start + side * 5, end - side * 5
        neck = b - side * 16
        points = (
            f"{a:g},{y - 4:g} {neck:g},{y - 4:g} {neck:g},{y - 10:g} {b:g},{y:g} "
            f"{neck:g},{y + 10:g} {neck:g},{y + 4:g} {a:g},{y + 4:g}"
        )
        self._shapes.append(_make_area("head body", points))

    def _draw_connection(self, message: DiagramMessage) -> None:
        """Draw an open connection as a vertical bar on its lane, and TLS as a bracket next to the bar."""
        place = message.target if message.source == "client" else message.source
        assert place is not None
        match message.kind:
            case "open":
                self._end_bar(place, self._y - 8)
                self._end_bracket(place, self._y - 8)
                self._open_bars[place] = self._y
            case "tls":
                self._open_brackets[place] = self._y
            case "close":
                self._end_bar(place, self._y)
                self._end_bracket(place, self._y)

    def _end_bar(self, place: Place, y: float, *, open_end: bool = False) -> None:
        begun = self._open_bars.pop(place, None)
        if begun is not None:
            x, end = self._x[place], y + (6 if open_end else 0)
            self._bars.append(
                _make_box("alive", (x - 4, begun), (8, max(1, end - begun)), fill="currentColor")
            )

    def _end_bracket(self, place: Place, y: float) -> None:
        begun = self._open_brackets.pop(place, None)
        if begun is not None:
            x = self._x[place] + 10
            self._bars.append(_make_bracket("veil", (x, begun), y))
            self._bars.append(_make_text("TLS", "veil words", x + 14, (begun + y) / 2 + 4))

    def _draw_time(self, at: float, y: float) -> None:
        self._shapes.append(_make_text(milliseconds(at), "time", _TIME_X, y, anchor="end"))


def _make_text(text: str, name: str, x: float, y: float, anchor: str = "start") -> SvgShape:
    place = (("class", name), ("x", f"{x:g}"), ("y", f"{y:g}"), ("fill", "currentColor"))
    return SvgShape("text", place if anchor == "start" else (*place, ("text-anchor", anchor)), text)


def _make_line(name: str, start: Point, end: Point, *, dashes: str = "") -> SvgShape:
    ends = (("x1", start[0]), ("y1", start[1]), ("x2", end[0]), ("y2", end[1]))
    return _make_shape("line", name, tuple((key, f"{value:g}") for key, value in ends), dashes)


def _make_box(name: str, corner: Point, size: Point, *, dashes: str = "", fill: str = "none") -> SvgShape:
    sides = (("x", corner[0]), ("y", corner[1]), ("width", size[0]), ("height", size[1]), ("rx", 4))
    placed = tuple((key, f"{value:g}") for key, value in sides)
    return _make_shape("rect", name, (*placed, ("fill", fill)), dashes)


def _make_bracket(name: str, corner: Point, end: float) -> SvgShape:
    """Return the shape of a bracket that opens to the left."""
    x, y = corner
    return _make_shape("path", name, (("d", f"M{x:g} {y:g}h9V{end:g}h-9"), ("fill", "none")), "")


def _make_area(name: str, points: str) -> SvgShape:
    return SvgShape("polygon", (("class", name), ("points", points), ("fill", "currentColor")))


def _make_shape(tag: str, name: str, attributes: tuple[tuple[str, str], ...], dashes: str) -> SvgShape:
    more = (("stroke-dasharray", dashes),) if dashes else ()
    return SvgShape(tag, (("class", name), *attributes, ("stroke", "currentColor"), *more))


# The HTML of protocol exchanges: the panel below a page, a separate page, and files to download.

_DASH = "–"
#: The kinds of messages whose text is the data that was sent or received. In a plan, the text of a reply is a
#: description of the expected reply.
_DATA_KINDS: frozenset[Kind] = frozenset({"say", "hear", "body", "ask", "answer"})
_PLANNED_KINDS: frozenset[Kind] = frozenset({"say"})


class MessageRow(NamedTuple):
    """A table row for a message of the exchange. `way` is the text with the sender and the receiver."""

    at: str
    way: str
    lines: tuple[str, ...]
    kind: str
    tag: str


class ExchangePanel(NamedTuple):
    """A protocol exchange with its diagram and table; `name` is a unique ID within the page."""

    exchange: RecordedExchange
    drawing: Drawing
    rows: tuple[MessageRow, ...]
    ended: str
    name: str


class _PanelSection(NamedTuple):
    name: str
    url: Masked
    shown: tuple[ExchangePanel, ...]


def render_panel(*exchanges: RecordedExchange, away: str = "") -> str:
    """Return the HTML panel of a protocol exchange and its plan.

    Args:
        exchanges: The recorded exchange, and the planned exchange.
        away: The download URL of the first exchange, without the file name extension.
    """
    return _render("exchange.html", {"shown": _make_panels(exchanges, "dialogue"), "away": away})


def render_svg(exchange: RecordedExchange) -> str:
    """Return the diagram as a standalone SVG file."""
    return _render("exchange.svg", {"drawing": draw(exchange)}).lstrip()


def encode_json(exchange: RecordedExchange) -> str:
    """Return the exchange as JSON text; `resolver.web.dialogue.exchange` describes the format."""
    return json.dumps(exchange.as_json(), ensure_ascii=False, indent=1) + "\n"


def render_page(sections: Sequence[tuple[RecordedExchange, ...]], heading: str, *, left_out: int = 0) -> str:
    """Return a self-contained HTML page with a section for each URL.

    The page contains its stylesheet, and does not contain a script. Its Content-Security-Policy blocks all
    other stylesheets and all external resources.

    Args:
        sections: The protocol exchanges of each URL.
        heading: The heading of the page.
        left_out: The number of URLs that are omitted in the middle.
    """
    sheet = _render("exchange_page.css", {})
    panels = tuple(
        _PanelSection(f"url-{number}", exchanges[0].url, _make_panels(exchanges, f"d{number}"))
        for number, exchanges in enumerate(sections, 1)
        if exchanges
    )
    title = panels[0].url if len(panels) == 1 else format_count(len(panels) + left_out, "URL")
    subtitle = "The steps to fetch a URL." if len(panels) == 1 else title
    if left_out:
        subtitle += f", of which {left_out:,} in the middle are omitted"
    values = {
        "title": f"{heading}: {title}",
        "heading": heading,
        "subtitle": subtitle,
        "sections": panels,
        "digest": b64encode(sha256(sheet.encode()).digest()).decode(),
    }
    return _render("exchange_page.html", values).lstrip()


def make_rows(exchange: RecordedExchange) -> tuple[MessageRow, ...]:
    """Return the rows of the table: the messages of the diagram in the same order."""
    kinds = _PLANNED_KINDS if exchange.kind == "plan" else _DATA_KINDS
    return tuple(_make_row(message, kinds) for message in exchange.messages)


def _make_row(message: DiagramMessage, wire: frozenset[Kind]) -> MessageRow:
    lines = message.lines if message.size is None else (format_count(message.size, "byte"), *message.lines)
    at = _DASH if message.at is None else milliseconds(message.at)
    tag = "code" if message.kind in wire else "span"
    return MessageRow(at, _describe_lanes(message), lines, message.kind, tag)


def _describe_lanes(message: DiagramMessage) -> str:
    if message.source is None or message.target is None:
        return _DASH
    if message.source == message.target:
        return message.source
    between = f"{message.source} → {message.target}"
    return f"{between}, in TLS" if message.secured else between


def _make_panels(exchanges: Iterable[RecordedExchange], name: str) -> tuple[ExchangePanel, ...]:
    return tuple(
        ExchangePanel(item, draw(item), make_rows(item), _describe_end(item), f"{name}-{number}")
        for number, item in enumerate(exchanges, 1)
    )


def _describe_end(exchange: RecordedExchange) -> str:
    if exchange.outcome is None:
        return ""
    if exchange.kind == "plan":
        return f"verdict: {exchange.outcome}"
    if exchange.elapsed is None:
        return exchange.outcome
    return f"{exchange.outcome}, after {milliseconds(exchange.elapsed)} ms"


def _render(template: str, values: Mapping[str, object]) -> str:
    return environment().get_template(template).render(values)
