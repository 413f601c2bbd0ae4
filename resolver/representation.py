"""What was had of any scheme, in the words of http, for the libraries whose callers know no others."""

from __future__ import annotations

from collections.abc import Iterator

from protocols.errors import AccessDenied, Declined, LoginRequired, NotFound, TryLater
from protocols.http.dates import format_date
from protocols.reply import Facts
from resolver import registry

_STATUSES: tuple[tuple[type[Declined], int], ...] = (
    (NotFound, 404),
    (AccessDenied, 403),
    (LoginRequired, 401),
    (TryLater, 503),
)


def http_fields(facts: Facts) -> Iterator[tuple[str, str]]:
    """The facts as the header fields of a representation (RFC 9110 8), name and value; those of an http
    server as it sent them. Never raises.

    Args:
        facts: a `Response`, or any other value that has facts.

    Examples:
        >>> response = await resolver.fetch("ftp://127.0.0.1:8900/pub/a.txt")
        >>> list(resolver.http_fields(response))
        [('Content-Length', '29')]
    """
    if facts.status is not None:
        yield from facts.meta
        return
    if facts.media_type is not None:
        charset = "" if facts.charset is None else f"; charset={facts.charset}"
        yield "Content-Type", f"{facts.media_type}{charset}"
    if facts.size is not None:
        yield "Content-Length", str(facts.size)
    if facts.modified is not None:
        yield "Last-Modified", format_date(facts.modified)


def http_status(error: Declined) -> int:
    """The status code of http (RFC 9110 15) that says the same as a peer's no: an http server's own; 404,
    403, 401, 503 by the kind of error, and 502 for any other no. Never raises.

    Args:
        error: what was raised.

    Examples:
        >>> resolver.http_status(resolver.NotFound("no such file", code="550"))
        404
    """
    if error.code is not None and registry.is_of_the_web((error.url or "").partition(":")[0]):
        return int(error.code)
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 502)
