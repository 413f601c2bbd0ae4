"""The policy for who keeps their own client: which addresses of a host they may connect to.

A host and its port are judged as a URL that names no more than these, by the rules that every URL meets and
by no other: so a host that the parser does not read, a port of other protocols and an address inside are
refused here as they are by the gate.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocols.errors import InvalidUrl, Unreachable
from protocols.location import Origin, Referrer, Url
from resolver.policy.addresses import literal_addresses
from resolver.policy.judgement import judge_subject, sift_addresses
from resolver.policy.settings import Policy
from resolver.policy.subject import endpoint_of, subject_of
from resolver.url.parsing import parse


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
    """The addresses to connect to, by number: those of `addresses`, what a look-up of `host` gave, that the
    policy allows, in their order. Nothing is looked up here, and a host that needs no look-up (an address,
    `localhost`) has its own. `port` is the scheme's own where it is not given.

    The policy is `untrusted` unless another one is given. Raises `InvalidUrl` (S01) for what is no host,
    `Refused` with the rule, and `Unreachable` for a host without any address.

    Args:
        host: a name or an address, without a port.
        addresses: what a look-up of it gave.
        port: the one to be connected to.
        scheme: whose port that is.
        policy: what is allowed.
        origin: who chose the host.
        referrer: the URL that led to it, and the address that one was fetched from.

    Raises:
        InvalidUrl: for what is no host.
        Refused: where no address is left.
        Unreachable: where there was none.

    Examples:
        >>> resolver.guard("h.example", ["10.0.0.1", "93.184.215.14"])
        ('93.184.215.14',)
        >>> resolver.guard("h.example", ["10.0.0.1"])
        Traceback (most recent call last):
        protocols.errors.Refused: http://h.example/: S08: ...
    """
    url = _url_of(host, port, scheme)
    allowed = Policy.untrusted() if policy is None else Policy.of(policy)
    subject = subject_of(url, allowed, origin, None if referrer is None else Referrer(*referrer))
    refused = judge_subject(subject, {}).error(url)
    if refused is not None:
        raise refused
    known = literal_addresses(_strip_brackets(host))
    found = tuple(addresses) if known is None else known
    if not found:
        raise Unreachable(f"no address for {host}", url=url.shown)
    left, verdict = sift_addresses(subject, found)
    refused = verdict.error(url)
    if refused is not None:
        raise refused
    return left


def _url_of(host: str, port: int | None, scheme: str) -> Url:
    """Raises `InvalidUrl` for a host that is more than one, or another one than is written there."""
    bare = _strip_brackets(host)
    place = f"[{bare}]" if ":" in bare else bare
    url = parse(f"{scheme}://{place}/" if port is None else f"{scheme}://{place}:{port}/")
    endpoint = endpoint_of(url)
    if endpoint is None or endpoint.host.lower() != bare.lower():
        raise InvalidUrl("bad-host", 0, f"bad-host: {host!r} is not a host", url=url.shown)
    return url


def _strip_brackets(host: str) -> str:
    is_literal = host.startswith("[") and host.endswith("]") and ":" in host
    return host[1:-1] if is_literal else host
