"""Where a link may lead: followed by itself (S10), picked from a menu (S20), into a session (S18)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from protocols.errors import InvalidUrl
from resolver.policy.case import Case
from resolver.policy.verdict import Ruling

_WEB = frozenset({"http", "https"})
_NEVER_FOLLOWED = frozenset({"file", "telnet", "telnets", "mailto"})
#: Where one may be led from these without being asked; from any other scheme only to itself.
_FOLLOWED: dict[str, frozenset[str]] = {
    "http": _WEB,
    "https": _WEB,
    "prospero": _WEB | {"ftp", "gopher", "news", "nntp", "prospero", "wais"},
}
#: What a `URL:` selector of a gopher menu may lead to, besides gopher servers themselves.
_OFFERED = frozenset({"http", "https", "ftp", "gopher", "gophers", "news", "nntp", "wais", "telnet"})
_GOPHER = frozenset({"gopher", "gophers"})


def judge_hop(case: Case) -> Iterator[Ruling]:
    """S10: what is followed without a person looking."""
    target = case.url.scheme
    if case.origin != "derived":
        return
    if case.source is not None and case.source.scheme == target == "file":
        return  # a link that stays among local files is S12's to judge, and S12 lets it pass
    if target in _NEVER_FOLLOWED:
        yield Ruling(rule="S10", action="refuse", detail=f"{target} URLs are never followed automatically")
    elif case.source is not None and target not in case.policy.allow_redirect and not case.stays_in_place:
        yield from _judge_way(case.source.scheme, target)


def _judge_way(start: str, target: str) -> Iterator[Ruling]:
    flag = f"--allow-redirect {target}"
    if target not in _FOLLOWED.get(start, frozenset({start})):
        known = f"a link from {start}" if start else "a link from what is no URL"
        yield Ruling(
            rule="S10",
            action="refuse",
            detail=f"{known} to {target} is not followed automatically",
            flag=flag,
        )
    elif (start, target) == ("https", "http"):
        yield Ruling(rule="S10", action="warn", detail="a link from https to http leaves TLS", flag=flag)


def judge_link(case: Case) -> Iterator[Ruling]:
    """S20: what a gopher menu may offer a person, and where an item that is itself a link may lead."""
    yield from _judge_linked(case)
    if case.origin != "chosen" or case.source is None or case.source.scheme not in _GOPHER:
        return
    if case.url.scheme not in _OFFERED | {case.source.scheme}:
        yield Ruling(
            rule="S20", action="refuse", detail=f"a gopher menu has no business linking to {case.url.scheme}"
        )


def _judge_linked(case: Case) -> Iterator[Ruling]:
    selector: object = getattr(case.url, "selector", None)
    if getattr(case.url, "gophertype", None) != "h" or not isinstance(selector, bytes):
        return
    from protocols.gopher.item import check_linked, linked_url  # hardly any URL is one

    target = linked_url(selector)
    try:
        if target is not None:
            check_linked(target)
    except InvalidUrl as error:
        yield Ruling(rule="S20", action="refuse", detail=error.message, position=case.start_of("selector"))


def judge_session(case: Case) -> Iterator[Ruling]:
    """S18: sessions open because a person wants one, and hosts that look like options never."""
    if case.url.scheme not in ("telnet", "telnets"):
        return
    if case.endpoint is not None and case.endpoint.host.startswith("-"):
        yield Ruling(
            rule="S18",
            action="refuse",
            detail="a host that starts with a hyphen could be taken for an option",
            position=case.start_of("host"),
        )
    if case.origin != "user":
        yield Ruling(
            rule="S18",
            action="warn",  # hardened for `derived`
            detail="an interactive session was chosen by a link, not by a person's own URL",
        )


def check_chain(chain: Sequence[str], target: str, hops: int) -> None:
    """S10: raise `Refused` when `target` was in the chain of redirects already, or would be one hop too
    many. `chain` are the URLs so far, the one that was asked for first."""
    if target in chain:
        raise Ruling(rule="S10", action="refuse", detail="the redirect leads in a circle").refusal()
    check_hops(len(chain), hops)


def check_hops(count: int, hops: int) -> None:
    """S10: raise `Refused` where `count` redirects in a row are more than `hops`."""
    if count > hops:
        raise Ruling(
            rule="S10",
            action="refuse",
            detail=f"more than {hops} redirects in a row",
            flag=f"--limit hops={hops + 1}",
        ).refusal()
