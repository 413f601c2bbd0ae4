"""What became of one URL: the record that `get --json` prints."""

from __future__ import annotations

from contextlib import suppress

from protocols.contract import Finding, JsonValue
from protocols.errors import InvalidUrl, ResolveError
from protocols.instant import instant
from resolver.cli.arguments import Command
from resolver.cli.targets import Target
from resolver.environment import proxies_here
from resolver.policy import Policy, check
from resolver.retrieval.response import Saved
from resolver.url import parse, redact


def done(saved: Saved, scheme: str) -> dict[str, JsonValue]:
    """The outcome of a retrieval that is complete; `path` is None on standard output."""
    return {
        "url": saved.requested_url,
        "final_url": saved.url,
        "scheme": scheme,
        "status": "skipped" if saved.skipped else "done",
        "exit": 0,
        "error": None,
        "path": saved.path,
        "bytes": saved.bytes,
        "resumed_from": saved.resumed_from,
        "media_type": saved.media_type,
        "modified": instant(saved.modified),
        "digest": saved.digest,
        "verified": list(saved.verified),
        "attempts": saved.attempts,
        "elapsed": round(saved.elapsed, 6),
        "peer": saved.peer,
        "proxy": saved.proxy,
        "findings": [finding.as_json() for finding in saved.findings],
        "mirror": saved.mirror,
    }


def failed(
    error: ResolveError, target: Target, elapsed: float, command: Command, policy: Policy
) -> dict[str, JsonValue]:
    """The outcome of a retrieval that ended in `error`: what is not known is null."""
    refused = error.exit_code in (9, 12, 13, 15)
    return {
        "url": redact(target.url),
        "final_url": None,
        "scheme": _scheme_of(target.url),
        "status": "refused" if refused else "failed",
        "exit": error.exit_code,
        "error": _reason(error),
        "path": None,
        "bytes": getattr(error, "received", 0),
        "resumed_from": 0,
        "media_type": None,
        "modified": None,
        "digest": None,
        "verified": [],
        "attempts": 0 if refused else error.attempts,
        "elapsed": round(elapsed, 6),
        "peer": None,
        "proxy": None,
        "findings": [finding.as_json() for finding in _findings(error, target, command, policy)],
        "mirror": None,
    }


def nothing_known(error: ResolveError, target: Target) -> dict[str, JsonValue]:
    """What stands in a list of facts or entries where `error` ended it."""
    return {"url": redact(target.url), "error": _reason(error), "exit": error.exit_code}


def _reason(error: ResolveError) -> dict[str, JsonValue]:
    reason: dict[str, JsonValue] = {"code": class_name(error), "message": error.message}
    rule = _rule_of(error)
    return reason if rule is None else {**reason, "rule": rule}


def _rule_of(error: ResolveError) -> str | None:
    """What is no URL is refused by S01."""
    return "S01" if isinstance(error, InvalidUrl) else getattr(error, "rule", None)


def _findings(error: ResolveError, target: Target, command: Command, policy: Policy) -> list[Finding]:
    """What the policy says of the URL, as `explain` has it, and the rule that stopped it later: at an
    address, a redirect, a reply."""
    found = check(
        target.url,
        policy=policy,
        origin=target.origin,
        referrer=target.referrer,
        gateways=command.gateways,
        environment=proxies_here(),
        proxy=command.found.proxy,
    ).findings
    with suppress(InvalidUrl):
        found = (*parse(target.url, origin=target.origin).spelling, *found)
    rule = _rule_of(error)
    if rule is None or any((finding.rule, finding.action) == (rule, "refuse") for finding in found):
        return list(found)
    return [*found, Finding(rule, "refuse", error.message.removeprefix(f"{rule}: "))]


def _scheme_of(text: str) -> str | None:
    try:
        return parse(text, origin="user").scheme
    except InvalidUrl:
        return None


def class_name(error: ResolveError) -> str:
    """The public class of an error: a scheme may have a finer one of its own."""
    public = ResolveError.__module__
    return next(cls.__name__ for cls in type(error).__mro__ if cls.__module__ == public)
