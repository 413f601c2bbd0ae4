"""Address scopes (S08, prevents SSRF): how internal an IP address is, and which URLs may lead to it.

Only globally routed addresses are public. If an IPv6 address is another form of an IPv4 address, it has the
scope of the IPv4 address. For some IPv6 prefixes, a translator (NAT64) or a tunnel (6to4, Teredo) may deliver
packets to the embedded IPv4 address. An IPv6 address with a prefix for NAT64 or a tunnel has two possible
scopes. The target of a URL gets the more internal scope, and a referrer gets the less internal scope.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from protocols.authority import comparable_host
from protocols.location import Origin
from resolver.policy.settings import Policy
from resolver.policy.subject import Decision

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address: TypeAlias = "IPv4Address | IPv6Address"
Network: TypeAlias = "IPv4Network | IPv6Network"

#: The addresses of `localhost` and of the names below it, used without a DNS lookup (RFC 6761 6.3).
LOCALHOST = ("::1", "127.0.0.1")


class AddressScope(enum.IntEnum):
    """The scope of an IP address. A greater value is more internal.

    `NEVER` marks an address that cannot be the address of a host.
    """

    PUBLIC = 0
    PRIVATE = 1
    LINK_LOCAL = 2
    LOOPBACK = 3
    NEVER = 4

    @property
    def shown(self) -> str:
        return self.name.lower().replace("_", "-")


#: The members by name. In Python 3.11, an access through the class takes 900 machine instructions.
PUBLIC, PRIVATE, LINK_LOCAL, LOOPBACK, NEVER = AddressScope

#: The address ranges of each scope. An address has the scope of the first row that contains the address. The
#: single addresses (`/32`, `/128`) are metadata services and platform services of cloud providers. An IPv6
#: address that is neither in the table nor in `_GLOBAL` is private.
_TABLE: tuple[tuple[AddressScope, tuple[str, ...]], ...] = (
    (
        LINK_LOCAL,
        (
            "100.100.100.200/32",
            "168.63.129.16/32",
            "192.0.0.192/32",
            "fd00:ec2::254/128",
            "169.254.0.0/16",
            "fe80::/10",
        ),
    ),
    (LOOPBACK, ("127.0.0.0/8", "::1/128")),
    (NEVER, ("0.0.0.0/8", "::/128", "224.0.0.0/4", "240.0.0.0/4", "ff00::/8")),
    (
        PRIVATE,
        (
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "100.64.0.0/10",
            # Ranges from IANA's special-purpose registries (RFC 6890), as of 2026: protocol assignments,
            # documentation, 6to4 relays and benchmarks. For IPv6, also the reverse-lookup blackholes.
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "2001::/23",
            "2001:db8::/32",
            "2620:4f:8000::/48",
            "3fff::/20",
        ),
    ),
)
#: All allocated IPv6 unicast space (RFC 4291 2.4, IANA's address space registry).
_GLOBAL = "2000::/3"
#: The upper 96 bits of an IPv6 address that is another form of an IPv4 address. The forms are IPv4-compatible
#: and IPv4-mapped (RFC 4291 2.5.5), IPv4-translated (RFC 2765) and NAT64 (RFC 6052).
_IPV4_FORMS = frozenset({0, 0xFFFF, 0xFFFF_0000, 0x64_FF9B << 64})


@lru_cache(maxsize=1024)
def literal_addresses(host: str) -> tuple[str, ...] | None:
    """Return the addresses of an address literal, of `localhost` and of names below it, or else None."""
    name = comparable_host(host)
    if name == "localhost" or name.endswith(".localhost"):
        return LOCALHOST
    if ":" in name or name.rpartition(".")[2].isdecimal():
        return (host,)
    return None


@lru_cache(maxsize=1024)
def classify(address: str) -> AddressScope:
    """Return the most internal scope of an IP address without its zone; NEVER for any other text."""
    parsed = _parse_address(address)
    if parsed is None:
        return NEVER
    inner = _find_embedded(parsed)
    is_other_form = bool(inner) and (int(parsed) >> 32 in _IPV4_FORMS or int(parsed) >> 112 == 0x2002)
    return max(map(_find_scope, inner if is_other_form else (parsed, *inner)))


@lru_cache(maxsize=1024)
def find_least_scope(address: str) -> AddressScope:
    """Return the least internal scope of an IP address, used for referrers.

    An attacker may choose a server address that seems to embed an internal IPv4 address. With the least
    internal scope, links from this server still cannot lead to internal addresses.
    """
    parsed = _parse_address(address)
    if parsed is None:
        return NEVER
    # The operating system treats an IPv4-mapped address as the IPv4 address.
    if parsed.version == 6 and parsed.ipv4_mapped is not None:
        return _find_scope(parsed.ipv4_mapped)
    return min(map(_find_scope, (parsed, *_find_embedded(parsed))))


def _find_scope(address: Address) -> AddressScope:
    for scope, ranges in _TABLE:
        if _is_in(ranges, address):
            return scope
    return PUBLIC if address.version == 4 or address in _network(_GLOBAL) else PRIVATE


def judge_address(
    address: str, policy: Policy, origin: Origin, referrer_address: str | None
) -> Decision | None:
    """Apply S08 (address scopes) to one address, and return None if the address is allowed.

    `referrer_address` is the IP address of the server that sent the referring document.
    """
    scope = classify(address)
    if scope is PUBLIC or (policy.allow_address and _is_allowed(address, policy.allow_address)):
        return None
    if scope is NEVER:
        return _refusal(address, f"{address} is not a host address")
    is_link_local = scope is LINK_LOCAL
    if origin == "user" and not (is_link_local or policy.public_only):
        return None
    if policy.public_only:
        return _refusal(address, f"{address} is {scope.shown}, and the policy allows only public addresses")
    if origin == "user":
        detail = f"{address} is {scope.shown}: devices and metadata services answer there"
        return Decision("S08", "warn", detail, f"--allow-address {address}")
    if is_link_local:
        return _refusal(address, f"{address} is {scope.shown}: only a URL from the user may lead there")
    if referrer_address is not None:
        referrer_scope = find_least_scope(referrer_address)
        if scope <= (PUBLIC if referrer_scope is NEVER else referrer_scope):
            return None
    return _refusal(address, f"{address} is {scope.shown}, more internal than the URL that led there")


def _refusal(address: str, detail: str) -> Decision:
    return Decision("S08", "refuse", detail, f"--allow-address {address}")


def _is_allowed(address: str, ranges: AbstractSet[str]) -> bool:
    """Return whether the ranges contain the address.

    An IPv6 address may embed IPv4 addresses. The result is also True if the ranges contain every embedded
    IPv4 address.
    """
    parsed = _parse_address(address)
    if parsed is None:
        return False
    inner = _find_embedded(parsed)
    return _is_in(ranges, parsed) or (bool(inner) and all(_is_in(ranges, embedded) for embedded in inner))


def _is_in(ranges: Iterable[str], address: Address) -> bool:
    return any(address in _network(text) for text in ranges)


def _parse_address(address: str) -> Address | None:
    from ipaddress import ip_address  # lazy import: `explain` of a host name needs no addresses

    try:
        return ip_address(address.partition("%")[0])
    except ValueError:
        return None


def _find_embedded(address: Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that are possibly embedded in an IPv6 address."""
    if address.version == 4:
        return []
    from ipaddress import IPv4Address

    return [IPv4Address(inner & 0xFFFF_FFFF) for inner in _list_inner(int(address))]


