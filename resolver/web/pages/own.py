"""Pages of the web UI itself: start, history, bookmarks, transfers, settings, words; mail and services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from resolver.transfer.response import Response, decode_text
from resolver.url.parsing import redact
from resolver.web.pages.article import parts_of
from resolver.web.pages.gopher import command_of
from resolver.web.pages.page import FactRow, PageAddressBar, WebPage, octets, text_of

#: Of what was opened, what the first page shows.
_LATELY = 10


class OpenedUrl(NamedTuple):
    """A URL (redacted) that was opened or kept, what its page is called, and when that was."""

    url: str
    title: str
    when: datetime | None = None


class RuleRow(NamedTuple):
    """A rule of the policy in a sentence, and the options that make it milder."""

    name: str
    sentence: str
    options: Sequence[str] = ()


class SavedTransfer(NamedTuple):
    """One file that is saved, or was. `state` is waiting, running, paused, done or failed; `number` is how
    its buttons name it. `expected` is None where nobody announced a size; `rate` is in octets a second."""

    number: int
    name: str
    url: str
    state: str
    received: int
    expected: int | None = None
    rate: float | None = None
    digest: str = ""
    verified: Sequence[str] = ()
    error: str = ""


class UrlRow(NamedTuple):
    """A row of a list of URLs. `kept` is the URL as it was given, `url` the same without a password."""

    href: str
    kept: str
    url: str
    title: str
    date: str
    moment: str


class TransferRow(NamedTuple):
    """A transfer in words, and the buttons that it has."""

    number: int
    name: str
    url: str
    href: str
    state: str
    amount: str
    percent: int | None
    rate: str
    proofs: str
    error: str
    buttons: tuple[tuple[str, str], ...]


_BUTTONS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "waiting": (("stop", "stop"),),
    "running": (("pause", "pause"), ("stop", "stop")),
    "paused": (("resume", "go on"), ("stop", "stop")),
    "failed": (("resume", "go on"),),
    "done": (),
}


def start_page(
    place: PageAddressBar, lately: Sequence[OpenedUrl] = (), schemes: Sequence[tuple[str, str]] = ()
) -> WebPage:
    """Where a person begins. `schemes` are those that are resolved here, and what their URLs name."""
    values = {"lately": _lines(lately[:_LATELY], place), "schemes": list(schemes)}
    return WebPage("start.html", "resolve", 200, values)


def history_page(place: PageAddressBar, opened: Sequence[OpenedUrl]) -> WebPage:
    """The newest first, as they are given."""
    return WebPage("history.html", "History", 200, {"lines": _lines(opened, place)})


def bookmarks_page(
    place: PageAddressBar, kept: Sequence[OpenedUrl], address: str = "", complaint: str = ""
) -> WebPage:
    """`address` is a URL that may be kept, if the person came from its page; `complaint` says why nothing can
    be kept."""
    values = {"lines": _lines(kept, place), "address": address, "complaint": complaint}
    return WebPage("bookmarks.html", "Bookmarks", 200, values)


def transfers_page(
    place: PageAddressBar, transfers: Sequence[SavedTransfer], change: int = 0, complaint: str = ""
) -> WebPage:
    """The page asks again every few seconds as long as something runs, where no script does; a script is told
    what comes behind `change`. `complaint` says why another run will not know of them."""
    values = {
        "transfers": [transfer_shown(each, place) for each in transfers],
        "runs": any(each.state in ("waiting", "running") for each in transfers),
        "change": change,
        "complaint": complaint,
    }
    return WebPage("transfers.html", "Transfers", 200, values)


def settings_page(
    rows: Iterable[FactRow], handlers: Sequence[str] = (), logins: Sequence[str] = ()
) -> WebPage:
    """What holds here, and where it is from; `handlers` are the schemes that this browser may be asked to
    hand over, `logins` the places that one is held for."""
    values = {"rows": list(rows), "handlers": list(handlers), "logins": list(logins)}
    return WebPage("settings.html", "Settings", 200, values)


def help_page(rules: Sequence[RuleRow], statuses: Mapping[int, str]) -> WebPage:
    values = {"rules": list(rules), "statuses": list(statuses.items())}
    return WebPage("help.html", "Help", 200, values)


def _lines(opened: Iterable[OpenedUrl], place: PageAddressBar) -> list[UrlRow]:
    return [
        UrlRow(
            place.look(each.url),
            each.url,
            redact(each.url),
            "" if each.title == each.url else each.title,
            "" if each.when is None else f"{each.when:%Y-%m-%d %H:%M}",
            "" if each.when is None else each.when.isoformat(),
        )
        for each in opened
    ]


def transfer_shown(one: SavedTransfer, place: PageAddressBar) -> TransferRow:
    """Its row."""
    of = "" if one.expected is None else f" of {one.expected:,}"
    percent = None
    if one.expected and one.state != "done":
        percent = min(100, one.received * 100 // one.expected)
    return TransferRow(
        one.number,
        one.name,
        one.url,
        place.look(one.url),
        one.state,
        octets(one.received) if one.state == "done" else f"{one.received:,}{of} octets",
        percent,
        "" if one.rate is None or one.state != "running" else _rate(one.rate),
        ", ".join([*([one.digest] if one.digest else []), *one.verified]),
        one.error,
        _BUTTONS.get(one.state, ()),
    )


def _rate(rate: float) -> str:
    for unit in ("B", "kB", "MB"):
        if rate < 1000:
            return f"{rate:.0f} {unit}/s" if unit == "B" else f"{rate:.1f} {unit}/s"
        rate /= 1000
    return f"{rate:.1f} GB/s"


# A mailto URL as the draft of a mail. No mail is sent, and no program is started.


def mail_page(response: Response, place: PageAddressBar) -> WebPage:
    """The draft, as the reply of the URL has it: who it goes to, what it says, and what of the URL is not in
    it."""
    addresses = (response.extra or {}).get("addresses")
    body = parts_of(response.content)[0].text
    values = {
        "addresses": [str(each) for each in addresses] if isinstance(addresses, list) else [],
        "fields": [FactRow(name.title(), value) for name, value in response.meta if name.lower() != "body"],
        "body": body,
        "draft": decode_text(response.content, None),
        "found": [finding for finding in response.findings if finding.action != "allow"],
        "target": response.target,
    }
    return WebPage("mail.html", place.url, 200, values)


# A terminal session: its host, its user, and the command that opens it. A page never opens one (S18).


def service_page(response: Response, place: PageAddressBar) -> WebPage:
    """What the reply of the URL says of it."""
    extra = response.extra or {}
    port = extra.get("port")
    values = {
        "target": response.target or place.url,
        "command": command_of(response.target or place.url),
        "service": text_of(extra, "service"),
        "host": text_of(extra, "host"),
        "port": port if isinstance(port, int) else None,
        "login": text_of(extra, "login"),
        "found": response.findings,
    }
    return WebPage("service.html", place.url, 200, values)
