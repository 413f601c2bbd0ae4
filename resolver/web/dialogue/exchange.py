"""The data of a recorded or planned protocol exchange, for the diagram, the table and JSON.

The JSON object of `as_json` has these members. Sizes are in bytes as transferred, and times are in
milliseconds from the start.

| member | |
|---|---|
| format version | `resolve-dialogue`, 1 |
| url title | the URL, redacted; the title of the diagram |
| kind | `dialogue`: recorded; `plan`: not sent |
| lanes | pairs of a name (`client` `server` `data` `names`) and an address or title |
| messages | one for each message or action, in order |
| left_out | number of messages left out, at the message of kind `gap` |
| outcome elapsed | the outcome and the duration; null until it has ended |

A message has these members:
- at: the time of the message; null if the time is unknown.
- kind: `open` `close` `tls` `say` `hear` `body` `ask` `answer` (both DNS) `note` `gap`.
- from, to: the lanes of the sender and the receiver. For an action of a single side, `from` and `to` are the
  same lane. For a note, both are null.
- lines: the lines of text, each at most 60 cells wide.
- octets: the size of a body or of binary data; otherwise null.
- secured: whether the message was sent over TLS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from protocols.errors import ResolveError
from protocols.location import HostUrl, JsonValue
from protocols.text import Masked, own_text
from resolver.terminal.text import cut_to_width, escape_controls, measure_width
from resolver.transfer.plan import DATA_CLOSED, TLS_BEGINS, Plan
from resolver.url.parsing import parse

Place: TypeAlias = Literal["client", "server", "data", "names"]
Kind: TypeAlias = Literal["open", "close", "tls", "say", "hear", "body", "ask", "answer", "note", "gap"]

Tone: TypeAlias = Literal["plain", "good", "bad"]

#: The lanes (vertical lifelines) of the diagram, from left to right.
PLACES: tuple[Place, ...] = ("client", "server", "data", "names")
_LANE_TITLES: dict[Place, str] = {
    "client": "this machine",
    "server": "server",
    "data": "data",
    "names": "names",
}


class DiagramLane(NamedTuple):
    """A lane (lifeline) of the diagram, for one side of the exchange; `who` is its address, if known."""

    place: Place
    title: str
    who: str = ""


class DiagramMessage(NamedTuple):
    """A message or action of the exchange; the docstring of the module describes its attributes."""

    kind: Kind
    lines: tuple[str, ...]
    source: Place | None = None
    target: Place | None = None
    at: float | None = None
    size: int | None = None
    secured: bool = False
    tone: Tone = "plain"

    def as_json(self) -> dict[str, JsonValue]:
        return {
            "at": None if self.at is None else round(self.at, 1),
            "kind": self.kind,
            "from": self.source,
            "to": self.target,
            "lines": list(self.lines),
            "octets": self.size,
            "secured": self.secured,
        }


class RecordedExchange(NamedTuple):
    """A recorded protocol exchange, or a planned protocol exchange."""

    url: Masked
    kind: Literal["dialogue", "plan"]
    title: str
    lanes: tuple[DiagramLane, ...]
    messages: tuple[DiagramMessage, ...]
    left_out: int = 0
    outcome: str | None = None
    elapsed: float | None = None
    failed: bool = False

    def as_json(self) -> dict[str, JsonValue]:
        return {
            "format": "resolve-dialogue",
            "version": 1,
            "url": self.url,
            "title": self.title,
            "kind": self.kind,
            "lanes": [[lane.place, lane.who or lane.title] for lane in self.lanes],
            "messages": [message.as_json() for message in self.messages],
            "left_out": self.left_out,
            "outcome": self.outcome,
            "elapsed": None if self.elapsed is None else round(self.elapsed, 1),
        }


def list_lanes(
    messages: tuple[DiagramMessage, ...], who: dict[Place, str], host: str
) -> tuple[DiagramLane, ...]:
    """Return the lanes of the diagram: client, server, and data connections and DNS if they are used."""
    used = {place for message in messages for place in (message.source, message.target)}
    titles = {**_LANE_TITLES, "server": host or _LANE_TITLES["server"]}
    return tuple(
        DiagramLane(place, titles[place], who.get(place, "").removeprefix(f"{host} "))
        for place in PLACES
        if place == "client" or place in used or (place == "server" and host)
    )


# The text of sent and received data. Data is split into readable lines, which are escaped (S15) and truncated
# to `CELLS`. Credentials and tokens are redacted as `****`.
#
# Secrets in events are already redacted (S17: no secrets in output). This module redacts the text again. The
# module searches for keywords before a secret, such as `PASS`. The second redaction is necessary because a
# plug-in scheme may not redact secrets, and users may show a diagram to other people.

#: Maximum width of a line in cells (character columns).
CELLS = 60
#: Maximum number of lines of a message. An http response may have hundreds of header lines.
LINES = 24
#: Maximum length in characters of a URL or an error message in a note.
_MAX_NOTE = 300

#: The number of lines in the preview of a body. The second value is the number of bytes that are read for the
#: preview.
_PREVIEW_LINES = 3
_PREVIEW_SIZE = 400

#: Matches readable text in binary data, such as the names and numbers of a binary protocol.
_WORD = re.compile(rb"[\x21-\x7e][\x20-\x7e]{3,}")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\xff]")
_HIDDEN = b"****"
#: Credentials in sent data. An anonymous login is not redacted, because it is not a secret.
_CREDENTIALS = re.compile(
    rb"(?im)^((?:AUTHINFO[ \t]+)?(?:PASS|ACCT|SASL|GENERIC)[ \t]+"
    rb"|(?:AUTHINFO[ \t]+)?USER[ \t]+(?!(?:anonymous|ftp)(?:[\r\n]|\Z))"
    rb"|(?:Proxy-)?Authorization:[ \t]*(?:[A-Za-z]+[ \t]+)?|(?:Set-)?Cookie2?:[ \t]*"
    rb"|[-A-Za-z]*(?:token|api-?key|secret)[ \t]*:[ \t]*)[^\r\n]+"
)
_TOKEN = re.compile(rb"(?i)\b((?:access_|id_|refresh_)?token|api_?key|secret|password)=[^&;\s\"'#]+")

#: Characters that XML must not contain.
_NO_XML = re.compile("[\ufdd0-\ufdef\ufffe\uffff]")


def mask_logins(octets: bytes) -> bytes:
    """Redact credentials and tokens as `****`."""
    return _TOKEN.sub(rb"\1=" + _HIDDEN, _CREDENTIALS.sub(rb"\1" + _HIDDEN, octets))


def split_message(octets: bytes) -> tuple[str, ...]:
    """Return the lines of a message.

    If a message has more than `LINES` lines, the last returned line has the number of omitted lines.
    """
    text = mask_logins(octets).decode("utf-8", "surrogateescape")
    rows = re.split("\r?\n", text[:-1] if text.endswith("\n") else text)
    rows = [row.removesuffix("\r") for row in rows]
    while len(rows) > 1 and not rows[-1]:
        rows.pop()
    lines = [show_line(line) or "(empty line)" for line in rows[:LINES]]
    if len(rows) > LINES:
        lines[-1] = f"… {len(rows) - LINES + 1} more lines"
    return tuple(lines)


def show_line(text: str) -> str:
    """Return a line of at most `CELLS` cells, escaped for HTML and XML."""
    return truncate(escape_text(text), CELLS)


def show_note(text: str) -> str:
    """Return the text of a note, which may be untrusted: escaped, redacted and truncated."""
    line = mask_logins(escape_text(text).encode()).decode()
    return line if len(line) <= _MAX_NOTE else f"{line[: _MAX_NOTE - 1]}…"


def escape_text(text: str) -> str:
    line = escape_controls(text.replace("\r\n", "\\x0d\\x0a")).replace("\n", "\\x0a").replace("\t", " → ")
    return _NO_XML.sub(_name_match, line)


def is_readable(octets: bytes) -> bool:
    """Return whether the bytes are text without control characters other than line ends and tabs."""
    if any(octet < 0x80 for octet in b"".join(_CONTROL.findall(octets))):
        return False
    try:
        octets.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(octets) - 4 and error.start > 0  # truncated within a UTF-8 character
    return True


def make_preview(octets: bytes) -> tuple[str, ...]:
    """Return the first lines of a body.

    For binary data, the result is the readable text in the data. The text must be at least a third of the
    data.
    """
    beginning = octets[:_PREVIEW_SIZE]
    if not beginning:
        return ()
    if is_readable(beginning):
        lines = split_message(beginning[: beginning.rfind(b"\n") + 1] or beginning)
        return lines[:_PREVIEW_LINES]
    words = _WORD.findall(mask_logins(beginning))
    if sum(map(len, words)) * 3 < len(beginning):
        return ()
    return (show_line(" · ".join(word.decode("ascii").strip() for word in words)),)


def truncate(text: str, cells: int, measure: Callable[[str], float] = measure_width) -> str:
    """Truncate a text to a maximum width and append `…`."""
    return text if measure(text) <= cells else cut_to_width(text, cells - 1, measure) + "…"


def estimate_width(text: str) -> float:
    """Return the approximate width of a text in a proportional font, in cells."""
    return sum(
        1.7 if letter in "WMmw@%" else 1.25 if letter.isupper() else measure_width(letter) for letter in text
    )


def wrap_text(text: str, cells: int) -> tuple[str, ...]:
    """Wrap a text to lines of a maximum width in a proportional font, at spaces if possible."""
    lines: list[str] = []
    for word in _split_words(text.split(" "), cells):
        if lines and estimate_width(lines[-1]) + 1 + estimate_width(word) <= cells:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return tuple(lines) or ("",)


def _split_words(words: Iterable[str], cells: int) -> Iterable[str]:
    for word in words:
        piece = ""
        for character in word:
            if estimate_width(piece) + estimate_width(character) > cells:
                yield piece
                piece = ""
            piece += character
        yield piece


def _name_match(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


# The conversion of a plan (`explain`) to a protocol exchange.


def make_planned_exchange(plan: Plan) -> RecordedExchange:
    """Return the findings of the policy and the steps of a plan as messages."""
    steps = _PlanConversion()
    for finding in plan.findings:
        steps.add_note(f"{finding.action} ({finding.rule}): {finding.detail}", bad=finding.action == "refuse")
    for step in plan.steps:
        steps.add_step(step)
    if plan.error is not None and not any(finding.action == "refuse" for finding in plan.findings):
        steps.add_note(f"{type(plan.error).__name__}: {plan.error.message}", bad=True)
    messages = tuple(steps.messages)
    return RecordedExchange(
        url=own_text(show_note(plan.url)),
        kind="plan",
        title="Planned exchange",
        lanes=list_lanes(messages, steps.who, find_host(plan.url)),
        messages=messages,
        outcome=plan.verdict,
        failed=plan.error is not None,
    )


def find_host(url: str) -> str:
    """Return the host of a URL, or an empty text for a URL without a host."""
    try:
        parsed = parse(url)
    except ResolveError:
        return ""
    return show_line(parsed.host) if isinstance(parsed, HostUrl) else ""


class _PlanConversion:
    """The conversion of plan steps to messages.

    The second TCP connection of a plan to the same host is an FTP data connection.
    """

    def __init__(self) -> None:
        self.messages: list[DiagramMessage] = []
        self.who: dict[Place, str] = {}
        self._host: str | None = None
        self._reply_lane: Place = "server"
        self._waits_for_reply = False
        self._secured: dict[Place, bool] = {}

    def add_step(self, step: Mapping[str, JsonValue]) -> None:
        match step["action"]:
            case "connect":
                self._connect(step)
            case "send":
                self._send(str(step["octets"]).encode("latin-1"))
            case "receive":
                self._receive(str(step["what"]))
            case "open":
                self._add("open", (show_line(f"opens {_word(step['path'])}"),), "client", "client")
            case _:
                self._add_text(str(step["text"]))

    def add_note(self, text: str, *, bad: bool = False) -> None:
        self.messages.append(DiagramMessage("note", (show_note(text),), tone="bad" if bad else "plain"))

    def _add_text(self, text: str) -> None:
        if text == TLS_BEGINS:
            self._begin_tls(self._reply_lane)
        elif text == DATA_CLOSED and self._reply_lane == "data":
            self._add("close", ("closes the data connection",), "data", "client")
            self._reply_lane = "server"
        else:
            self.add_note(text)

    def _connect(self, step: Mapping[str, JsonValue]) -> None:
        host, port, transport = (_word(step[name]) for name in ("host", "port", "transport"))
        is_data = transport == "tcp" and host != "" and self._host == host
        place: Place = "data" if is_data else "server"
        self._host = host
        is_chosen = is_data and port == "0"
        label = "a port chosen by the server" if is_chosen else f"port {port}"
        self.who.setdefault(place, "port chosen by the server" if is_chosen else show_line(f"{host} {label}"))
        words = "sends datagrams to" if transport == "udp" else "connects to"
        self._add("open", (show_line(f"{words} {host or 'a news server'}, {label}"),), "client", place)
        self._secured[place] = False
        self._reply_lane = place
        self._waits_for_reply = is_data
        if step["tls"]:
            self._begin_tls(place)

    def _begin_tls(self, place: Place) -> None:
        self._secured[place] = True
        self._add("tls", ("TLS starts: all further data is encrypted",), "client", place)

    def _send(self, octets: bytes) -> None:
        if is_readable(octets):
            self._add("say", split_message(octets), "client", "server")
        else:
            self._add("say", make_preview(octets), "client", "server", size=len(octets))

    def _receive(self, reply: str) -> None:
        """Add a reply; if a data connection is open, the first reply is on the control connection."""
        place: Place = "server" if self._waits_for_reply else self._reply_lane
        if self._host is None and not self.who:
            place = "client"
        self._waits_for_reply = False
        self._add("hear", (show_line(reply),), place, "client")

    def _add(
        self, kind: Kind, lines: tuple[str, ...], source: Place, target: Place, size: int | None = None
    ) -> None:
        peer = source if target == "client" else target
        secured = self._secured.get(peer, False)
        self.messages.append(DiagramMessage(kind, lines, source, target, None, size, secured))


def _word(value: JsonValue) -> str:
    return "" if value is None else str(value)
