"""A proxy setting: the value of an environment variable or an option, parsed once.

A proxy setting has the form `[scheme://][user[:password]@]host[:port][/]`, and the URL parser parses it
(S01). As in curl, the default scheme is http. The default port is 443 for https, and otherwise 1080. No rule
checks the address of the proxy, because the user configured the proxy. User name and password of a proxy are
sent only to the proxy (S11) and are never displayed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias, cast, get_args

from protocols.errors import InvalidUrl, NotConfigured
from protocols.location import HostUrl
from protocols.options import Credentials
from protocols.text import Masked, own_text
from resolver.url.parsing import parse

#: The key for the value of `--proxy` in the mapping of proxy variables.
OPTION = "--proxy"
NO_PROXY = "none"

ProxyScheme: TypeAlias = Literal["http", "https", "socks5", "socks5h"]

_SCHEME = r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
#: The default ports of proxies, as in curl.
_DEFAULT_PORT, _DEFAULT_TLS_PORT = 1080, 443

#: The maximum length of a user name or a password for SOCKS. RFC 1929 section 2 stores each length in one
#: byte. A length must not be 0.
_MAX_SOCKS_LOGIN = 255


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy. `source` is the variable or option that contains the proxy's URL."""

    scheme: ProxyScheme
    host: str
    port: int
    credentials: Credentials | None = field(default=None, repr=False)
    source: str = field(default="--proxy", compare=False)

    @property
    def shown(self) -> Masked:
        """Return the proxy's URL without user name and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return Masked(f"{self.scheme}://{own_text(host)}:{self.port}")

    @property
    def secured(self) -> bool:
        """Return whether the connection to the proxy uses TLS."""
        return self.scheme == "https"

    @property
    def socks(self) -> bool:
        return self.scheme in ("socks5", "socks5h")

    @property
    def resolves(self) -> bool:
        """Return whether the proxy resolves host names. The client then cannot check the IP addresses."""
        return self.scheme != "socks5"

    def is_at(self, other: Proxy) -> bool:
        """Return whether both proxies have the same scheme, host and port."""
        return (self.scheme, self.host, self.port) == (other.scheme, other.host, other.port)


@lru_cache(maxsize=64)
def parse_proxy(text: str, source: str) -> Proxy:
    """Parse a proxy setting.

    An error message names the `source`. It shows only the scheme of the value, because the invalid text may
    be part of a password.

    Raises:
        NotConfigured: the text is not the URL of a proxy.
    """
    scheme, rest = _split_scheme(text, source)
    try:
        url = parse(f"http://{rest}")
    except InvalidUrl as error:
        raise _make_error(source, error.kind.replace("-", " ")) from None
    assert isinstance(url, HostUrl)
    if "?" in rest or url.fragment is not None:
        raise _make_error(source, "a query or fragment is not allowed")
    default = _DEFAULT_TLS_PORT if scheme == "https" else _DEFAULT_PORT
    port = default if url.port is None else url.port
    return Proxy(scheme, url.host.lower(), port, _check_credentials(url, scheme, source), source)


def _split_scheme(text: str, source: str) -> tuple[ProxyScheme, str]:
    match = re.match(_SCHEME, text)
    if match is None:
        return "http", text
    scheme = match["scheme"].lower()
    if scheme not in get_args(ProxyScheme):
        expected = ", ".join(get_args(ProxyScheme))
        raise _make_error(source, f"{scheme!r} is not a proxy scheme (expected {expected})")
    return cast(ProxyScheme, scheme), text[match.end() :]


def _check_credentials(url: HostUrl, scheme: ProxyScheme, source: str) -> Credentials | None:
    user, password = url.user, url.password
    if user is None:
        return None
    credentials = Credentials(user, password or b"")
    if any(octet in part for octet in b"\0\r\n" for part in (credentials.user, credentials.password)):
        raise _make_error(source, "user and password must not contain NUL, CR or LF (S02)")
    if scheme.startswith("socks"):
        if not all(1 <= len(part) <= _MAX_SOCKS_LOGIN for part in (credentials.user, credentials.password)):
            raise _make_error(source, f"SOCKS5 user and password must have 1 to {_MAX_SOCKS_LOGIN} bytes")
    elif b":" in credentials.user:
        raise _make_error(source, "an HTTP user name cannot contain a colon")
    return credentials


def _make_error(source: str, reason: str) -> NotConfigured:
    return NotConfigured(
        f"{source} is not a proxy: {reason}; expected [http|https|socks5|socks5h://][user:password@]host[:port]"
    )


def check_proxy(proxy: str | None, source: str = OPTION) -> None:
    """Check that a value is the URL of a proxy or `none`.

    Raises:
        NotConfigured: the value is neither the URL of a proxy nor `none`. The message names the `source`.
    """
    if proxy is not None and proxy != NO_PROXY:
        parse_proxy(proxy, source)
