"""The rules in their order, and the verdict they come to: before a look-up, after it, on a connection.

S19, S10, S20, S12, S18, S02, S03, S05, S04, S06, S07, then S08. All rules run, so that a verdict tells
everything at once; overrides and easings are each rule's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from protocols.errors import InvalidUrl
from protocols.location import Origin, Referrer, Url
from resolver import registry
from resolver.gateways import through_gateway
from resolver.policy.addresses import judge_address, literal_addresses
from resolver.policy.case import Case, Server, case_of
from resolver.policy.credentials import judge_password_in_clear, judge_user_information
from resolver.policy.files import judge_file
from resolver.policy.forms import judge_form
from resolver.policy.hops import judge_hop, judge_link, judge_session
from resolver.policy.names import judge_name
from resolver.policy.octets import judge_octets
from resolver.policy.ports import judge_port
from resolver.policy.settings import Policy
from resolver.policy.verdict import Ruling, Verdict, hardened, strictest

_NO_GATEWAYS: Mapping[str, str] = {}


def judge(
    url: Url,
    policy: Policy,
    *,
    origin: Origin = "user",
    referrer: Referrer | None = None,
    gateways: Mapping[str, str] = _NO_GATEWAYS,
    server: Server | None = None,
) -> Verdict:
    """Everything that needs no look-up; S08 only for literal addresses and `localhost`.

    `gateways` are the user's, by scheme; a URL that goes through one is judged with the gateway's own
    URL, which counts as the user's. `server` is the user's news server, for `news:` URLs without one.
    """
    case = case_of(url, policy, origin, referrer, server)
    return strictest([*_rulings(case, gateways), *_rulings_on_literal(case)])


def judge_addresses(
    url: Url,
    addresses: Sequence[str],
    policy: Policy,
    *,
    origin: Origin = "user",
    referrer: Referrer | None = None,
) -> tuple[tuple[str, ...], Verdict]:
    """S08 after a look-up: the addresses that may be connected to, in the order given, and the verdict.

    Refused ones are dropped and the rest decides; the verdict is `refuse` only if none is left. For a
    `news:` URL that names no server they are the user's server's, and the origin is the user.
    """
    case = case_of(url, policy, origin, referrer)
    return _sift(addresses, case, "user" if case.endpoint is None else origin)


def judge_credentials(
    url: Url, address: str, policy: Policy, *, tls: bool, origin: Origin = "user"
) -> Verdict:
    """S06 before a password, whoever gave it, is sent to `address` on the connection for `url`."""
    return strictest(hardened(judge_password_in_clear(address, policy, tls=tls), policy, origin))


def judge_all(case: Case, gateways: Mapping[str, str], resolved: Sequence[str] | None) -> Verdict:
    """All rules, S08 on `resolved` if the host needs a look-up and this is its result."""
    rulings = [*_rulings(case, gateways), *_rulings_on_literal(case)]
    endpoint = case.endpoint
    if resolved is not None and endpoint is not None and literal_addresses(endpoint.host) is None:
        rulings += _sift(resolved, case, case.origin_of_address)[1].rulings
    return strictest(rulings)


def _rulings(case: Case, gateways: Mapping[str, str]) -> Iterator[Ruling]:
    yield from _judge_scheme(case, gateways)
    for rule in (judge_hop, judge_link, judge_file, judge_session, judge_octets, judge_form):
        yield from hardened(rule(case), case.policy, case.origin)
    yield from hardened(judge_port(case), case.policy, case.origin_at_place)
    yield from hardened(judge_user_information(case), case.policy, case.origin)
    yield from hardened(judge_name(case), case.policy, case.origin_at_place)


def _judge_scheme(case: Case, gateways: Mapping[str, str]) -> Iterable[Ruling]:
    """S19. The names of our own table come first: asking for a plug-in is slow."""
    scheme = case.url.scheme
    if scheme in registry.SCHEMES or registry.find(scheme) is not None:
        return ()
    if scheme in gateways:
        return _judge_gateway(case, gateways)
    return (
        Ruling(
            rule="S19",
            action="refuse",
            detail=_no_handler(scheme),
            flag=f"--gateway {scheme}=URL",
            position=0,
        ),
    )


def _no_handler(scheme: str) -> str:
    meant = registry.RESERVED.get(scheme)
    if meant is None:
        return f"scheme {scheme!r} is unknown and has no handler"
    return (
        f"scheme {scheme!r} is reserved for {meant} (RFC 1738 section 4) and has no handler;"
        " a gateway of your choice could serve it"
    )


def _judge_gateway(case: Case, gateways: Mapping[str, str]) -> Iterable[Ruling]:
    """The gateway's own URL passes all rules; its host is the user's choice, whoever chose the rest. What is
    objected to stands in that URL, and nowhere in the one that was given."""
    try:
        target = through_gateway(case.url, gateways)
    except InvalidUrl as error:
        return (Ruling(rule="S19", action="refuse", detail=f"its gateway is no URL: {error.message}"),)
    rulings = () if target is None else judge(target, case.policy).rulings
    return [ruling._replace(detail=f"its gateway: {ruling.detail}", position=None) for ruling in rulings]


def _rulings_on_literal(case: Case) -> Iterable[Ruling]:
    addresses = None if case.endpoint is None else literal_addresses(case.endpoint.host)
    return () if addresses is None else _sift(addresses, case, case.origin_of_address)[1].rulings


def _sift(addresses: Sequence[str], case: Case, origin: Origin) -> tuple[tuple[str, ...], Verdict]:
    """S08 on several addresses of one host: those left, and what they come to."""
    origin_address = None if case.source is None else case.source.address
    judged: list[tuple[str, list[Ruling]]] = []
    for address in addresses:
        ruling = judge_address(address, case.policy, origin, origin_address)
        judged.append((address, hardened([] if ruling is None else [ruling], case.policy, origin)))
    left = [(a, found) for a, found in judged if not any(ruling.action == "refuse" for ruling in found)]
    rest = left or judged
    return tuple(a for a, _ in left), strictest(ruling for _, found in rest for ruling in found)
