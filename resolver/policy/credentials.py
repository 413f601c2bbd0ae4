"""User names and passwords: in URLs (S06), in clear (S06), and where they may go (S11)."""

from __future__ import annotations

from collections.abc import Iterator

from protocols.location import Url
from resolver.policy.addresses import Reach, classify
from resolver.policy.case import Case, endpoint_of
from resolver.policy.settings import Policy
from resolver.policy.verdict import Ruling

#: Schemes whose URLs have no user information (RFC 1738 3.3, 3.4, 3.7, 3.9, 3.11) and their siblings.
_WITHOUT = frozenset({"http", "https", "gopher", "gophers", "nntp", "nntps", "wais", "prospero"})
_FLAG = "--allow-password"


def judge_user_information(case: Case) -> Iterator[Ruling]:
    """S06, the part that the URL alone decides."""
    if _holds_password(case.url) and not case.policy.allow_password:
        yield Ruling(
            rule="S06",
            action="warn",
            detail="the URL holds a password, which may be kept wherever the URL is",
            flag=_FLAG,
            position=case.start_of("password"),
        )
    given = getattr(case.url, "user", None) is not None or getattr(case.url, "password", None) is not None
    if given and case.url.scheme in _WITHOUT and case.endpoint is not None:
        # No flag: it is a host dressed up as another that this is about, not the password.
        yield Ruling(
            rule="S06",
            action="warn",
            detail=f"{case.url.scheme} URLs have no user information; the host is {case.endpoint.host!r}",
            position=case.start_of("user"),
        )


def _holds_password(url: Url) -> bool:
    """A URL of a scheme unknown here has no such component, but its place is known."""
    place = url.place("password")
    return bool(getattr(url, "password", None)) or (place is not None and place.start < place.end)


def judge_password_in_clear(address: str, policy: Policy, *, tls: bool) -> Iterator[Ruling]:
    """S06, the part that the connection decides: anyone on the way to `address` can read along."""
    if tls or policy.allow_password or classify(address) is Reach.LOOPBACK:
        return
    yield Ruling(
        rule="S06",
        action="warn",
        detail=f"a password goes to {address} without TLS",
        flag=_FLAG,
    )


def may_carry_credentials(from_url: Url, to_url: Url, policy: Policy) -> bool:
    """S11: may what was given for `from_url` be sent to `to_url` too?

    Only to the same scheme, host and port, or to a host that the person named. A subdomain, another
    port, or https of the same host is another place.
    """
    given_for, target = endpoint_of(from_url), endpoint_of(to_url)
    if given_for is None or target is None:
        return False
    if target.host.lower().removesuffix(".") in policy.allow_forward:
        return True
    return (from_url.scheme, given_for.host.lower(), given_for.port) == (
        to_url.scheme,
        target.host.lower(),
        target.port,
    )