def _list_inner(number: int) -> Iterator[int]:
    """Yield the embedded IPv4 addresses of an IPv6 address, in the low 32 bits of each number."""
    if number >> 32 in _IPV4_FORMS and number > 1:
        yield number
    elif number >> 112 == 0x2002:  # 6to4 (RFC 3056)
        yield number >> 80
    elif (
        number >> 96 == 0x2001_0000
    ):  # Teredo: contains the client's address, with inverted bits (RFC 4380 4)
        yield ~number
    elif number >> 80 == 0x64_FF9B_0001:  # local-use NAT64 (RFC 8215), with any prefix length
        forms = (number & 0xFFFF_FFFF, number >> 24 & 0xFFFF_FFFF, _split(number, 16), _split(number, 8))
        yield from (form for form in forms if form >> 24)  # 0.0.0.0/8 results from a wrong prefix length
    if number >> 32 & 0xFDFF_FFFF == 0x5EFE:  # ISATAP, below any prefix (RFC 5214 6.1)
        yield number


def _split(number: int, bits: int) -> int:
    """Return the IPv4 address in a NAT64 address.

    The first `bits` bits of the IPv4 address are before bit 64. Bits 64 to 71 of a NAT64 address are zero.
    The IPv4 address continues after bit 71 (RFC 6052 2.2).
    """
    rest = 32 - bits
    return (number >> 64 & (1 << bits) - 1) << rest | number >> 56 - rest & (1 << rest) - 1


@lru_cache(maxsize=256)
def _network(text: str) -> Network:
    from ipaddress import ip_network

    return ip_network(text)
