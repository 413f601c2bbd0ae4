"""The commands that work without network: `parse`, `explain`, `extract` and `schemes`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from protocols.errors import InvalidUrl, LocalError, NotConfigured, ResolveError, choose_status
from protocols.location import JsonValue, Url
from resolver.cli import messages, streams
from resolver.cli.arguments import Command
from resolver.cli.facts import fact_lines, word
from resolver.cli.targets import CommandTarget, targets
from resolver.url.parsing import parse, redact
from resolver.url.registry import RESERVED, SCHEMES, explain_missing, find, plugins

if TYPE_CHECKING:
    from resolver.transfer.plan import Plan


def show_components(command: Command) -> int:
    """Print the components or the parse error of each URL, and return the exit status."""
    return _inspect_each(_parse, command)


def _inspect_each(inspect: Callable[[CommandTarget, Command], int], command: Command) -> int:
    statuses: list[int] = []

    def report(error: ResolveError) -> None:
        if not command.silent:
            streams.complain(error.message)
        statuses.append(error.exit_code)

    try:
        statuses += (inspect(target, command) for target in targets(command, report))
    except LocalError as error:
        report(error)
    return choose_status(statuses)


def _parse(target: CommandTarget, command: Command) -> int:
    try:
        url = parse(target.url, strict=command.strict, origin=target.origin)
    except InvalidUrl as error:
        if command.json:
            record: dict[str, JsonValue] = {"url": redact(target.url), "error": error.kind}
            streams.print_record({**record, "message": error.message, "position": error.position})
        if not command.is_silent and not command.json:
            streams.complain(*messages.describe(error, target.url))
        return error.exit_code
    if command.json:
        streams.print_record(_url_record(url))
    else:
        for line in fact_lines(_url_record(url), repr):
            _print(line, command)
    return 0


def _url_record(url: Url) -> dict[str, JsonValue]:
    return {"url": url.text, **url.components(), "findings": list(url.findings)}


def explain(command: Command) -> int:
    """Print each URL's plan and return the exit status. Raises `LocalError` if the page is not writable."""
    if not command.html:
        return _inspect_each(_explain, command)
    from resolver.cli import trace as diagrams  # lazy import: few users need a page

    diagrams.check_extra("--html")
    plans: list[Plan] = []
    status = _inspect_each(partial(_explain, plans=plans), command)
    diagrams.show_plans(plans, command)
    return status


def _explain(target: CommandTarget, command: Command, plans: list[Plan] | None = None) -> int:
    """Print the plan of one URL; if `plans` is a list, append the plan to it instead, for the HTML page."""
    try:
        from resolver.cli.plans import (
            plan_target,  # lazy import: `parse` does not need the policy and protocols
        )

        plan = plan_target(target, command)
    except NotConfigured as error:
        if not command.is_silent:
            streams.complain(*messages.describe(error, target.url))
        return error.exit_code
    if plans is not None:
        plans.append(plan)
    elif command.json:
        streams.print_record(plan.as_json())
    else:
        _print_plan(plan, command)
        if plan.error is not None and not command.is_silent:
            streams.complain(*messages.describe(plan.error, target.url))
    return 0 if plan.error is None else plan.error.exit_code


def _print_plan(plan: Plan, command: Command) -> None:
    _print(plan.url, command)
    _print(f"  verdict  {plan.verdict}", command)
    for finding in plan.findings:
        _print(f"  {finding.rule:<8} {finding.action}: {finding.detail}", command)
    for step in plan.steps:
        details = {name: value for name, value in step.items() if name != "action"}
        _print(f"  {word(step['action']):<8} {_step_text(details)}", command)


def _print(line: str, command: Command) -> None:
    streams.print_line(line, raw=command.allow_raw)


def _step_text(details: dict[str, JsonValue]) -> str:
    if "host" in details:
        tls = " with TLS" if details["tls"] else ""
        return f"{word(details['host'])} port {word(details['port'])} ({word(details['transport'])}{tls})"
    return word(next(iter(details.values())), repr if "octets" in details else str)


def extract_urls(command: Command) -> int:
    """Print the URLs in plain text, and return the exit status. Raises `LocalError`."""
    from resolver.url.extraction import extract  # lazy import: no other command needs it

    for name in (*command.urls, *command.lists) or ("-",):
        for match in extract(streams.read_text(name)):
            if command.json:
                streams.print_record({"url": match.url, "alternates": list(match.alternates)})
            else:
                _print(match.url, command)
    return 0


def show_schemes(command: Command) -> int:
    """Print all URL schemes and return the exit status."""
    for scheme, port, names, origin in sorted(_list_schemes(command), key=lambda row: row[0]):
        if command.json:
            streams.print_record({"scheme": scheme, "default_port": port, "names": names, "origin": origin})
        else:
            streams.print_line(f"{scheme:<11} {word(port):>5}  {origin:<9} {names}")
    return 0


def _list_schemes(command: Command) -> Iterator[tuple[str, int | None, str, str]]:
    """Yield the name, the default port, the meaning and the origin of each URL scheme."""
    for name in SCHEMES:
        yield (name, *_describe_scheme(name), "built-in")
    for name in plugins():
        if name not in command.gateways:
            yield (name, *_describe_scheme(name), "plug-in")
    for name, names in RESERVED.items():
        if name not in command.gateways:
            yield name, None, names, "reserved"
    for name, url in command.gateways.items():
        yield name, None, f"resources served by {redact(url)}", "gateway"


def _describe_scheme(name: str) -> tuple[int | None, str]:
    """Return the default port and the meaning of a scheme, or the reason why a plug-in cannot be used.

    The reason is empty if the entry point of the plug-in is not a scheme definition.
    """
    scheme = find(name)
    port, names = (None, "") if scheme is None else (scheme.default_port, scheme.names)
    return port, explain_missing(name) or names
