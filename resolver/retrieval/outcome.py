"""What became of one URL that was to be saved, whatever it was: a value that can be kept and sent.

Its members as JSON are those that `get --json` prints: all are always there, None is unknown or absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Literal, TypeAlias

from protocols.brief import brief, quoted
from protocols.contract import Finding, JsonValue, Origin
from protocols.errors import InvalidUrl, ResolveError
from protocols.instant import instant
from protocols.values import dataclass, fields
from resolver.policy import Policy, check
from resolver.retrieval.response import Saved
from resolver.url import parse, redact

Status: TypeAlias = Literal["done", "skipped", "failed", "refused"]

#: What is refused before anything is sent to it: the policy, the parser, the registry, a redirect.
_REFUSED = frozenset({9, 12, 13, 15})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome:
    """What became of one URL of `Resolver.save_all`: `status` is `done`, `skipped` (the file that was there
    stays), `failed` or `refused`; `error` is what was in the way, `exit` its status as the command has it, 0
    where nothing was. URLs are redacted.

    Examples:
        >>> async with resolver.Resolver() as session:
        ...     async for outcome in session.save_all(["ftp://127.0.0.1:8900/pub/none.txt"]):
        ...         print(outcome.status, outcome.exit, type(outcome.error).__name__)
        failed 8 NotFound
    """

    url: str
    final_url: str | None = None
    scheme: str | None = None
    status: Status
    exit: int = 0
    error: ResolveError | None = None
    path: str | None = None
    bytes: int = 0
    resumed_from: int = 0
    media_type: str | None = None
    modified: datetime | None = None
    digest: str | None = None
    verified: tuple[str, ...] = ()
    attempts: int = 0
    elapsed: float = 0.0
    peer: str | None = None
    proxy: str | None = None
    findings: tuple[Finding, ...] = ()
    mirror: str | None = None

    def __repr__(self) -> str:
        return brief(self, self.status, quoted(self.url), quoted(self.path))

    @property
    def action(self) -> Literal["fetch", "keep"] | None:
        """What was done about the file; None where nothing came of it."""
        if self.status == "done":
            return "fetch"
        return "keep" if self.status == "skipped" and self.path is not None else None

    def as_json(self) -> dict[str, JsonValue]:
        """Every member under its name."""
        members = {member.name: _plain(getattr(self, member.name)) for member in fields(self)}
        return {**members, "action": self.action}


def _plain(value: object) -> JsonValue:
    match value:
        case ResolveError():
            return reason_of(value)
        case datetime():
            return instant(value)
        case float():
            return round(value, 6)
        case tuple():
            return [each.as_json() if isinstance(each, Finding) else str(each) for each in value]
    assert value is None or isinstance(value, str | int)
    return value


def outcome_of(saved: Saved, scheme: str | None, path: str | None) -> Outcome:
    """Of a retrieval that is complete."""
    return Outcome(
        url=saved.requested_url,
        final_url=saved.url,
        scheme=scheme,
        status="skipped" if saved.skipped else "done",
        path=path,
        bytes=saved.bytes,
        resumed_from=saved.resumed_from,
        media_type=saved.media_type,
        modified=saved.modified,
        digest=saved.digest,
        verified=saved.verified,
        attempts=saved.attempts,
        elapsed=saved.elapsed,
        peer=saved.peer,
        proxy=saved.proxy,
        findings=saved.findings,
        mirror=saved.mirror,
    )


def outcome_of_failure(
    error: ResolveError, url: str, elapsed: float, judged: tuple[Finding, ...], attempts: int | None = None
) -> Outcome:
    """Of one that ended in `error`; `judged` is what the policy says of the URL, see `judge`."""
    refused = error.exit_code in _REFUSED
    return Outcome(
        url=redact(url),
        scheme=_scheme_of(url),
        status="refused" if refused else "failed",
        exit=error.exit_code,
        error=error,
        bytes=getattr(error, "received", 0),
        attempts=0 if refused else error.attempts if attempts is None else attempts,
        elapsed=elapsed,
        findings=judged,
    )


def judge(
    error: ResolveError,
    url: str,
    *,
    policy: Policy,
    origin: Origin,
    referrer: tuple[str, str | None] | None,
    gateways: Mapping[str, str],
    environment: Mapping[str, str],
    proxy: str | None,
) -> tuple[Finding, ...]:
    """What the policy says of the URL, as `explain` has it, and the rule that stopped it later: at an
    address, a redirect, a reply."""
    found = check(
        url,
        policy=policy,
        origin=origin,
        referrer=referrer,
        gateways=gateways,
        environment=environment,
        proxy=proxy,
    ).findings
    with suppress(InvalidUrl):
        found = (*parse(url, origin=origin).spelling, *found)
    rule = _rule_of(error)
    if rule is None or any((finding.rule, finding.action) == (rule, "refuse") for finding in found):
        return tuple(found)
    return (*found, Finding(rule, "refuse", error.message.removeprefix(f"{rule}: ")))


def reason_of(error: ResolveError) -> dict[str, JsonValue]:
    """An error as JSON: its public class, its words, and the rule behind it, if there is one."""
    reason: dict[str, JsonValue] = {"code": class_name(error), "message": error.message}
    rule = _rule_of(error)
    return reason if rule is None else {**reason, "rule": rule}


def _rule_of(error: ResolveError) -> str | None:
    """What is no URL is refused by S01."""
    return "S01" if isinstance(error, InvalidUrl) else getattr(error, "rule", None)


def _scheme_of(text: str) -> str | None:
    try:
        return parse(text, origin="user").scheme
    except InvalidUrl:
        return None


def class_name(error: ResolveError) -> str:
    """The public class of an error: a scheme may have a finer one of its own."""
    public = ResolveError.__module__
    return next(cls.__name__ for cls in type(error).__mro__ if cls.__module__ == public)
