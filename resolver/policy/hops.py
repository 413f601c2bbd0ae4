"""Where a link may lead: followed by itself (S10), picked from a menu (S20), into a session (S18)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from protocols.errors import InvalidUrl
from resolver import registry
from resolver.policy.schemes import rules_of
from resolver.policy.subject import Subject
from resolver.policy.verdict import Decision


def judge_hop(subject: Subject) -> Iterator[Decision]:
    """S10: what is followed without a person looking; asked where nobody looks."""
    target = subject.url.scheme
    if subject.source is not None and subject.source.scheme == target and subject.rules.local:
        return  # a link that stays among local files is S12's to judge, and S12 lets it pass
    if not subject.rules.followed:
        yield Decision(rule="S10", action="refuse", detail=f"{target} URLs are never followed automatically")
    elif (
        subject.source is not None
        and target not in subject.policy.allow_redirect
        and not subject.stays_in_place
    ):
        yield from _judge_way(subject.source.scheme, target)


def _judge_way(start: str, target: str) -> Iterator[Decision]:
    flag = f"--allow-redirect {target}"
    if target != start and target not in rules_of(start).leads_to:
        known = f"a link from {start}" if start else "a link from what is no URL"
        yield Decision(
            rule="S10",
            action="refuse",
            detail=f"{known} to {target} is not followed automatically",
            flag=flag,
        )
    elif _is_inside_tls(start) and not _is_inside_tls(target):
        detail = f"a link from {start} to {target} leaves TLS"
        yield Decision(rule="S10", action="warn", detail=detail, flag=flag)


def _is_inside_tls(scheme: str) -> bool:
    row = registry.find(scheme)
    return row is not None and row.tls == "always"


def judge_link(subject: Subject) -> Iterator[Decision]:
    """S20: what a gopher menu may offer a person, and where an item that is itself a link may lead."""
    yield from _judge_linked(subject)
    if subject.origin != "chosen" or subject.source is None:
        return
    offers = rules_of(subject.source.scheme).offers
    if offers is not None and subject.url.scheme not in offers | {subject.source.scheme}:
        yield Decision(
            rule="S20",
            action="refuse",
            detail=f"a gopher menu has no business linking to {subject.url.scheme}",
        )


def _judge_linked(subject: Subject) -> Iterator[Decision]:
    row = subject.row
    if row is None or row.stands_for is None:
        return
    try:
        row.stands_for(subject.url)
    except InvalidUrl as error:
        place = row.named_by[0] if row.named_by else ""
        yield Decision(rule="S20", action="refuse", detail=error.message, position=subject.start_of(place))


def judge_session(subject: Subject) -> Iterator[Decision]:
    """S18: sessions open because a person wants one, and hosts that look like options never; whom a
    plug-in hands its host to, nobody here knows. Asked where a host is not sure to be data alone."""
    if subject.endpoint is not None and subject.endpoint.host.startswith("-"):
        yield Decision(
            rule="S18",
            action="refuse",
            detail="a host that starts with a hyphen could be taken for an option",
            position=subject.start_of("host"),
        )
    if subject.rules.session and subject.origin != "user":
        yield Decision(
            rule="S18",
            action="warn",  # escalated for `derived`
            detail="an interactive session was chosen by a link, not by a person's own URL",
        )


def check_chain(chain: Sequence[str], target: str, hops: int) -> None:
    """S10: raise `Refused` when `target` was in the chain of redirects already, or would be one hop too
    many. `chain` are the URLs so far, the one that was asked for first."""
    if target in chain:
        raise Decision(rule="S10", action="refuse", detail="the redirect leads in a circle").refusal()
    check_hops(len(chain), hops)


def check_hops(count: int, hops: int) -> None:
    """S10: raise `Refused` where `count` redirects in a row are more than `hops`."""
    if count > hops:
        raise Decision(
            rule="S10",
            action="refuse",
            detail=f"more than {hops} redirects in a row",
            flag=f"--limit hops={hops + 1}",
        ).refusal()
