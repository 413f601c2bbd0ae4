"""A plan of `explain` as an exchange: what would be said, in the form of what was said."""

from __future__ import annotations

from collections.abc import Mapping

from protocols.errors import ResolveError
from protocols.location import HostUrl, JsonValue
from resolver.transfer.plan import DATA_CLOSED, TLS_BEGINS, Plan
from resolver.url.parsing import parse
from resolver.web.dialogue.exchange import (
    DiagramMessage,
    Kind,
    Place,
    RecordedExchange,
    lanes_of,
    lines_of,
    note,
    preview,
    readable,
    show_line,
)


def make_planned_exchange(plan: Plan) -> RecordedExchange:
    """The steps of a plan as messages, and what the policy says before them."""
    steps = _Steps()
    for finding in plan.findings:
        steps.note(f"{finding.action} ({finding.rule}): {finding.detail}", bad=finding.action == "refuse")
    for step in plan.steps:
        steps.take(step)
    if plan.error is not None and not any(finding.action == "refuse" for finding in plan.findings):
        steps.note(f"{type(plan.error).__name__}: {plan.error.message}", bad=True)
    messages = tuple(steps.messages)
    return RecordedExchange(
        url=note(plan.url),
        kind="plan",
        title="What would be said",
        lanes=lanes_of(messages, steps.who, host_of(plan.url)),
        messages=messages,
        outcome=plan.verdict,
        failed=plan.error is not None,
    )


def host_of(url: str) -> str:
    """Whom a person thinks of as the server."""
    try:
        parsed = parse(url)
    except ResolveError:
        return ""
    return show_line(parsed.host) if isinstance(parsed, HostUrl) else ""


class _Steps:
    """Messages of steps. A second connection in TCP to the same host is one for data."""

    def __init__(self) -> None:
        self.messages: list[DiagramMessage] = []
        self.who: dict[Place, str] = {}
        self._host: str | None = None
        self._heard_from: Place = "server"
        self._waits_for_reply = False
        self._secured: dict[Place, bool] = {}

    def take(self, step: Mapping[str, JsonValue]) -> None:
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
                self._tell(str(step["text"]))

    def note(self, text: str, *, bad: bool = False) -> None:
        self.messages.append(DiagramMessage("note", (note(text),), tone="bad" if bad else "plain"))

    def _tell(self, text: str) -> None:
        if text == TLS_BEGINS:
            self._begin_tls(self._heard_from)
        elif text == DATA_CLOSED and self._heard_from == "data":
            self._add("close", ("the data connection is closed",), "data", "client")
            self._heard_from = "server"
        else:
            self.note(text)

    def _connect(self, step: Mapping[str, JsonValue]) -> None:
        host, port, transport = (_word(step[name]) for name in ("host", "port", "transport"))
        is_data = transport == "tcp" and host != "" and self._host == host
        place: Place = "data" if is_data else "server"
        self._host = host
        chosen = is_data and port == "0"
        where = "a port of the server's choice" if chosen else f"port {port}"
        self.who.setdefault(place, "server's choice" if chosen else show_line(f"{host} {where}"))
        words = "sends datagrams to" if transport == "udp" else "connects to"
        self._add("open", (show_line(f"{words} {host or 'a news server'}, {where}"),), "client", place)
        self._secured[place] = False
        self._heard_from = place
        self._waits_for_reply = is_data
        if step["tls"]:
            self._begin_tls(place)

    def _begin_tls(self, place: Place) -> None:
        self._secured[place] = True
        self._add("tls", ("TLS begins: all that follows is encrypted",), "client", place)

    def _send(self, octets: bytes) -> None:
        if readable(octets):
            self._add("say", lines_of(octets), "client", "server")
        else:
            self._add("say", preview(octets), "client", "server", size=len(octets))

    def _receive(self, what: str) -> None:
        """Beside a data connection the first reply comes on the first one, and then the octets."""
        place: Place = "server" if self._waits_for_reply else self._heard_from
        if self._host is None and not self.who:
            place = "client"
        self._waits_for_reply = False
        self._add("hear", (show_line(what),), place, "client")

    def _add(
        self, kind: Kind, lines: tuple[str, ...], source: Place, target: Place, size: int | None = None
    ) -> None:
        beside = source if target == "client" else target
        secured = self._secured.get(beside, False)
        self.messages.append(DiagramMessage(kind, lines, source, target, None, size, secured))


def _word(value: JsonValue) -> str:
    return "" if value is None else str(value)
