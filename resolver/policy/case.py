"""What is before the rules: a URL, who chose it, what led to it, and where it would connect to."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from protocols.errors import InvalidUrl
from protocols.location import Origin, Referrer, Url
from resolver.policy.settings import Policy
from resolver.url import parse

#: The port of a news server that a person configured, per scheme.
NEWS_PORTS = {"news": 119, "snews": 563}


class Server(NamedTuple):
    """A news server of the user's own, for `news:` URLs that name none."""

    host: str
    port: int


#: What leads from the one to the other stays within one protocol.
_ONE_PROTOCOL = ("news", "nntp")


class Endpoint(NamedTuple):
    """Where a URL connects to. `ours` says that the user's settings name it and not the URL."""

    host: str
    port: int
    default_port: int
    ours: bool = False


class Source(NamedTuple):
    """What is known of the URL that led here. `scheme` is empty when its text was no URL; `address`
    is the one it was fetched from, None if unknown."""

    scheme: str
    endpoint: Endpoint | None
    address: str | None


class Case(NamedTuple):
    """One URL to judge. `endpoint` is None for a URL that connects to nothing."""

    url: Url
    policy: Policy
    origin: Origin
    source: Source | None
    endpoint: Endpoint | None

    @property
    def origin_at_place(self) -> Origin:
        """The origin by which S04 and S07 judge: what a person accepted for a scheme, host and port
        holds for what lies in it, and a server of the user's own choice is the user's."""
        if self.endpoint is None or self.endpoint.ours:
            return "user"
        return "user" if self.stays_in_place else self.origin

    @property
    def stays_in_place(self) -> bool:
        """Is this the scheme, host and port of the URL that led here? What a group of news://S lists is
        nntp://S/…: the same server by the same protocol (RFC 1738 3.6, 3.7)."""
        if self.source is None or self.endpoint is None:
            return False
        alike = (
            self.source.scheme == self.url.scheme or (self.source.scheme, self.url.scheme) == _ONE_PROTOCOL
        )
        return alike and _same_place(self.source.endpoint, self.endpoint)

    @property
    def origin_of_address(self) -> Origin:
        """The origin by which S08 judges."""
        return "user" if self.endpoint is not None and self.endpoint.ours else self.origin

    def start_of(self, component: str) -> int | None:
        """Where a component begins in the URL text."""
        place = self.url.place(component)
        return None if place is None else place.start


def case_of(
    url: Url, policy: Policy, origin: Origin, referrer: Referrer | None, server: Server | None = None
) -> Case:
    source = None if referrer is None else _source_of(*referrer)
    return Case(url, policy, origin, source, endpoint_of(url, server))


def endpoint_of(url: Url, server: Server | None = None) -> Endpoint | None:
    """Where `url` connects to; `server` is for news URLs without a server of their own."""
    host: object = getattr(url, "host", None)  # not every Url has one, and not only a HostUrl has
    port: object = getattr(url, "effective_port", None)  # a file URL has no port
    own: object = getattr(url, "default_port", None)
    if isinstance(host, str) and host and isinstance(port, int):
        return Endpoint(host, port, own if isinstance(own, int) else 0)
    default_port = NEWS_PORTS.get(url.scheme)
    if server is not None and default_port is not None:
        return Endpoint(server.host, server.port, default_port, ours=True)
    return None


@lru_cache(maxsize=64)
def _source_of(text: str, address: str | None) -> Source:
    """Cached: all entries of one listing have the same referrer."""
    try:
        url = parse(text)
    except InvalidUrl:
        return Source("", None, address)
    return Source(url.scheme, endpoint_of(url), address)


def _same_place(one: Endpoint | None, other: Endpoint) -> bool:
    return one is not None and (one.host.lower(), one.port) == (other.host.lower(), other.port)
