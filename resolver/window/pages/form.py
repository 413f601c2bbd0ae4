"""A form that a server puts to whoever wants an item, and what would be sent of it: shown before it is sent,
and never sent on arrival (S05)."""

from __future__ import annotations

from collections.abc import Iterable

from protocols.contract import Finding
from protocols.location import HostUrl
from protocols.values import NamedTuple
from resolver.retrieval.form import Answer, AskForm, AskLine, AskQuestion
from resolver.window.pages.page import WebPage
from resolver.window.pages.words import line_of

_FIELDS = {
    AskQuestion.ASK: "line",
    AskQuestion.ASK_FILE: "line",
    AskQuestion.ASK_HIDDEN: "hidden",
    AskQuestion.ASK_LINES: "lines",
    AskQuestion.CHOOSE: "choice",
    AskQuestion.SELECT: "yes",
    AskQuestion.CHOOSE_FILE: "upload",
    AskQuestion.NOTE: "note",
    AskQuestion.UNKNOWN: "unknown",
}
#: More questions than anybody answers.
MOST_LINES = 500


class FormField(NamedTuple):
    """One line of a form: its `kind` is the field that takes the answer, `name` that of the field."""

    name: str
    kind: str
    prompt: str
    default: str
    choices: tuple[str, ...]


class FormPreview(NamedTuple):
    """What a form was answered with, as a person looks at it before it is sent."""

    prompt: str
    answer: str


def form_page(
    form: AskForm, url: HostUrl, kept: str, findings: Iterable[Finding] = (), complaint: str = ""
) -> WebPage:
    """The questions; `kept` names the form when it is answered. `complaint` says why answers that were
    given cannot be sent."""
    values = {
        "heading": "A form",
        "kept": kept,
        "url": url.shown,
        "text": url.text,
        "host": f"{url.host} port {url.effective_port}",
        "lines": [_asked(number, line) for number, line in enumerate(form.lines[:MOST_LINES])],
        "found": tuple(findings),
        "complaint": complaint,
    }
    return WebPage("form.html", url.shown, 200, values)


def _asked(number: int, line: AskLine) -> FormField:
    choices = tuple(choice.decode("utf-8", "replace") for choice in line.choices)
    kind = _FIELDS[line.question]
    if kind == "choice" and not choices:
        kind = "unknown"
    return FormField(f"answer{number}", kind, line.prompt or line.word, line.default or "", choices)


def answers_from(form: AskForm, said: Iterable[tuple[str, str]]) -> list[Answer]:
    """The answers to `form.asked`, of the fields of the form as a browser sends them. A choice is one
    of those that were offered; a file is never sent."""
    fields = dict(said)
    answers: list[Answer] = []
    for number, line in enumerate(form.lines):
        if line.question.is_asked:
            answers.append(_answer(line, fields.get(f"answer{number}", "")))
    return answers


def _answer(line: AskLine, text: str) -> Answer:
    match line.question:
        case AskQuestion.SELECT:
            return text == "1"
        case AskQuestion.ASK_LINES:
            return tuple(each.encode() for each in text.splitlines())
        case AskQuestion.CHOOSE:
            number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
            return line.choices[number] if number < len(line.choices) else b""
        case AskQuestion.CHOOSE_FILE:
            return None
    return text.encode()


def sending_page(form: AskForm, answers: list[Answer], url: HostUrl, octets: str, kept: str) -> WebPage:
    """What would be sent to answer the form: the answers, and the octets themselves, of which nobody sees
    what was typed hidden. The person's yes names the answers as they are `kept`: they are not on the page."""
    seen = [
        FormPreview(line.prompt, _seen(line, answer))
        for line, answer in zip(form.asked, answers, strict=True)
    ]
    values = {
        "url": url.shown,
        "text": url.text,
        "host": f"{url.host} port {url.effective_port}",
        "seen": seen,
        "lines": [line_of(line) for line in octets.removesuffix("\r\n").split("\r\n")],
        "kept": kept,
    }
    return WebPage("sending.html", url.shown, 200, values)


def _seen(line: AskLine, answer: Answer) -> str:
    if line.question is AskQuestion.ASK_HIDDEN:
        return "****"
    match answer:
        case None:
            return "no file"
        case bool():
            return "yes" if answer else "no"
        case bytes():
            return answer.decode("utf-8", "replace")
    return "\n".join(each.decode("utf-8", "replace") for each in answer)
