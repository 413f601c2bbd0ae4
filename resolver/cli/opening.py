"""`open`: what a person sits at, by what the policy knows of the scheme. A session is opened here and nowhere
else in the command (S18)."""

from __future__ import annotations

from protocols.contract import Finding, HostUrl, Url
from protocols.errors import NotConfigured, UnsupportedScheme
from resolver.cli import streams
from resolver.cli.advice import advise
from resolver.cli.arguments import Command
from resolver.cli.console import Console
from resolver.cli.sitting import sit
from resolver.cli.targets import Target
from resolver.environment import colours_here
from resolver.policy.schemes import rules_of
from resolver.retrieval.session import Resolver
from resolver.retrieval.terminal_shown import Shown


async def perform(session: Resolver, url: Url, target: Target, command: Command) -> tuple[Finding, ...]:
    """What was odd about it. Raises `UnsupportedScheme` for what nobody can sit at."""
    if isinstance(url, HostUrl) and rules_of(url.scheme).session:
        _check_terminal("resolve cat --for SECONDS URL writes a session down")
        return await _sit_at(session, url, target, command)
    if isinstance(url, HostUrl) and rules_of(url.scheme).form is not None:
        from resolver.cli.filling import fill_in  # few items have a form

        _check_terminal("a form that is filled in is a URL, too (RFC 1738 3.4.9), which resolve cat submits")
        return await fill_in(session, url, target, command)
    what = f"a {url.scheme} URL names nothing to sit at: resolve cat URL shows what it names"
    raise UnsupportedScheme(url.scheme, what, url=url.shown)


def _check_terminal(instead: str) -> None:
    """Raises `NotConfigured`."""
    if not (streams.input_is_terminal() and streams.output_is_terminal()):
        words = "open is for a person at a terminal, and standard input or standard output is none"
        raise NotConfigured(f"{words}; {instead}")


async def _sit_at(session: Resolver, url: HostUrl, target: Target, command: Command) -> tuple[Finding, ...]:
    advise(url, command)
    plain, told = command.found.plain, colours_here().get("TERM", "dumb")
    dumb = plain or told in ("", "dumb")
    with Console() as console:
        shown = Shown(plain=plain, raw=session.policy.allow_raw, utf8=console.utf8)
        async with session.open_terminal(
            url,
            size=console.size,
            terminal="dumb" if dumb else "xterm",
            origin=target.origin,
            referrer=target.referrer,
        ) as terminal:
            connection = terminal.connection
            connection.wait_without_end()
            if not command.quiet:
                streams.complain(
                    f"connected to {connection.peer} port {url.effective_port}; ^] asks what to do"
                )
            await sit(connection, shown, console, folds=dumb, quiet=command.quiet)
            return tuple(connection.findings)
