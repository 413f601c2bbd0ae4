"""The order of the rules, and the verdicts before a DNS lookup, after the lookup, and on a connection.

The order of the rules is S19, S10, S20, S12, S18, S02, S03, S05, S04, S06, S07, S22, S09 for proxies, then
S08. All rules run, so that a verdict lists every objection. Each rule applies its own overrides and
exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from protocols.authority import comparable_host
from protocols.errors import InvalidUrl, Unreachable
from protocols.location import Origin, Referrer, Url
from resolver.policy.addresses import judge_address, literal_addresses
from resolver.policy.components import (
    judge_allowed_host,
    judge_form,
    judge_name,
    judge_octets,
    judge_port,
)
from resolver.policy.files import judge_file
from resolver.policy.proxies import judge_proxy, proxy_variables
from resolver.policy.redirects import (
    judge_hop,
    judge_link,
    judge_password_in_clear,
    judge_session,
    judge_user_information,
)
from resolver.policy.schemes import through_gateway
from resolver.policy.settings import Policy
from resolver.policy.subject import (
    ALLOW,
    Decision,
    NewsServer,
    Subject,
    Verdict,
    combine_decisions,
    escalate_warnings,
    find_endpoint,
)
from resolver.url import registry
from resolver.url.parsing import make_url, parse

Rule: TypeAlias = Callable[[Subject], Iterable[Decision]]

_EMPTY: Mapping[str, str] = {}


def judge(
    url: Url,
    policy: Policy,
    *,
    origin: Origin = "user",
    referrer: Referrer | None = None,
    gateways: Mapping[str, str] = _EMPTY,
    server: NewsServer | None = None,
    variables: Mapping[str, str] = _EMPTY,
) -> Verdict:
    """Apply all rules that need no DNS lookup, and return the verdict.

    S08 (address scopes) is applied only if the host is an IP address or `localhost`. If a gateway is
    configured for the scheme, the rules are applied to the URL of the gateway. Its origin is "user".

    Args:
        url: the URL to check.
        policy: the policy that decides.
        origin: the origin of the URL.
        referrer: the URL that led to this URL, and the IP address it was fetched from.
        gateways: the user's gateways by scheme.
        server: the user's news server, for `news:` URLs without a server.
        variables: the proxy variables of the environment.
    """
    return judge_subject(Subject(url, policy, origin, referrer, server, variables), gateways)


def judge_subject(
    subject: Subject, gateways: Mapping[str, str], resolved: Sequence[str] | None = None
) -> Verdict:
    """Return the verdict of the rules of `judge` on an existing `Subject`.

    S08 uses the addresses in `resolved` if the host needs a DNS lookup.
    """
    objections: list[Decision] = []
    if subject.row is None or subject.row.needs is not None:
        objections += _judge_scheme(subject, gateways)
    for rule, origin in _rules_on(subject):
        if decisions := list(rule(subject)):
            objections += escalate_warnings(decisions, subject.policy, origin)
    if subject.endpoint is not None:
        addresses = literal_addresses(subject.endpoint.host) or resolved
        if addresses is not None:
            objections += sift_addresses(subject, addresses)[1].decisions
    return combine_decisions(objections) if objections else ALLOW


def sift_addresses(subject: Subject, addresses: Sequence[str]) -> tuple[tuple[str, ...], Verdict]:
    """Apply S08 to several addresses of one host, after a DNS lookup.

    Refused addresses are removed, and the verdict concerns only the remaining addresses. If no address
    remains, the verdict is `refuse`.

    Returns:
        The allowed addresses in the same order, and the verdict.
    """
    source, origin = None if subject.source is None else subject.source.address, subject.address_origin
    judged: list[tuple[str, Decision]] = []
    for address in addresses:
        decision = judge_address(address, subject.policy, origin, source)
        if decision is not None:
            judged.append((address, escalate_warnings((decision,), subject.policy, origin)[0]))
    if not judged:
        return tuple(addresses), ALLOW
    refused = {address for address, decision in judged if decision.action == "refuse"}
    allowed = tuple(address for address in addresses if address not in refused)
    return allowed, combine_decisions(
        decision for address, decision in judged if address not in refused or not allowed
    )


def judge_credentials(
    url: Url, address: str, policy: Policy, *, tls: bool, origin: Origin = "user"
) -> Verdict:
    """Apply S06 before the client sends a password to `address` on the connection for `url`."""
    return combine_decisions(
        escalate_warnings(judge_password_in_clear(address, policy, tls=tls), policy, origin)
    )


def _rules_on(subject: Subject) -> list[tuple[Rule, Origin]]:
    """Return the rules in their order, each with an origin.

    With the origin `derived`, the warnings of a rule become refusals. If an optional component is absent from
    the URL, the rules on this component are omitted.
    """
    row, rules, origin = subject.row, subject.rules, subject.origin
    selected: list[tuple[Rule, Origin]] = []
    if origin == "derived":
        selected.append((judge_hop, origin))
    if origin == "chosen" or (row is not None and row.stands_for is not None):
        selected.append((judge_link, origin))
    if rules.local:
        selected.append((judge_file, origin))
    if not rules.host_is_data:
        selected.append((judge_session, origin))
    selected += ((judge_octets, origin),)
    if rules.form is not None and getattr(subject.url, rules.form) is not None:
        selected.append((judge_form, origin))
    at_server = subject.server_origin
    selected += (judge_port, at_server), (judge_user_information, origin), (judge_name, at_server)
    if subject.policy.allowed_hosts is not None:
        selected.append((judge_allowed_host, origin))
    if subject.variables:
        selected.append((judge_proxy, "user"))
    return selected


def _judge_scheme(subject: Subject, gateways: Mapping[str, str]) -> Iterable[Decision]:
    """Apply S19: a scheme without a handler needs a gateway.

    A scheme whose extra is not installed counts as a scheme without a handler. The message suggests a gateway
    only for scheme names that RFC 1738 reserves (sections 4 and 5). Any other scheme name is probably a
    typing error.
    """
    scheme = subject.url.scheme
    missing = registry.explain_missing(scheme)
    can_map = missing or scheme in registry.RESERVED or scheme.startswith("x-")
    if missing is None and subject.row is not None:
        return ()
    if scheme in gateways:
        return _judge_gateway(subject, gateways)
    flag = f"--gateway {scheme}=URL" if can_map else None
    return (Decision("S19", "refuse", missing or _explain_no_handler(scheme), flag, position=0),)


def _explain_no_handler(scheme: str) -> str:
    use = registry.RESERVED.get(scheme)
    if use is None:
        return f"scheme {scheme!r} is unknown and has no handler"
    return (
        f"scheme {scheme!r} is reserved for {use} (RFC 1738 section 4) and has no handler"
        " (configure a gateway to use it)"
    )


def _judge_gateway(subject: Subject, gateways: Mapping[str, str]) -> Iterable[Decision]:
    """Apply all rules to the gateway's URL, with the origin "user", because the user chose the gateway.

    The decisions have no position, because an index in the gateway's URL has no meaning in the original URL.
    """
    try:
        target = through_gateway(subject.url, gateways)
    except InvalidUrl as error:
        return (Decision("S19", "refuse", f"the gateway is not a URL: {error.message}"),)
    decisions = () if target is None else judge(target, subject.policy, variables=subject.variables).decisions
    return [
        decision._replace(detail=f"the gateway's URL: {decision.detail}", position=None)
        for decision in decisions
    ]


def check(
    url: str | Url,
    *,
    policy: Policy | str | None = None,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
    resolves: Mapping[str, Sequence[str]] | None = None,
    gateways: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    proxy: str | None = None,
) -> Verdict:
    """Return the policy's verdict on a URL, without any I/O.

    The function never raises an error for text that is not a URL: rule S01 refuses the text.

    Args:
        url: the URL, as text or parsed.
        policy: the policy or its name, or None for the default policy.
        origin: the origin of the URL: "user", "chosen" or "derived".
        referrer: the URL that led to this URL, and the IP address it was fetched from.
        resolves: DNS results by host name, for S08 (address scopes). Without DNS results, S08 checks only
            IP addresses and `localhost`.
        gateways: the user's gateways by scheme.
        environment: a mapping that may hold proxy variables (S09), for example `os.environ`, which is not
            read automatically.
        proxy: the proxy for all URLs, or `none`.

    Examples:
        >>> verdict = resolver.check("gopher://h.example:25/0x")
        >>> verdict.action, [finding.rule for finding in verdict.findings]
        ('refuse', ['S04'])
        >>> inside = {"h.example": ["10.0.0.1"]}
        >>> resolver.check("http://h.example/", policy=resolver.Policy.untrusted(), resolves=inside).action
        'refuse'
    """
    try:
        parsed = make_url(url, origin=origin)
    except InvalidUrl as error:
        return judge_refused_text(error)
    where = None if referrer is None else Referrer(*referrer)
    variables = proxy_variables(environment or {}, proxy)
    allowed = Policy.default() if policy is None else Policy.of(policy)
    subject = Subject(parsed, allowed, origin, where, variables=variables)
    host = "" if subject.endpoint is None else subject.endpoint.host
    resolved = {comparable_host(name): ips for name, ips in (resolves or {}).items()}
    return judge_subject(subject, gateways or {}, resolved.get(comparable_host(host)))


def judge_refused_text(error: InvalidUrl) -> Verdict:
    """Return the verdict of S01 for a text that is not a URL."""
    decision = Decision("S01", "refuse", error.message, position=error.position)
    return Verdict(action="refuse", decisions=(decision,), invalid=error)


# `guard` prevents SSRF in programs with another HTTP client. The function returns the IP addresses of a host
# to which the program may connect.
#
# `guard` and the gate apply the same rules, because `guard` checks a URL with the host and the port. Both
# `guard` and the gate refuse an invalid host, a port of another protocol and an internal address.


def guard(
    host: str,
    addresses: Iterable[str] = (),
    *,
    port: int | None = None,
    scheme: str = "http",
    policy: Policy | str | None = None,
    origin: Origin = "user",
    referrer: tuple[str, str | None] | None = None,
) -> tuple[str, ...]:
    """Return the IP addresses of a host that the policy allows (prevents SSRF).

    The order of the addresses does not change.

    The function does not make a DNS lookup. If the host is an IP address or `localhost`, `addresses` may be
    empty.

    Args:
        host: a name or an address, without a port.
        addresses: the result of the caller's DNS lookup of the host.
        port: the port to connect to, or None for the scheme's default port.
        scheme: the scheme whose rules and default port apply.
        policy: the policy or its name, or None for the policy `untrusted`.
        origin: the origin of the host: "user", "chosen" or "derived".
        referrer: the URL that led to the host, and the IP address it was fetched from.

    Raises:
        InvalidUrl: `host` is not a host (S01).
        Refused: a rule refuses the host, or no address is left.
        Unreachable: the host has no address.

    Examples:
        >>> resolver.guard("h.example", ["10.0.0.1", "93.184.215.14"])
        ('93.184.215.14',)
        >>> resolver.guard("h.example", ["10.0.0.1"])
        Traceback (most recent call last):
        protocols.errors.Refused: http://h.example/: S08: ...
    """
    url = _make_url(host, port, scheme)
    allowed = Policy.untrusted() if policy is None else Policy.of(policy)
    subject = Subject(url, allowed, origin, None if referrer is None else Referrer(*referrer))
    refused = judge_subject(subject, {}).error(url)
    if refused is not None:
        raise refused
    literal = literal_addresses(_strip_brackets(host))
    candidates = tuple(addresses) if literal is None else literal
    if not candidates:
        raise Unreachable(f"no address for {host}", url=url.shown)
    permitted, verdict = sift_addresses(subject, candidates)
    refused = verdict.error(url)
    if refused is not None:
        raise refused
    return permitted


def _make_url(host: str, port: int | None, scheme: str) -> Url:
    """Return a URL that contains only the scheme, the host and the port.

    Raises:
        InvalidUrl: the parser finds a different host in the URL.
    """
    bare = _strip_brackets(host)
    written = f"[{bare}]" if ":" in bare else bare
    url = parse(f"{scheme}://{written}/" if port is None else f"{scheme}://{written}:{port}/")
    endpoint = find_endpoint(url)
    if endpoint is None or endpoint.host.lower() != bare.lower():
        raise InvalidUrl("bad-host", 0, f"bad-host: {host!r} is not a host", url=url.shown)
    return url


def _strip_brackets(host: str) -> str:
    is_literal = host.startswith("[") and host.endswith("]") and ":" in host
    return host[1:-1] if is_literal else host
