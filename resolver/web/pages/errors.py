"""Error pages: the failure, its cause, possible next steps, and the position of the error in the URL.

The error page of a refusal shows the policy rules, and states that no data was sent. The error page does not
have a button to override the refusal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from protocols.errors import (
    Declined,
    IntegrityError,
    InvalidUrl,
    LimitExceeded,
    LocalError,
    LoginRequired,
    NetworkError,
    NotFound,
    ProtocolError,
    Refused,
    ResolveError,
    TimedOut,
    TlsError,
    Truncated,
    TryLater,
    UnsupportedScheme,
)
from protocols.text import format_count
from resolver.terminal.text import measure_width
from resolver.url.parsing import place_in_shown, redact
from resolver.web.pages.page import FactRow, PageAddressBar, WebPage, format_line

# If a policy rule refers to a component of the URL, carets (^) mark the component. The position of the
# component is also shown as text. The carets are aligned with the displayed text, in which an escaped
# character is wider than one character.

#: Number of characters of the URL that are shown on each side of the position.
_CONTEXT = 100
#: Text that is marked as a unit: adjacent percent-encoded bytes, a number, a redacted password, or one
#: character.
_WHOLE = re.compile(r"(?:%[0-9A-Fa-f]{2}){1,8}|[0-9]{1,8}|[*]{4}|.", re.DOTALL)


class CaretLine(NamedTuple):
    """A marked position in a URL.

    `before`, `marked` and `after` are the truncated URL; `carets` is the line under the URL.
    """

    before: str
    marked: str
    after: str
    carets: str
    words: str


def point_at(text: str, shown: str, position: int) -> CaretLine:
    """Return a URL with a marked position.

    Args:
        text: The URL as requested.
        shown: The URL without its password.
        position: The position in `text`.
    """
    start_at = min(place_in_shown(text, shown, position), len(shown))
    match = _WHOLE.match(shown, start_at)
    end = start_at if match is None else match.end()
    start, stop = max(0, start_at - _CONTEXT), min(len(shown), end + _CONTEXT)
    before = ("…" if start else "") + format_line(shown[start:start_at])
    marked = format_line(shown[start_at:end])
    after = format_line(shown[end:stop]) + ("…" if stop < len(shown) else "")
    carets = " " * measure_width(before) + "^" * max(1, measure_width(marked))
    return CaretLine(before, marked, after, carets, _describe_position(start_at, end, len(shown)))


def _describe_position(start: int, end: int, length: int) -> str:
    if start >= length:
        return "at the end"
    if end - start == 1:
        return f"position {start}"
    return f"positions {start} to {end - 1}"


class ErrorKind(NamedTuple):
    """A kind of error, with the status code and the heading of its page."""

    status: int
    heading: str


class LoginQuestion(NamedTuple):
    """A login form on an error page.

    Attributes:
        form: The ID of the form.
        place: The scheme, host and port that receive the login.
        user: The user name in the URL.
        in_clear: Whether the login is sent without TLS.
        again: Whether the server rejected an earlier login.
    """

    form: str
    place: str
    user: str = ""
    in_clear: bool = False
    again: bool = False


#: The error pages by error class. For a subclass, the row of the nearest base class applies.
ROWS: Mapping[type[ResolveError], ErrorKind] = {
    InvalidUrl: ErrorKind(400, "Invalid URL"),
    UnsupportedScheme: ErrorKind(501, "Unsupported scheme"),
    Refused: ErrorKind(403, "Refused by the policy"),
    TimedOut: ErrorKind(504, "Timed out"),
    TlsError: ErrorKind(502, "TLS connection failed"),
    NetworkError: ErrorKind(502, "Network error"),
    LimitExceeded: ErrorKind(413, "Limit exceeded"),
    ProtocolError: ErrorKind(502, "Protocol error of the server"),
    NotFound: ErrorKind(404, "Not found"),
    LoginRequired: ErrorKind(403, "Login required"),
    TryLater: ErrorKind(503, "Temporarily unavailable on the server"),
    Declined: ErrorKind(403, "Refused by the server"),
    IntegrityError: ErrorKind(502, "Integrity check failed"),
    LocalError: ErrorKind(500, "Error on this machine"),
    ResolveError: ErrorKind(500, "Request failed"),
}


def find_kind(error: ResolveError) -> ErrorKind:
    return next(ROWS[kind] for kind in type(error).__mro__ if kind in ROWS)


def error_page(
    error: ResolveError,
    text: str,
    bar: PageAddressBar,
    *,
    parent: str | None = None,
    suggestion: str | None = None,
    login: LoginQuestion | None = None,
) -> WebPage:
    """Return the page of an error.

    Args:
        error: The error.
        text: The URL as requested.
        bar: The page's address bar, with the redacted URL.
        parent: The URL of the parent directory.
        suggestion: A similar URL that the user may have meant.
        login: The login form to show.
    """
    row, shown = find_kind(error), bar.url
    url = shown if error.url is None else error.url
    is_elsewhere = url != shown
    position = error.position if isinstance(error, (InvalidUrl, Refused)) else None
    caret_line = None
    if position is not None and not (is_elsewhere and "****" in url):
        caret_line = point_at(url, url, position) if is_elsewhere else point_at(text, shown, position)
    is_refused = isinstance(error, (Refused, UnsupportedScheme, InvalidUrl))
    rule = error.rule if isinstance(error, (Refused, UnsupportedScheme)) else ""
    values = {
        "heading": row.heading,
        "url": shown,
        "text": text,
        "error_url": url if is_elsewhere else None,
        "message": error.message,
        "rule": "S01" if isinstance(error, InvalidUrl) else rule,
        "refused": is_refused,
        "flag": (error.flag or "") if isinstance(error, Refused) else None,
        "pointed": caret_line,
        "metadata": _list_facts(error),
        "server_text": error.text if isinstance(error, Declined) and error.text not in error.message else "",
        "again": None if is_refused else bar.path,
        "parent": None if parent is None else bar.href(parent),
        "edit": bar.look(text),
        "suggestion": None if suggestion is None else bar.look(suggestion),
        "suggestion_url": None if suggestion is None else redact(suggestion),
        "login": login,
    }
    return WebPage("error.html", f"{row.heading}: {shown}", row.status, values)


def _list_facts(error: ResolveError) -> list[FactRow]:
    rows = [FactRow("error", type(error).__name__), FactRow("exit code of resolve", str(error.exit_code))]
    if isinstance(error, Declined) and error.code is not None:
        rows.append(FactRow("reply code of the server", error.code))
    if isinstance(error, Truncated):
        of = "" if error.expected is None else f" of {error.expected:,}"
        rows.append(FactRow("received", f"{error.received:,}{of} bytes"))
    if isinstance(error, TryLater) and error.after is not None:
        rows.append(FactRow("server asks to wait", format_count(round(error.after), "second")))
    if error.attempts > 1:
        rows.append(FactRow("attempts", str(error.attempts)))
    return rows
