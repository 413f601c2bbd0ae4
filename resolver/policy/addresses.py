"""Where addresses lead (S08): how far inside the user's network an address is, and who may go there.

An IPv4 address inside an IPv6 one counts as that IPv4 address. `ipaddress` takes several milliseconds
to import and is imported when the first address is classified.
"""

from __future__ import annotations

import enum
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from protocols.location import Origin
from resolver.policy.settings import Policy
from resolver.policy.verdict import Ruling

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

    Address: TypeAlias = IPv4Address | IPv6Address
    Network: TypeAlias = IPv4Network | IPv6Network

#: What `localhost` and the names below it are, without a look-up (RFC 6761 6.3).
LOCALHOST = ("::1", "127.0.0.1")


class Reach(enum.IntEnum):
    """How far inside an address leads; a greater one is farther inside. NEVER is no place at all."""

    PUBLIC = 0
    PRIVATE = 1
    LINK_LOCAL = 2
    LOOPBACK = 3
    NEVER = 4


#: The first row that holds an address decides. The single addresses are cloud metadata services.
_TABLE: tuple[tuple[Reach, tuple[str, ...]], ...] = (
    (Reach.LINK_LOCAL, ("100.100.100.200/32", "fd00:ec2::254/128", "169.254.0.0/16", "fe80::/10")),
    (Reach.LOOPBACK, ("127.0.0.0/8", "::1/128")),
    (Reach.NEVER, ("0.0.0.0/8", "::/128", "224.0.0.0/4", "240.0.0.0/4", "ff00::/8")),
    (
        Reach.PRIVATE,
        (
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "100.64.0.0/10",
            "198.18.0.0/15",
            "fc00::/7",
            "fec0::/10",
        ),
    ),
)


def literal_addresses(host: str) -> tuple[str, ...] | None:
    """The addresses of a host that needs no look-up: a literal address, `localhost` or a name below
    it. None for any other name."""
    name = host.lower().removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return LOCALHOST
    if ":" in name or name.rpartition(".")[2].isdecimal():
        return (host,)
    return None


@lru_cache(maxsize=1024)
def classify(address: str) -> Reach:
    """How far inside a numeric address leads; NEVER for what is no address. A zone is ignored."""
    found = _read(address)
    if found is None:
        return Reach.NEVER
    judged = _embedded(found) or found
    for reach, networks in _networks():
        if any(judged in network for network in networks if network.version == judged.version):
            return reach
    return Reach.PUBLIC


def judge_address(
    address: str, policy: Policy, origin: Origin, referrer_address: str | None
) -> Ruling | None:
    """S08 for one address; None is allow. `referrer_address` is where the referring object came from."""
    reach = classify(address)
    if reach is Reach.PUBLIC or _allowed(address, policy.allow_address):
        return None
    kind = reach.name.lower().replace("_", "-")
    if reach is Reach.NEVER:
        return _refusal(address, f"{address} is no address of a host")
    if policy.public_only:
        return _refusal(address, f"{address} is {kind}, and the policy allows public addresses only")
    if origin == "user":
        return _warning(address, kind) if reach is Reach.LINK_LOCAL else None
    if reach is Reach.LINK_LOCAL:
        return _refusal(address, f"{address} is {kind}, where only a person's own URL may lead")
    if referrer_address is not None and reach <= _depth(referrer_address):
        return None
    return _refusal(address, f"{address} is {kind}, farther inside than what led there")


def _depth(referrer_address: str) -> Reach:
    reach = classify(referrer_address)
    return Reach.PUBLIC if reach is Reach.NEVER else reach


def _warning(address: str, kind: str) -> Ruling:
    return Ruling(
        rule="S08",
        action="warn",
        detail=f"{address} is {kind}: devices and metadata services answer there",
        flag=f"--allow-address {address}",
    )


def _refusal(address: str, detail: str) -> Ruling:
    return Ruling(rule="S08", action="refuse", detail=detail, flag=f"--allow-address {address}")


def _allowed(address: str, ranges: AbstractSet[str]) -> bool:
    """Is the address, or the IPv4 address in it, in one of the ranges?"""
    found = _read(address) if ranges else None
    if found is None:
        return False
    forms = [form for form in (found, _embedded(found)) if form is not None]
    networks = [_network(text) for text in ranges]
    return any(form in network for form in forms for network in networks if form.version == network.version)


def _read(address: str) -> Address | None:
    from ipaddress import ip_address

    try:
        return ip_address(address.partition("%")[0])
    except ValueError:
        return None


def _embedded(address: Address) -> IPv4Address | None:
    """The IPv4 address in a mapped, compatible, 6to4 or NAT64 address (RFC 4291, 3056, 6052)."""
    from ipaddress import IPv4Address

    if address.version == 4:
        return None
    number = int(address)
    if number >> 112 == 0x2002:
        return IPv4Address(number >> 80 & 0xFFFF_FFFF)
    if number >> 32 in (0xFFFF, 0x64_FF9B << 64) or (number >> 32 == 0 and number > 1):
        return IPv4Address(number & 0xFFFF_FFFF)
    return None


@lru_cache(maxsize=1)
def _networks() -> tuple[tuple[Reach, tuple[Network, ...]], ...]:
    return tuple((reach, tuple(_network(text) for text in texts)) for reach, texts in _TABLE)


@lru_cache(maxsize=256)
def _network(text: str) -> Network:
    from ipaddress import ip_network

    return ip_network(text)
