"""`open`: what a person sits at, by what the policy knows of the scheme, or looks at in a browser. A session
is opened here and nowhere else in the command (S18)."""

from __future__ import annotations

from protocols.contract import Finding, HostUrl, Url
from protocols.errors import NotConfigured
from resolver.cli import streams
from resolver.cli.advice import advise
from resolver.cli.arguments import Command
from resolver.cli.console import Console
from resolver.cli.sitting import sit
from resolver.cli.targets import CommandTarget
from resolver.environment import colours_here
from resolver.policy.schemes import rules_of
from resolver.retrieval.session import Resolver
from resolver.retrieval.terminal_shown import TerminalOutput


async def perform(
    session: Resolver, url: Url, target: CommandTarget, command: Command
) -> tuple[Finding, ...]:
    """What was odd about it."""
    if isinstance(url, HostUrl) and rules_of(url.scheme).session:
        _check_terminal("resolve cat --for SECONDS URL writes a session down")
        return await _sit_at(session, url, target, command)
    if isinstance(url, HostUrl) and rules_of(url.scheme).form is not None and _is_at_terminal():
        from resolver.cli.filling import fill_in, form_of  # few items have a form

        if (put := await form_of(session, url, target)) is not None:
            return await fill_in(put, session, url, target, command)
    from resolver.cli.browsing import browse

    await browse(session, url, target, command)
    return ()


def _is_at_terminal() -> bool:
    return streams.input_is_terminal() and streams.output_is_terminal()


def _check_terminal(instead: str) -> None:
    """Raises `NotConfigured`."""
    if not _is_at_terminal():
        words = "open is for a person at a terminal, and standard input or standard output is none"
        raise NotConfigured(f"{words}; {instead}")


async def _sit_at(
    session: Resolver, url: HostUrl, target: CommandTarget, command: Command
) -> tuple[Finding, ...]:
    advise(url, command)
    plain, told = command.found.plain, colours_here().get("TERM", "dumb")
    dumb = plain or told in ("", "dumb")
    with Console() as console:
        shown = TerminalOutput(plain=plain, raw=session.policy.allow_raw, utf8=console.utf8)
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
