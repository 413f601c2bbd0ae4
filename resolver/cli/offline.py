"""The verbs that touch no network: parse, explain, extract, schemes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocols.errors import InvalidUrl, ResolveError
from protocols.location import JsonValue, Url
from resolver.cli import messages, streams
from resolver.cli.arguments import Command
from resolver.cli.targets import Target, status_of, targets
from resolver.registry import RESERVED, SCHEMES, find, plugins
from resolver.url import parse, redact

if TYPE_CHECKING:
    from resolver.plan import Plan


def perform(command: Command) -> int:
    """Run one of these verbs; the exit status."""
    try:
        match command.verb:
            case "parse":
                return status_of(_parse(target, command) for target in targets(command))
            case "explain":
                return status_of(_explain(target, command) for target in targets(command))
            case "extract":
                return _extract(command)
            case _:
                return _schemes(command)
    except ResolveError as error:
        streams.complain(error.message)
        return error.exit_code


def _parse(target: Target, command: Command) -> int:
    try:
        url = parse(target.url, strict=command.strict)
    except InvalidUrl as error:
        if command.json:
            record: dict[str, JsonValue] = {"url": redact(target.url), "error": error.kind}
            streams.print_record({**record, "message": error.message, "position": error.position})
        if not command.quiet and not command.json:
            streams.complain(messages.describe(error, target.url))
        return error.exit_code
    if command.json:
        streams.print_record(_url_record(url))
    else:
        for name, value in _url_record(url).items():
            streams.print_line(f"{name}: {_plain(value)}")
    return 0


def _url_record(url: Url) -> dict[str, JsonValue]:
    return {"url": url.text, **url.components(), "findings": list(url.findings)}


def _plain(value: JsonValue) -> str:
    if value is None:
        return "-"
    return repr(value) if isinstance(value, (str, list)) else str(value)


def _explain(target: Target, command: Command) -> int:
    from resolver.cli.bounds import wishes_of
    from resolver.cli.permissions import policy_of  # policy and dialogues: parsing needs neither
    from resolver.news_server import find_setting
    from resolver.plan import explain

    setting, policy = find_setting(command.found.news_server), policy_of(command.found)
    plan = explain(
        target.parsed(command) if command.refinements else target.url,
        policy=policy,
        origin=target.origin,
        referrer=target.referrer,
        gateways=command.gateways,
        news_server=None if setting is None else setting.text,
        strict=command.strict,
        options=wishes_of(command.found, policy),
    )
    if command.json:
        streams.print_record(plan.as_json())
    else:
        _print_plan(plan)
        if plan.error is not None and not command.quiet:
            streams.complain(messages.describe(plan.error, target.url))
    return 0 if plan.error is None else plan.error.exit_code


def _print_plan(plan: Plan) -> None:
    streams.print_line(plan.url)
    streams.print_line(f"  verdict  {plan.verdict}")
    for finding in plan.findings:
        streams.print_line(f"  {finding.rule:<8} {finding.action}: {finding.detail}")
    for step in plan.steps:
        details = {name: value for name, value in step.items() if name != "action"}
        streams.print_line(f"  {step['action']:<8} {_step_text(details)}")


def _step_text(details: dict[str, JsonValue]) -> str:
    if "host" in details:
        tls = " with TLS" if details["tls"] else ""
        return f"{details['host']} port {details['port']} ({details['transport']}{tls})"
    if "octets" in details:
        return repr(details["octets"])
    return str(next(iter(details.values())))


def _extract(command: Command) -> int:
    from resolver.extraction import extract

    for name in command.urls or ("-",):
        for found in extract(streams.read_text(name)):
            if command.json:
                streams.print_record({"url": found.url, "alternates": list(found.alternates)})
            else:
                streams.print_line(found.url)
    return 0


def _schemes(command: Command) -> int:
    for record in sorted(_scheme_records(command), key=lambda record: str(record["scheme"])):
        if command.json:
            streams.print_record(record)
        else:
            port = "-" if record["default_port"] is None else record["default_port"]
            streams.print_line(f"{record['scheme']:<11} {port!s:>5}  {record['origin']:<9} {record['names']}")
    return 0


def _scheme_records(command: Command) -> list[dict[str, JsonValue]]:
    records = [_scheme_record(name, "built-in") for name in SCHEMES]
    records += [_scheme_record(name, "plug-in") for name in plugins()]
    records += [
        {"scheme": name, "default_port": None, "names": meant, "origin": "reserved"}
        for name, meant in RESERVED.items()
        if name not in command.gateways
    ]
    records += [
        {"scheme": name, "default_port": None, "names": f"whatever {url} serves", "origin": "gateway"}
        for name, url in command.gateways.items()
    ]
    return records


def _scheme_record(name: str, origin: str) -> dict[str, JsonValue]:
    scheme = find(name)
    assert scheme is not None
    return {"scheme": name, "default_port": scheme.default_port, "names": scheme.names, "origin": origin}
