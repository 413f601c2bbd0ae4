"""What became of one URL: the record that `get --json` prints."""

from __future__ import annotations

from protocols.contract import JsonValue
from protocols.errors import ResolveError
from resolver.cli.arguments import Command
from resolver.cli.targets import Target
from resolver.environment import proxies_here
from resolver.policy import Policy
from resolver.retrieval.outcome import class_name, judge, outcome_of, outcome_of_failure, reason_of
from resolver.retrieval.response import Saved
from resolver.url import redact

__all__ = ["class_name", "done", "failed", "nothing_known"]


def done(saved: Saved, scheme: str) -> dict[str, JsonValue]:
    """The outcome of a retrieval that is complete; `path` is None on standard output."""
    return outcome_of(saved, scheme, saved.path).as_json()


def failed(
    error: ResolveError, target: Target, elapsed: float, command: Command, policy: Policy
) -> dict[str, JsonValue]:
    """The outcome of a retrieval that ended in `error`: what is not known is null."""
    judged = judge(
        error,
        target.url,
        policy=policy,
        origin=target.origin,
        referrer=target.referrer,
        gateways=command.gateways,
        environment=proxies_here(),
        proxy=command.found.proxy,
    )
    return outcome_of_failure(error, target.url, elapsed, judged).as_json()


def nothing_known(error: ResolveError, target: Target) -> dict[str, JsonValue]:
    """What stands in a list of facts or entries where `error` ended it."""
    return {"url": redact(target.url), "error": reason_of(error), "exit": error.exit_code}
