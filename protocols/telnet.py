"""telnet and telnets: RFC 1738 3.8 (the URL), RFC 854.

User and password are advice for the person at the terminal; they are never sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocols.authority import build_login, parse_login
from protocols.location import HostUrl, UrlText
from protocols.scheme import Scheme
from protocols.syntax import build_url


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TelnetUrl(HostUrl):
    """An interactive service: only where it is."""


def parse(text: UrlText) -> TelnetUrl:
    """What follows the authority means nothing and is dropped."""
    login, start = parse_login(text)
    if text.end - start > 1:
        text.note("telnet-path", start + 1)
    return TelnetUrl(scheme=text.scheme, **login)


def build(url: TelnetUrl) -> str:
    """The URL as text, with its password."""
    return build_url(url, f"{build_login(url)}/")


_NAMES = "interactive service"

TELNET = Scheme(name="telnet", names=_NAMES, default_port=23, parse=parse, build=build)
TELNETS = Scheme(name="telnets", names=_NAMES, default_port=992, parse=parse, build=build, tls=True)
