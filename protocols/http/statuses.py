"""What a status means for whoever wants the object (RFC 9110 15): here it is, it is elsewhere, or not."""

from __future__ import annotations

import re
from datetime import datetime

from protocols.errors import AccessDenied, Declined, LoginRequired, NotFound, ProtocolError, TryLater
from protocols.http.dates import parse_date
from protocols.http.head import ResponseHead
from protocols.reply import Moved

_REFUSALS: dict[int, type[Declined]] = {
    401: LoginRequired,
    403: AccessDenied,
    404: NotFound,
    407: LoginRequired,
    408: TryLater,
    410: NotFound,
    425: TryLater,
    429: TryLater,
    500: TryLater,
    502: TryLater,
    503: TryLater,
    504: TryLater,
}
#: Redirections whose Location is where the object is. 304 answers no question of ours, 305 would name a
#: proxy, 306 is unused.
_ELSEWHERE = frozenset({300, 301, 302, 303, 307, 308})
_PARTIAL = 206

_SECONDS = re.compile(r"[0-9]+", re.ASCII)
_LONGEST_WAIT = 86_400.0


def check_status(head: ResponseHead, *, part: bool = False) -> Moved | None:
    """None: the object is here, or the `part` of it that was asked for. `Moved`: it is elsewhere.

    Raises `Declined` or the class of it that the status stands for, and `ProtocolError` for a part that
    nobody asked for and for a redirection that leads nowhere.
    """
    if head.status in _ELSEWHERE and (location := _location(head)) is not None:
        return Moved(location, str(head.status))
    if head.status >= 400:
        raise _refusal(head)
    if head.status >= 300:
        raise ProtocolError(f"the server answers {head.shown}, and not where to go instead")
    if head.status == _PARTIAL and not part:
        raise ProtocolError(f"the server answers {head.shown}, but no part was asked for")
    return None


def _refusal(head: ResponseHead) -> Declined:
    kind = _REFUSALS.get(head.status, Declined)
    message, code = f"the server answers {head.shown}", str(head.status)
    if issubclass(kind, TryLater):
        after, until = _retry_after(head)
        return kind(message, code=code, text=head.reason, after=after, until=until)
    return kind(message, code=code, text=head.reason)


def _retry_after(head: ResponseHead) -> tuple[float | None, datetime | None]:
    """Retry-After, in seconds or as a date (10.2.3); a date counts from the server's own, if it has one."""
    value = "".join(head.values("retry-after")[:1])
    if _SECONDS.fullmatch(value):
        return min(float(value), _LONGEST_WAIT), None
    until, now = parse_date(value), parse_date("".join(head.values("date")[:1]))
    if until is None or now is None:
        return None, until
    return min(max(0.0, (until - now).total_seconds()), _LONGEST_WAIT), None


def _location(head: ResponseHead) -> str | None:
    """The one Location. Raises `ProtocolError` where several differ: nobody can tell which was meant."""
    found = set(head.values("location"))
    if len(found) > 1:
        raise ProtocolError(f"the server answers {head.shown} with {len(found)} different locations")
    return found.pop() or None if found else None
