"""Which of the places that a list names for one file are asked."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from protocols.errors import InvalidUrl
from protocols.location import Finding
from resolver.cli.permissions import policy_of
from resolver.iri import convert_iri
from resolver.policy import check
from resolver.url import redact

if TYPE_CHECKING:
    from collections.abc import Iterable

    from resolver.cli.arguments import Command
    from resolver.cli.lists import ListSource

#: Places that are told of by themselves: a list may name a thousand.
_MOST_TOLD = 5


def sift(
    urls: Iterable[str], source: ListSource, command: Command
) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """Those that the policy lets be asked, in their order, and what it has against the others; all of them
    where it lets none be."""
    places = [_as_url(url) for url in urls]
    if len(places) == 1:
        return tuple(places), ()
    policy = policy_of(command.found)
    kept, findings = [], []
    for url in places:
        verdict = check(
            url,
            policy=policy,
            origin=source.origin,
            referrer=source.referrer,
            gateways=command.gateways,
        )
        if verdict.action != "refuse":
            kept.append(url)
            continue
        why = next(finding for finding in verdict.findings if finding.action == "refuse")
        findings.append(
            Finding("list:place", "allow", f"{redact(url)} is not asked: {why.rule}: {why.detail}")
        )
    if not kept:
        return tuple(places), ()
    if len(findings) > _MOST_TOLD:
        more = Finding("list:place", "allow", f"{len(findings) - _MOST_TOLD} more places are not asked")
        findings = [*findings[:_MOST_TOLD], more]
    return tuple(kept), tuple(findings)


def _as_url(text: str) -> str:
    """A place may be written as an IRI (RFC 5854 1.1)."""
    if not text.isascii():
        with suppress(InvalidUrl):  # which is told of it
            return convert_iri(text)
    return text
