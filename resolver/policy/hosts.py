"""Settings of a single host: its limits, its proxy, our login there, its mirrors.

A person or a program says it, and it reaches a request by where that goes: after a redirect what is said of
the host that it led to counts, and nothing of the first one's goes along (S11). Of `host:port` before of
`host`, each value by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address

from protocols.options import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """`limits` counts in place of the run's. `proxy` is the URL of the one to go through, or `none`, whatever
    else names one. `certfile` is the certificate of ours that is shown there. `mirrors` are URLs under which
    all of this host is, too: the path of a URL is put behind them. None, where nothing is said.

    Examples:
        >>> hosts = {"127.0.0.1": resolver.Host(limits=resolver.Limits(body=36))}
        >>> await resolver.fetch("http://127.0.0.1:8920/about.txt", hosts=hosts)
        Traceback (most recent call last):
        protocols.errors.LimitExceeded: ...: 37 octets are announced, the limit is 36 (--max-size)
    """

    limits: Limits | None = None
    proxy: str | None = field(default=None, repr=False)
    certfile: str | None = None
    mirrors: tuple[str, ...] = ()


def names_of(host: str, port: int) -> tuple[str, str]:
    """How a place may be called: with its port, and without. IPv6 stands in brackets."""
    name = host.lower().removesuffix(".")
    if ":" in name:
        name = f"[{_compress_address(name)}]"
    return f"{name}:{port}", name


def _compress_address(address: str) -> str:
    try:
        return ip_address(address).compressed
    except ValueError:
        return address


#: What is said of most.
NOTHING = Host()


class HostSettings:
    """All that is said of single hosts."""

    def __init__(self, said: Mapping[str, Host]) -> None:
        self._said = {normal_name(name): host for name, host in said.items()}

    def find_host(self, host: str, port: int) -> Host:
        """What holds for a place."""
        nearest, wider = (self._said.get(name, NOTHING) for name in names_of(host, port))
        return Host(
            limits=nearest.limits or wider.limits,
            proxy=wider.proxy if nearest.proxy is None else nearest.proxy,
            certfile=nearest.certfile or wider.certfile,
            mirrors=nearest.mirrors or wider.mirrors,
        )

    def with_limits(self, bound: Callable[[Limits], Limits]) -> HostSettings:
        """The same, with limits that are made of theirs."""
        return HostSettings(
            {
                name: host if host.limits is None else replace(host, limits=bound(host.limits))
                for name, host in self._said.items()
            }
        )


def normal_name(name: str) -> str:
    """As `names_of` has it."""
    if not name.startswith("["):
        return name.lower()
    address, bracket, port = name[1:].partition("]")
    return f"[{_compress_address(address.lower())}{bracket}{port}"
