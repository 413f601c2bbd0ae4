"""Pages without a retrieved document: start, history, transfers, settings, help, mail drafts and services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from protocols.text import Masked, format_count
from resolver.transfer.response import Response, decode_as
from resolver.url.parsing import redact
from resolver.web.pages.article import list_parts
from resolver.web.pages.gopher import make_command
from resolver.web.pages.page import FactRow, PageAddressBar, WebPage, get_text

#: Number of recent URLs on the start page.
_MAX_RECENT = 10


class OpenedUrl(NamedTuple):
    """An entry of the history or the bookmarks: the redacted URL and the page title."""

    url: str
    title: str


class RuleRow(NamedTuple):
    """A rule of the policy: a description in one sentence, and the options that relax the rule."""

    name: str
    sentence: str
    options: Sequence[str] = ()


class SavedTransfer(NamedTuple):
    """A transfer of a file.

    Attributes:
        number: The number that identifies the transfer in the forms of its buttons.
        state: The state: waiting, running, paused, done or failed.
        received: The number of bytes received so far.
        expected: The size in bytes; None if the server did not send the size.
        rate: The transfer rate in bytes/s.
    """

    number: int
    name: str
    url: Masked
    state: str
    received: int
    expected: int | None = None
    rate: float | None = None
    digest: str = ""
    verified: Sequence[str] = ()
    error: str = ""


class UrlRow(NamedTuple):
    """A row in a list of URLs. `text` is the original URL. In `url`, the password is redacted."""

    href: str
    text: str
    url: Masked
    title: str


class TransferRow(NamedTuple):
    """A row for a transfer, with its buttons."""

    number: int
    name: str
    url: Masked
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
    "paused": (("resume", "resume"), ("stop", "stop")),
    "failed": (("resume", "resume"),),
    "done": (),
}


def start_page(
    bar: PageAddressBar, recent: Sequence[OpenedUrl] = (), schemes: Sequence[tuple[str, str]] = ()
) -> WebPage:
    """Return the start page; `schemes` has the supported schemes and a description of their URLs."""
    values = {"recent": _make_lines(recent[:_MAX_RECENT], bar), "schemes": list(schemes)}
    return WebPage("start.html", "resolve", 200, values)


def history_page(bar: PageAddressBar, opened: Sequence[OpenedUrl]) -> WebPage:
    """Return the history page; the first item of `opened` is the newest."""
    return WebPage("history.html", "History", 200, {"lines": _make_lines(opened, bar)})


def bookmarks_page(bar: PageAddressBar, bookmarks: Sequence[OpenedUrl]) -> WebPage:
    return WebPage("bookmarks.html", "Bookmarks", 200, {"lines": _make_lines(bookmarks, bar)})


def transfers_page(
    bar: PageAddressBar, transfers: Sequence[SavedTransfer], change: int = 0, complaint: str = ""
) -> WebPage:
    """Return the transfers page.

    If JavaScript is disabled, the page reloads every few seconds while a transfer runs. If JavaScript is
    enabled, a script receives all changes after the change number `change`.

    Args:
        bar: The page's address bar.
        transfers: The transfers, the newest first.
        change: The number of the last change on the page.
        complaint: The reason why transfers are not recorded for later runs.
    """
    values = {
        "transfers": [make_transfer_row(transfer, bar) for transfer in transfers],
        "runs": any(transfer.state in ("waiting", "running") for transfer in transfers),
        "change": change,
        "complaint": complaint,
    }
    return WebPage("transfers.html", "Transfers", 200, values)


def settings_page(rows: Iterable[FactRow], logins: Iterable[str]) -> WebPage:
    """Return the settings page.

    Args:
        rows: The effective settings and their sources.
        logins: The scheme, host and port of each stored login, as text.
    """
    return WebPage("settings.html", "Settings", 200, {"rows": list(rows), "logins": list(logins)})


def help_page(rules: Sequence[RuleRow], statuses: Mapping[int, str]) -> WebPage:
    values = {"rules": list(rules), "statuses": list(statuses.items())}
    return WebPage("help.html", "Help", 200, values)


def _make_lines(opened: Iterable[OpenedUrl], bar: PageAddressBar) -> list[UrlRow]:
    return [
        UrlRow(bar.look(page.url), page.url, redact(page.url), "" if page.title == page.url else page.title)
        for page in opened
    ]


def make_transfer_row(transfer: SavedTransfer, bar: PageAddressBar) -> TransferRow:
    received = format_count(transfer.received, "byte")
    if transfer.state != "done":
        of = "" if transfer.expected is None else f" of {transfer.expected:,}"
        received = f"{transfer.received:,}{of} bytes"
    percent = None
    if transfer.expected and transfer.state != "done":
        percent = min(100, transfer.received * 100 // transfer.expected)
    return TransferRow(
        transfer.number,
        transfer.name,
        transfer.url,
        bar.look(transfer.url),
        transfer.state,
        received,
        percent,
        "" if transfer.rate is None or transfer.state != "running" else _format_rate(transfer.rate),
        ", ".join([*([transfer.digest] if transfer.digest else []), *transfer.verified]),
        transfer.error,
        _BUTTONS.get(transfer.state, ()),
    )


def _format_rate(rate: float) -> str:
    for unit in ("B", "kB", "MB"):
        if rate < 1000:
            return f"{rate:.0f} {unit}/s" if unit == "B" else f"{rate:.1f} {unit}/s"
        rate /= 1000
    return f"{rate:.1f} GB/s"


# The page of a mailto URL shows a draft. A mail is not sent, and a mail program is not started.


def mail_page(response: Response, bar: PageAddressBar) -> WebPage:
    """Return the page of a mail draft: recipients, text, and ignored parts of the URL."""
    addresses = (response.extra or {}).get("addresses")
    body = list_parts(response.content)[0].text
    values = {
        "addresses": [str(address) for address in addresses] if isinstance(addresses, list) else [],
        "fields": [FactRow(name.title(), value) for name, value in response.meta if name.lower() != "body"],
        "body": body,
        "draft": decode_as(response.content, None),
        "warnings": [finding for finding in response.findings if finding.action != "allow"],
    }
    return WebPage("mail.html", bar.url, 200, values)


# The page of a terminal session shows the host, the user, and the shell command that opens the session. A
# page never opens a terminal session (S18).


def service_page(response: Response, bar: PageAddressBar) -> WebPage:
    extra = response.extra or {}
    port = extra.get("port")
    values = {
        "command": make_command(response.target or bar.url),
        "service": get_text(extra, "service"),
        "host": get_text(extra, "host"),
        "port": port if isinstance(port, int) else None,
        "login": get_text(extra, "login"),
        "warnings": response.findings,
    }
    return WebPage("service.html", bar.url, 200, values)
