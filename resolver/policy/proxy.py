"""One proxy: the value of a variable or of an option, read once.

`[scheme://][user[:password]@]host[:port][/]`, read by the parser of URLs (S01). Without a scheme it is http,
without a port 1080, of https 443, as curl has it. Its address is the user's word: no rule judges it. User and
password go to that proxy alone (S11) and are shown nowhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias, cast, get_args

from protocols.errors import InvalidUrl, NotConfigured
from protocols.location import HostUrl
from protocols.options import Credentials
from resolver.url.parsing import parse

#: What `--proxy` says stands among the variables under its own name.
OPTION = "--proxy"
NO_PROXY = "none"

ProxyScheme: TypeAlias = Literal["http", "https", "socks5", "socks5h"]

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
#: curl's.
_DEFAULT_PORT, _DEFAULT_PORT_OF_TLS = 1080, 443

#: RFC 1929 2: each has a count of one octet, which is not 0.
_LONGEST_OF_SOCKS = 255


@dataclass(frozen=True, slots=True)
class Proxy:
    """`source` is the variable, or the option, that named it."""

    scheme: ProxyScheme
    host: str
    port: int
    credentials: Credentials | None = field(default=None, repr=False)
    source: str = field(default="--proxy", compare=False)

    @property
    def shown(self) -> str:
        """Its URL without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def secured(self) -> bool:
        """Is it spoken to in TLS?"""
        return self.scheme == "https"

    @property
    def socks(self) -> bool:
        return self.scheme in ("socks5", "socks5h")

    @property
    def resolves(self) -> bool:
        """Does it look the names up, so that no address can be judged here?"""
        return self.scheme != "socks5"

    def is_at(self, other: Proxy) -> bool:
        """The same scheme, host and port?"""
        return (self.scheme, self.host, self.port) == (other.scheme, other.host, other.port)


@lru_cache(maxsize=64)
def parse_proxy(text: str, source: str) -> Proxy:
    """Raises `NotConfigured`, which names the `source` and shows nothing of the value but its scheme: what is
    wrong with it may stand in a password."""
    scheme, rest = _split(text, source)
    try:
        url = parse(f"http://{rest}")
    except InvalidUrl as error:
        raise _make_error(source, error.kind.replace("-", " ")) from None
    assert isinstance(url, HostUrl)
    if "?" in rest or url.fragment is not None:
        raise _make_error(source, "it has a query or a fragment")
    unsaid = _DEFAULT_PORT_OF_TLS if scheme == "https" else _DEFAULT_PORT
    port = unsaid if url.port is None else url.port
    return Proxy(scheme, url.host.lower(), port, _credentials(url, scheme, source), source)


def _split(text: str, source: str) -> tuple[ProxyScheme, str]:
    found = _SCHEME.match(text)
    if found is None:
        return "http", text
    scheme = found["scheme"].lower()
    if scheme not in get_args(ProxyScheme):
        known = ", ".join(get_args(ProxyScheme))
        raise _make_error(source, f"{scheme!r} is no scheme of a proxy (there are {known})")
    return cast(ProxyScheme, scheme), text[found.end() :]


def _credentials(url: HostUrl, scheme: ProxyScheme, source: str) -> Credentials | None:
    user, password = url.user, url.password
    if user is None:
        return None
    found = Credentials(user, password or b"")
    if any(octet in part for octet in b"\0\r\n" for part in (found.user, found.password)):
        raise _make_error(source, "its user or password has an octet that would end a line (S02)")
    if scheme.startswith("socks"):
        if not all(1 <= len(part) <= _LONGEST_OF_SOCKS for part in (found.user, found.password)):
            raise _make_error(
                source, f"SOCKS5 takes a user and a password of 1 to {_LONGEST_OF_SOCKS} octets"
            )
    elif b":" in found.user:
        raise _make_error(source, "a colon cannot be part of a user for http")
    return found


def _make_error(source: str, why: str) -> NotConfigured:
    return NotConfigured(
        f"{source} names no proxy: {why}; [http|https|socks5|socks5h://][user:password@]host[:port] is needed"
    )


def check_proxy(proxy: str | None, source: str = OPTION) -> None:
    """Is this a proxy, or `none`? Raises `NotConfigured`, which names the `source`."""
    if proxy is not None and proxy != NO_PROXY:
        parse_proxy(proxy, source)
