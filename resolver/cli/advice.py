"""What the URL of a service tells who sits at it (RFC 1738 3.8): shown, and nothing of it is sent."""

from __future__ import annotations

from protocols.contract import HostUrl, Url
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.policy.schemes import rules_of


def advise(url: Url, command: Command) -> None:
    """Whom the URL suggests to log in as."""
    if command.quiet or not isinstance(url, HostUrl) or not url.user or not rules_of(url.scheme).session:
        return
    password = "" if url.password is None else "; it holds a password, too, which is neither sent nor shown"
    login = url.user.decode("utf-8", "replace")
    streams.complain(f"{url.shown}: the URL suggests the login {login}{password}")
