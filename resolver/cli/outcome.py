"""What became of one URL: the record that `get --json` prints."""

from __future__ import annotations

from protocols.contract import JsonValue
from protocols.errors import ResolveError
from resolver.cli.arguments import Command
from resolver.cli.targets import CommandTarget
from resolver.environment import proxies_here
from resolver.policy import Policy
from resolver.retrieval.outcome import class_name, judge, outcome_of, outcome_of_failure, reason_of
from resolver.retrieval.response import Saved
from resolver.url import redact

__all__ = ["class_name", "done", "failed", "nothing_known", "removed"]


def done(saved: Saved, scheme: str, *, dry_run: bool = False) -> dict[str, JsonValue]:
    """The outcome of a retrieval that is complete, or of one that a `dry_run` has not made; `path` is None on
    standard output, and of what was left alone."""
    record = outcome_of(saved, scheme, saved.path).as_json()
    return {**record, "status": "skipped"} if dry_run else record


def removed(path: str, *, done: bool) -> dict[str, JsonValue]:
    """The outcome of a file or directory here that its source has no more."""
    nothing = dict.fromkeys(("url", "final_url", "scheme"))
    record: dict[str, JsonValue] = {**nothing, "status": "done" if done else "skipped", "exit": 0}
    record |= {"error": None, "path": path, "bytes": 0, "resumed_from": 0, "media_type": None}
    record |= {"modified": None, "digest": None, "verified": [], "attempts": 0, "elapsed": 0.0}
    return record | {"peer": None, "proxy": None, "findings": [], "mirror": None, "action": "delete"}


def failed(
    error: ResolveError, target: CommandTarget, elapsed: float, command: Command, policy: Policy
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


def nothing_known(error: ResolveError, target: CommandTarget) -> dict[str, JsonValue]:
    """What stands in a list of facts or entries where `error` ended it."""
    return {"url": redact(target.url), "error": reason_of(error), "exit": error.exit_code}
