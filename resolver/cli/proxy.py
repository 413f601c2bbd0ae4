"""The command `proxy`: an egress proxy that checks the connections of other programs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from protocols.text import own_text
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.output import print_bytes
from resolver.cli.session_settings import make_limits, make_policy
from resolver.cli.vocabulary import STATUS_BY_SIGNAL
from resolver.transfer.settings import Settings

if TYPE_CHECKING:
    from resolver.web.egress import ProxyDecision


def perform(command: Command) -> int:
    """Run the proxy until a signal arrives, and return the exit status. Raises `ResolveError`."""
    return trio.run(_run, command)


async def _run(command: Command) -> int:
    from resolver.web.egress import ProxySettings, run_proxy

    settings = Settings(policy=make_policy(command), limits=make_limits(command), family=command.family)
    address = command.listen or "127.0.0.1"
    proxy = ProxySettings(settings, _make_reporter(command), address, command.port)
    with trio.open_signal_receiver(*STATUS_BY_SIGNAL) as signals:
        async with run_proxy(proxy) as port:
            place = f"[{address}]" if ":" in address else address
            url = f"http://{place}:{port}"
            streams.print_line(json.dumps({"url": url, "policy": command.policy}) if command.json else url)
            streams.flush()
            async for number in signals:
                return STATUS_BY_SIGNAL[number]
    return 0


def _make_reporter(command: Command) -> Callable[[ProxyDecision], Awaitable[None]]:
    turns = trio.Lock()

    async def report(decision: ProxyDecision) -> None:
        if command.json:
            async with turns:
                await print_bytes(streams.json_line(decision._asdict()).encode("ascii"))
        elif not command.is_quiet and streams.accepts_line():
            streams.note(own_text(_format_decision(decision)))

    return report


def _format_decision(decision: ProxyDecision) -> str:
    target = "" if decision.host is None else f" {decision.host} port {decision.port}"
    address = "" if decision.address is None else f" at {decision.address}"
    rule = "" if decision.rule is None or decision.reason is not None else f": warning {decision.rule}"
    reason = "" if decision.reason is None else f": {decision.reason}"
    return f"{decision.action} {decision.method}{target}{address} for {decision.client}{rule}{reason}"
