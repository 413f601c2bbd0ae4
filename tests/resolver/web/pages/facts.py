"""Pages of every kind, with one text in each field that a server or the user fills."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from protocols.contract import JsonValue
from protocols.text import Masked
from resolver import (
    Declined,
    Entry,
    Finding,
    GopherUrl,
    Kind,
    LoginRequired,
    NotFound,
    Refused,
    Response,
    TryLater,
    Verdict,
    check,
    explain,
    parse,
)
from resolver.policy.subject import Decision
from resolver.transfer.forms import AskForm, AskLine, AskQuestion
from resolver.web.pages.article import article_page
from resolver.web.pages.directory import directory_page, results_page
from resolver.web.pages.document import document_page
from resolver.web.pages.errors import LoginQuestion, error_page
from resolver.web.pages.gopher import attributes_page, form_page, menu_page, sending_page
from resolver.web.pages.group import group_page
from resolver.web.pages.look import look_page
from resolver.web.pages.own import (
    OpenedUrl,
    RuleRow,
    SavedTransfer,
    bookmarks_page,
    help_page,
    history_page,
    mail_page,
    service_page,
    settings_page,
    start_page,
    transfers_page,
)
from resolver.web.pages.page import FactRow, PageQuery, WebPage
from tests.resolver.web.pages.skeleton import place

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
URL = GopherUrl(
    scheme="gopher", host="h.example", gophertype="0", selector=b"item", text="gopher://h.example/0item"
)


def response(
    text: str,
    *,
    content: bytes | None = None,
    kind: Kind = Kind.DOCUMENT,
    media_type: str | None = None,
    extra: Mapping[str, JsonValue] | None = None,
    entries: Iterable[Entry] | None = None,
) -> Response:
    """Return a response with this text in each text field."""
    return Response(
        kind=kind,
        media_type=Masked(text if media_type is None else media_type),
        charset=Masked(text),
        title=Masked(text),
        meta=((text, text), ("From", text), ("Subject", text), ("Date", text)),
        target=Masked(text),
        modified=NOW,
        extra={text: text} if extra is None else extra,
        url=Masked(text),
        requested_url=Masked(text),
        findings=(Finding(text, "warn", text),),
        verified=(text,),
        elapsed=0.0,
        retrieved=NOW,
        peer=text,
        content=text.encode("utf-8", "surrogatepass") if content is None else content,
        entries=None if entries is None else tuple(entries),
    )


def entry(text: str, kind: Kind, **extra: JsonValue) -> Entry:
    values = {"unusable": text, "link": text, "size_text": text, "modified_local": text, **extra}
    return Entry(name=text, url=text, kind=kind, title=text, extra=values)


def item(
    text: str, kind: Kind, character: str, url: str | None = "gopher://h.example/1x", tag: str = ""
) -> Entry:
    record: dict[str, JsonValue] = {
        "type": character,
        "gopherplus": tag,
        "unusable": text,
        "views": [{"view": "text/plain", "media_type": text, "language": text, "about": 5}] * 2,
        "admin": {"name": text, "address": text},
        "abstract": text,
        "attributes": {text: [text]},
    }
    return Entry(name=text, url=url, kind=kind, extra=record)


def _refusal(text: str) -> Verdict:
    return Verdict(action="refuse", decisions=(Decision(text, "refuse", text, text, 3),))


def form(text: str) -> AskForm:
    octets = text.encode("utf-8", "surrogatepass")
    lines = [AskLine(question, text, text, (octets, octets), text) for question in AskQuestion]
    return AskForm((*lines, AskLine(AskQuestion.CHOOSE, text, text)))


def article(text: str) -> Response:
    octets = text.encode("utf-8", "surrogatepass").replace(b"\n", b" ").replace(b"\r", b" ")
    quoted = b"\r\n".join(b">" * depth + b" " + octets for depth in (0, 1, 2, 3, 4, 0, 1))
    part = b'--B\r\nContent-Type: %b; name="%b"\r\n\r\n%b\r\n'
    content = (
        b"Subject: %b\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n" % octets
        + part % (b"text/plain", b"", quoted + b"\r\n-- \r\n" + octets)
        + part % (b"application/" + octets, octets, octets)
        + part % (b"image/png", octets, PNG)
        + b"--B--\r\n"
    )
    return response(text, content=content, kind=Kind.ARTICLE, media_type="message/rfc822")


def articles(text: str) -> list[Entry]:
    values: dict[str, JsonValue] = {"from": text, "date": text, "message_id": "1"}
    first = Entry(name=text, url=text, kind=Kind.ARTICLE, title=text, extra=values)
    other = Entry(
        name="7", kind=Kind.ARTICLE, title=text, extra={**values, "message_id": "2", "references": ["1"]}
    )
    orphan = Entry(name="9", url=text, kind=Kind.ARTICLE, extra={"references": ["0"], "from": text})
    return [first, other, orphan]


def hit(text: str) -> Entry:
    values: dict[str, JsonValue] = {
        "score": 812,
        "types": [text, text],
        "other_types": [text, text],
        "media_type": text,
        "lines": 3,
    }
    return Entry(name=text, url=text, kind=Kind.DOCUMENT, modified=NOW, extra=values)


def document(text: str, content: bytes, media_type: str = "", view: str = "") -> WebPage:
    reply = response(text, content=content, media_type=media_type)
    return document_page(reply, PageQuery(view=view), place(text), lambda shown: f"/d/{shown}", text)


def error(text: str, kind: type[Declined]) -> WebPage:
    failed = kind(text, code=text, text=text, url=Masked(text))
    return error_page(
        failed,
        text,
        place(text),
        parent=text,
        suggestion=text,
        login=LoginQuestion(text, text, text, True, True),
    )


def _preview(text: str, verdict: Verdict, action: str) -> WebPage:
    steps: list[dict[str, JsonValue]] = [
        {"action": "send", "octets": text},
        {"action": "note", "text": text},
        {"action": "open", "path": text},
    ]
    plan = explain(URL)._replace(url=Masked(text), verdict="refuse" if action == "refuse" else "warn")
    plan = plan._replace(steps=() if action == "refuse" else (*plan.steps, *steps))
    return look_page(text, plan, verdict, URL, place(text), suggestion=text, note=text)


#: Name of a page -> function that renders the page with a text in all of its fields.
PAGES: Mapping[str, Callable[[str], WebPage]] = {
    "directory": lambda text: directory_page(
        response(text, entries=[entry(text, kind) for kind in Kind]),
        PageQuery(filter=text),
        place(text),
        title=text,
    ),
    "directory, empty": lambda text: directory_page(response(text), PageQuery(filter=text), place(text)),
    "text": lambda text: document(text, text.encode("utf-8", "surrogatepass"), "text/plain"),
    "menu": lambda text: menu_page(
        response(
            text,
            entries=[
                item(text, Kind.INFO, "i"),
                item(text, Kind.INFO, "i"),
                item(text, Kind.DOCUMENT, "0"),
                item(text, Kind.DIRECTORY, "1", tag="?"),
                item(text, Kind.SEARCH, "7"),
                item(text, Kind.SERVICE, "8"),
                item(text, Kind.UNKNOWN, text, None),
                item(text, Kind.ERROR, "3", None),
            ],
        ),
        PageQuery(filter=text),
        place(text),
        title=text,
    ),
    "menu, judged": lambda text: menu_page(
        response(text, entries=[item(text, Kind.DOCUMENT, "0")]),
        PageQuery(),
        place(text),
        judge=lambda _: _refusal(text),
    ),
    "form": lambda text: form_page(form(text), URL, "KEPT", [Finding(text, "warn", text)], text),
    "sending": lambda text: sending_page(
        AskForm((AskLine(AskQuestion.ASK, text, text), AskLine(AskQuestion.ASK_HIDDEN, text, text))),
        [text.encode("utf-8", "surrogatepass"), b"secret"],
        URL,
        text,
        "KEPT",
    ),
    "group": lambda text: group_page(
        response(text, entries=articles(text), extra={"name": text, "count": 9000, "cut": True, "first": 9}),
        PageQuery(filter=text, before=12),
        place(text),
    ),
    "article": lambda text: article_page(
        article(text), PageQuery(), place(text), _contents, thread="/u/group"
    ),
    "article, source": lambda text: article_page(
        article(text), PageQuery(view="source"), place(text), _contents, thread="/u/group"
    ),
    "results": lambda text: results_page(
        response(text, entries=[hit(text)]), PageQuery(), place(text), title=text, words=text, search=text
    ),
    "picture": lambda text: document(text, PNG),
    "PDF": lambda text: document(text, b"%PDF-1.4"),
    "sound": lambda text: document(text, b"OggS"),
    "film": lambda text: document(text, b"\x1a\x45\xdf\xa3"),
    "octets": lambda text: document(text, b"\x00\x01\x02"),
    "HTML": lambda text: document(text, b"<h1>x</h1>", "text/html"),
    "HTML as page": lambda text: document(text, b"<h1>x</h1>", "text/html", "page"),
    "HTML source": lambda text: document(text, text.encode("utf-8", "surrogatepass"), "text/html", "source"),
    "attributes": lambda text: attributes_page(
        response(
            text,
            extra={
                "attributes": {text: [text]},
                "views": [{"view": "text/plain", "media_type": text, "language": text}],
                "missing": [text],
            },
        ),
        place(text),
    ),
    "mail": lambda text: mail_page(
        response(text, kind=Kind.ADDRESS, extra={"addresses": [text, text]}), place(text)
    ),
    "session": lambda text: service_page(
        response(text, kind=Kind.SERVICE, extra={"service": text, "host": text, "port": 23, "login": text}),
        place(text),
    ),
    "look": lambda text: _preview(text, Verdict(), "allow"),
    "look, refused": lambda text: _preview(text, _refusal(text), "refuse"),
    "not found": lambda text: error(text, NotFound),
    "login": lambda text: error(text, LoginRequired),
    "later": lambda text: error(text, TryLater),
    "start": lambda text: start_page(
        place(text), [OpenedUrl(text, text), OpenedUrl(text, "")], [(text, text)]
    ),
    "history": lambda text: history_page(place(text), [OpenedUrl(text, text)]),
    "history, empty": lambda text: history_page(place(text), []),
    "bookmarks": lambda text: bookmarks_page(place(text), [OpenedUrl(text, text)]),
    "transfers": lambda text: transfers_page(
        place(text),
        [
            SavedTransfer(number, text, Masked(text), state, 5, 10, 3.0, text, (text,), text)
            for number, state in enumerate(("waiting", "running", "paused", "done", "failed"))
        ],
    ),
    "settings": lambda text: settings_page([FactRow(text, text)], [text]),
    "help": lambda text: help_page([RuleRow("S04", text, (text,))], {5: text}),
    "refused": lambda text: error_page(
        Refused(text, text, flag=text, position=3), text, place(text), parent=text
    ),
}


def _contents(part: object, shown: bool) -> str:
    return f"http://127.0.0.1:9/d/{shown}"


def preview_page(text: str) -> WebPage:
    """Return the preview of a URL, before any request."""
    plan, verdict = explain(text), check(text)
    url = None if verdict.invalid else parse(text)
    return look_page(text, plan, verdict, url, place(text))
