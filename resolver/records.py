"""Findings, as they are given and as the command prints them."""

from __future__ import annotations

from protocols.location import Finding, JsonValue, Url


def spelling_of(url: Url) -> tuple[Finding, ...]:
    """What RFC 1738 would have written differently, as findings beside the policy's."""
    return tuple(Finding(name, "allow", "spelling of the URL") for name in url.findings)


def finding_record(finding: Finding) -> dict[str, JsonValue]:
    return {"rule": finding.rule, "action": finding.action, "detail": finding.detail}
