"""telnet and telnets: RFC 1738 3.8 (the URL), RFC 854 (the service, which this build only announces).

No session is opened, and nothing is connected to. User and password are advice for the person at the
terminal; they are never sent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from protocols.authority import build_login, parse_login
from protocols.location import HostUrl, Kind, UrlText
from protocols.options import Limits, Options
from protocols.reply import Reply
from protocols.scheme import Scheme
from protocols.step import Begin, Dialogue, Note
from protocols.syntax import build_url


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TelnetUrl(HostUrl):
    """An interactive service: only where it is.

    Examples:
        >>> url = resolver.parse("telnet://guest@h.example/")
        >>> url.user, url.effective_port
        (b'guest', 23)
    """


def parse(text: UrlText) -> TelnetUrl:
    """What follows the authority means nothing and is dropped."""
    login, start = parse_login(text)
    if text.end - start > 1:
        text.note("telnet-path", start + 1)
    return TelnetUrl(scheme=text.scheme, **login)


def build(url: TelnetUrl) -> str:
    """The URL as text, with its password."""
    return build_url(url, f"{build_login(url)}/")


def announce(url: TelnetUrl, options: Options | None = None, limits: Limits | None = None) -> Dialogue[None]:
    """A reply of kind service: its target is the URL without a password, `extra` says where and as whom.
    The login is advice to show to a person (RFC 1738 3.8)."""
    yield Note("nothing is sent: this is a service for a person, and a session is never opened by itself")
    login = None if url.user is None else url.user.decode("latin-1")
    reply = Reply(
        kind=Kind.SERVICE,
        target=build(replace(url, password=None, fragment=None)),
        extra={"service": url.scheme, "host": url.host, "port": url.effective_port, "login": login},
    )
    yield Begin(reply)


TELNET = Scheme(
    name="telnet",
    names="interactive service",
    default_port=23,
    parse=parse,
    build=build,
    userinfo=True,
    converse="protocols.telnet:announce",
)
TELNETS = TELNET._replace(name="telnets", default_port=992, tls="always")
