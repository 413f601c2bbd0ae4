"""The telnet URL (RFC 1738 3.8). User name and password are displayed to the user, and never sent."""

from __future__ import annotations

from dataclasses import dataclass

from protocols.authority import build_login, parse_login
from protocols.location import HostUrl, UrlText
from protocols.syntax import build_url


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TelnetUrl(HostUrl):
    """The URL of an interactive service. It contains only a host, a port and a login.

    Examples:
        >>> url = resolver.parse("telnet://guest@h.example/")
        >>> url.user, url.effective_port
        (b'guest', 23)
    """


def parse(text: UrlText) -> TelnetUrl:
    """Parse a telnet URL. The text after the authority has no meaning and is ignored."""
    login, start = parse_login(text)
    if text.end - start > 1:
        text.note("telnet-path", start + 1)
    return TelnetUrl(**login, **text.common())


def build(url: TelnetUrl) -> str:
    """Return the URL as text, with its password."""
    return build_url(url, f"{build_login(url)}/")
