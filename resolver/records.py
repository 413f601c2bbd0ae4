"""JSON forms of the values the command prints: one function a record, every member always there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocols.location import Finding, JsonValue, Url

if TYPE_CHECKING:  # a plan has findings, and neither entries nor dates
    from datetime import datetime

    from protocols.contract import Entry


def instant(moment: datetime | None) -> str | None:
    """RFC 3339 in UTC, to the second; a moment without a zone counts as UTC."""
    if moment is None:
        return None
    from datetime import UTC  # as above

    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def spelling_of(url: Url) -> tuple[Finding, ...]:
    """What RFC 1738 would have written differently, as findings beside the policy's."""
    return tuple(Finding(name, "allow", "spelling of the URL") for name in url.findings)


def finding_record(finding: Finding) -> dict[str, JsonValue]:
    return {"rule": finding.rule, "action": finding.action, "detail": finding.detail}


def entry_record(entry: Entry) -> dict[str, JsonValue]:
    """`raw` is one character per octet; `referrer` is `[url, address]`."""
    return {
        "name": entry.name,
        "url": entry.url,
        "kind": entry.kind.value,
        "size": entry.size,
        "modified": instant(entry.modified),
        "title": entry.title,
        "raw": None if entry.raw is None else entry.raw.decode("latin-1"),
        "extra": None if entry.extra is None else dict(entry.extra),
        "origin": entry.origin,
        "referrer": None if entry.referrer is None else [entry.referrer.url, entry.referrer.address],
    }
