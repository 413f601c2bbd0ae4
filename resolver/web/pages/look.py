"""The preview page of a URL: its components, the policy verdict with the rules, and the data to send.

A preview does not send a request. The preview page does not have a button to override a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from protocols.location import Action, JsonValue, Url
from resolver.policy.subject import Decision, Verdict
from resolver.transfer.plan import Plan, PlanStep
from resolver.url.parsing import redact
from resolver.web.pages.errors import CaretLine, point_at
from resolver.web.pages.page import FactRow, PageAddressBar, WebPage, format_line

_VERDICTS: dict[Action, str] = {
    "allow": "Allowed by the policy.",
    "warn": "Allowed with warnings.",
    "refuse": "Refused by the policy.",
}
_MASKED = "****"


class RulingRow(NamedTuple):
    """A finding of the policy: the rule, the detail, the option that allows the URL, and the position."""

    rule: str
    action: Action
    detail: str
    flag: str
    pointed: CaretLine | None


class SendingRow(NamedTuple):
    """A step of a plan."""

    action: str
    text: str
    is_octets: bool


def look_page(
    text: str,
    plan: Plan,
    verdict: Verdict,
    url: Url | None,
    bar: PageAddressBar,
    *,
    suggestion: str | None = None,
    note: str | None = None,
) -> WebPage:
    """Return the preview of a URL.

    Args:
        text: The URL as the user typed it.
        plan: The plan of the retrieval.
        verdict: The policy verdict.
        url: The parsed URL; None if the text is not a URL.
        bar: The page's address bar.
        suggestion: A similar URL that the user may have meant.
        note: A further note for the user.
    """
    obstacle = None if plan.error is None or plan.verdict == "refuse" else plan.error.message
    values = {
        "url": plan.url,
        "text": text,
        "verdict": plan.verdict,
        "verdict_words": "The URL cannot be opened." if obstacle else _VERDICTS[plan.verdict],
        "obstacle": obstacle,
        "rulings": list(list_rulings(verdict.decisions, text, plan.url)) or _list_findings(plan),
        "spelling": [finding.rule for finding in (() if url is None else url.spelling)],
        "parts": [] if url is None else list(_list_components(url)),
        "steps": [_make_step(step) for step in plan.steps],
        "opens": plan.verdict != "refuse" and plan.error is None,
        "suggestion": None if suggestion is None else redact(suggestion),
        "suggestion_href": None if suggestion is None else bar.look(suggestion),
        "note": note,
    }
    return WebPage("look.html", plan.url, 400 if url is None else 200, values)


def list_rulings(decisions: tuple[Decision, ...], text: str, shown: str) -> Iterator[RulingRow]:
    for decision in decisions:
        caret_line = None if decision.position is None else point_at(text, shown, decision.position)
        flag = decision.flag if decision.action == "refuse" else None
        yield RulingRow(decision.rule, decision.action, decision.detail, flag or "", caret_line)


def _list_findings(plan: Plan) -> list[RulingRow]:
    """Return the findings of the plan as rows, for a plan without a decision of the policy."""
    return [
        RulingRow(finding.rule, finding.action, finding.detail, "", None)
        for finding in plan.findings
        if finding.action != "allow"
    ]


def _list_components(url: Url) -> Iterator[FactRow]:
    """Yield the components of a URL, with secrets redacted."""
    hidden = {"password"} | ({"gopherplus"} if url.place("answers") is not None else set())
    for name, value in url.components().items():
        if value is None or value == []:
            continue
        yield FactRow(name, _MASKED if name in hidden else _show_component(value))


def _show_component(value: JsonValue) -> str:
    if isinstance(value, list):
        return ", ".join(map(_show_component, value))
    if isinstance(value, str):
        return format_line(f'"{value}"')
    return _show_value(value)


def _make_step(step: PlanStep) -> SendingRow:
    if step["action"] == "connect":
        tls = " with TLS" if step["tls"] else ""
        host = _show_value(step["host"]) or "a news server (not configured),"
        target = f"{host} port {_show_value(step['port'])} ({_show_value(step['transport'])}{tls})"
        return SendingRow("connect", target, False)
    name, value = next((name, value) for name, value in step.items() if name != "action")
    return SendingRow(
        _show_value(step["action"]), format_line(_show_value(value)), name in ("octets", "path")
    )


def _show_value(value: JsonValue) -> str:
    return str(value) if isinstance(value, str | int) else ""
