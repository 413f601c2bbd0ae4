"""Rules on redirects (S10), menu items (S20) and sessions (S18), and on credentials (S06, S11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from protocols.authority import comparable_host
from protocols.errors import InvalidUrl
from protocols.location import Url
from resolver.policy.addresses import LOOPBACK, find_least_scope
from resolver.policy.schemes import find_rules
from resolver.policy.settings import Policy
from resolver.policy.subject import Decision, Subject, find_endpoint, is_same_endpoint, refusal
from resolver.url import registry


def judge_hop(subject: Subject) -> Iterator[Decision]:
    """Apply S10 to a URL that the client follows without confirmation, such as a redirect."""
    target, source = subject.url.scheme, subject.source
    if source is not None and source.scheme == target and (subject.rules.local or subject.rules.followed):
        return  # S12 checks links between local files
    if not subject.rules.followed:
        yield Decision("S10", "refuse", f"{target} URLs are never followed automatically")
    elif source is not None and target not in subject.policy.allow_redirect and not subject.is_same_server:
        yield from _judge_step(source.scheme, target)


def _judge_step(start: str, target: str) -> Iterator[Decision]:
    flag = f"--allow-redirect {target}"
    if target not in find_rules(start).leads_to:
        link = f"a link from {start}" if start else "a link from an invalid URL"
        yield Decision("S10", "refuse", f"{link} to {target} is not followed automatically", flag)
    elif _is_inside_tls(start) and not _is_inside_tls(target):
        yield Decision("S10", "warn", f"a link from {start} to {target} leaves TLS", flag)


def _is_inside_tls(scheme: str) -> bool:
    row = registry.find(scheme)
    return row is not None and row.tls == "always"


def judge_link(subject: Subject) -> Iterable[Decision]:
    """Apply S20 to a link in a menu, and to the target of a URL that only wraps another URL."""
    row = subject.row
    decisions: tuple[Decision, ...] = ()
    if row is not None and row.stands_for is not None:
        try:
            row.stands_for(subject.url)
        except InvalidUrl as error:
            place = row.named_by[0] if row.named_by else ""
            decisions += (Decision("S20", "refuse", error.message, position=subject.find_start(place)),)
    if subject.origin != "chosen" or subject.source is None:
        return decisions
    offers = find_rules(subject.source.scheme).offers
    if offers is not None and subject.url.scheme not in offers | {subject.source.scheme}:
        detail = f"a gopher menu must not link to {subject.url.scheme} URLs"
        decisions += (Decision("S20", "refuse", detail),)
    return decisions


def judge_session(subject: Subject) -> Iterator[Decision]:
    """Apply S18 to sessions, and to hosts that look like command-line options (argument injection).

    Only the user may start an interactive session. The rule also applies to the schemes of plug-ins, because
    their hosts may become arguments of a program.
    """
    if subject.endpoint is not None and subject.endpoint.host.startswith("-"):
        detail = "a host that starts with a hyphen could be read as an option"
        yield Decision("S18", "refuse", detail, position=subject.find_start("host"))
    if subject.rules.session and subject.origin != "user":
        # `escalate_warnings` turns a warning for the origin `derived` into a refusal.
        detail = "a link requests an interactive session; only the user may start sessions"
        yield Decision("S18", "warn", detail)


def check_chain(chain: Sequence[str], target: str, hops: int) -> None:
    """Apply S10 to a redirect: check for a redirect loop and for the maximum number of redirects.

    Args:
        chain: the URLs so far, the requested URL first.
        target: the URL of the redirect. If `chain` contains this URL, the redirect is a loop.
        hops: the maximum number of consecutive redirects.

    Raises:
        Refused: the redirect is a loop, or exceeds the maximum number.
    """
    if target in chain:
        raise refusal("S10", "the redirect forms a loop")
    check_hops(len(chain), hops)


def check_hops(count: int, hops: int) -> None:
    """Apply S10: raise `Refused` if `count` consecutive redirects exceed the maximum `hops`."""
    if count > hops:
        raise refusal("S10", f"more than {hops} consecutive redirects", flag=f"--limit hops={hops + 1}")


# Credentials: user names and passwords in URLs (S06), passwords on connections without TLS (S06), and the
# hosts that may receive credentials (S11).

_FLAG = "--allow-password"

#: The request headers that may be sent to any host after a redirect (S11). The listed headers do not contain
#: secrets: they describe only the message, or the formats that the client accepts.
_HARMLESS = frozenset(
    {
        *(b"accept", b"accept-charset", b"accept-encoding", b"accept-language", b"user-agent"),
        *(b"cache-control", b"pragma", b"range"),
        *(b"if-match", b"if-modified-since", b"if-none-match", b"if-range", b"if-unmodified-since"),
        *(b"connection", b"host", b"transfer-encoding"),
        *(b"content-encoding", b"content-language", b"content-length", b"content-type"),
    }
)


def judge_user_information(subject: Subject) -> Iterable[Decision]:
    """Apply S06 (passwords) to the user information of the URL.

    In URLs of some schemes, user information is not allowed (RFC 1738 3.2, 3.8, RFC 5538 2.2). In these URLs,
    text before `@` only imitates a host name (phishing).
    """
    url = subject.url
    user, password = getattr(url, "user", None), getattr(url, "password", None)
    is_builtin = url.scheme in registry.SCHEMES
    place = None if is_builtin else url.place("password")  # of others, perhaps only its position is known
    decisions: tuple[Decision, ...] = ()
    if (password or (place is not None and place.start < place.end)) and not subject.policy.allow_password:
        detail = "the URL contains a password, which may be stored with the URL"
        decisions += (Decision("S06", "warn", detail, _FLAG, subject.find_start("password")),)
    allows_user = subject.row is not None and subject.row.userinfo
    if allows_user or subject.endpoint is None:
        return decisions
    if user is not None or password is not None or (not is_builtin and _has_hidden_user(url)):
        detail = f"{url.scheme} URLs have no user information; the host is {subject.endpoint.host!r}"
        # No option allows this URL, because the danger is the disguised host and not the password.
        decisions += (Decision("S06", "warn", detail, position=subject.find_start("user")),)
    return decisions


def _has_hidden_user(url: Url) -> bool:
    """Return whether a URL has user information that the parser of a plug-in removed or renamed."""
    from protocols import other  # lazy import: few URLs have an unknown scheme

    return other.has_user_information(url)


def judge_password_in_clear(address: str, policy: Policy, *, tls: bool) -> Iterator[Decision]:
    """Apply S06: without TLS, anyone on the path to `address` can read the password."""
    if tls or policy.allow_password or find_least_scope(address) is LOOPBACK:
        return
    yield Decision("S06", "warn", f"a password is sent to {address} without TLS", _FLAG)


def may_send_early(host: str, policy: Policy, *, tls: bool) -> bool:
    """Return whether a password may be sent before the server requests credentials (S06).

    The connection must use TLS or end on this machine, or the policy must allow passwords.
    """
    is_local = comparable_host(host) == "localhost" or find_least_scope(host) is LOOPBACK
    return tls or policy.allow_password or is_local


def select_harmless(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
    """Return the request headers that may be sent to another host after a redirect (S11)."""
    return tuple((name, value) for name, value in headers if name.lower() in _HARMLESS)


def may_carry_credentials(from_url: Url, to_url: Url, policy: Policy) -> bool:
    """Return whether credentials for `from_url` may also be sent to `to_url` (S11, credential leak).

    Both URLs must have the same origin (scheme, host and port). If the origins differ, the policy must list
    the host of `to_url`. A subdomain, another port, and https instead of http are different targets.
    """
    target = find_endpoint(to_url)
    if target is None or find_endpoint(from_url) is None:
        return False
    return comparable_host(target.host) in policy.allow_forward or is_same_origin(from_url, to_url)


def is_same_origin(url: Url, other: Url) -> bool:
    """Return whether both URLs have the same scheme, host and port."""
    place = find_endpoint(other)
    return url.scheme == other.scheme and place is not None and is_same_endpoint(find_endpoint(url), place)
