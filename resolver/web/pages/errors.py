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
from resolver.url.parsing import place_in_shown, redact
from resolver.web.dialogue.exchange import width
from resolver.web.pages.page import FactRow, PageAddressBar, WebPage, format_count, line_of

# If a policy rule refers to a component of the URL, carets (^) mark the component. The position of the
# component is also shown as text. The carets are aligned with the displayed text, in which an escaped
# character is wider than one character.

#: Number of characters of the URL that are shown on each side of the position.
_AROUND = 100
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
    place = min(place_in_shown(text, shown, position), len(shown))
    found = _WHOLE.match(shown, place)
    end = place if found is None else found.end()
    start, stop = max(0, place - _AROUND), min(len(shown), end + _AROUND)
    before = ("…" if start else "") + line_of(shown[start:place])
    marked = line_of(shown[place:end])
    after = line_of(shown[end:stop]) + ("…" if stop < len(shown) else "")
    carets = " " * width(before) + "^" * max(1, width(marked))
    return CaretLine(before, marked, after, carets, _words(place, end, len(shown)))


def _words(place: int, end: int, length: int) -> str:
    if place >= length:
        return "at the end"
    if end - place == 1:
        return f"position {place}"
    return f"positions {place} to {end - 1}"


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


def row_of(error: ResolveError) -> ErrorKind:
    return next(ROWS[kind] for kind in type(error).__mro__ if kind in ROWS)


def error_page(
    error: ResolveError,
    text: str,
    shown: str,
    place: PageAddressBar,
    *,
    parent: str | None = None,
    meant: str | None = None,
    login: LoginQuestion | None = None,
) -> WebPage:
    """Return the page of an error.

    Args:
        error: The error.
        text: The URL as requested.
        shown: The URL without its password.
        place: The page's address bar.
        parent: The URL of the parent directory.
        meant: A similar URL that the user may have meant.
        login: The login form to show.
    """
    row = row_of(error)
    blamed = shown if error.url is None else error.url
    elsewhere = blamed != shown
    position = error.position if isinstance(error, (InvalidUrl, Refused)) else None
    where = None
    if position is not None and not (elsewhere and "****" in blamed):
        where = point_at(blamed, blamed, position) if elsewhere else point_at(text, shown, position)
    refused = isinstance(error, (Refused, UnsupportedScheme, InvalidUrl))
    rule = error.rule if isinstance(error, (Refused, UnsupportedScheme)) else ""
    values = {
        "heading": row.heading,
        "url": shown,
        "text": text,
        "blamed": blamed if elsewhere else None,
        "message": error.message,
        "rule": "S01" if isinstance(error, InvalidUrl) else rule,
        "refused": refused,
        "flag": (error.flag or "") if isinstance(error, Refused) else None,
        "pointed": where,
        "known": _list_known(error),
        "said_by": error.text if isinstance(error, Declined) and error.text not in error.message else "",
        "again": None if refused else place.path,
        "parent": None if parent is None else place.href(parent),
        "edit": place.look(text),
        "meant": None if meant is None else place.look(meant),
        "meant_url": None if meant is None else redact(meant),
        "login": login,
    }
    return WebPage("error.html", f"{row.heading}: {shown}", row.status, values)


def _list_known(error: ResolveError) -> list[FactRow]:
    found = [FactRow("error", type(error).__name__), FactRow("exit code of resolve", str(error.exit_code))]
    if isinstance(error, Declined) and error.code is not None:
        found.append(FactRow("reply code of the server", error.code))
    if isinstance(error, Truncated):
        of = "" if error.expected is None else f" of {error.expected:,}"
        found.append(FactRow("received", f"{error.received:,}{of} bytes"))
    if isinstance(error, TryLater) and error.after is not None:
        found.append(FactRow("server asks to wait", format_count(round(error.after), "second", "seconds")))
    if error.attempts > 1:
        found.append(FactRow("attempts", str(error.attempts)))
    return found
