"""What the command line says of limits and wishes, as the values that the package takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from protocols.options import Limits, Options
from resolver.cli.arguments import UsageError, pair
from resolver.cli.options import BadValue, Found, seconds, size
from resolver.policy import Policy


def wishes_of(found: Found, policy: Policy, *, keep: bool = False) -> Options:
    """What the schemes are asked for beyond the URL; with `keep`, of several URLs. Raises `UsageError`."""
    wishes = Options(
        tls=found.tls or "never",
        mlsd=found.mlsd,
        headers=tuple(_header(text) for text in found.headers),
        entries=found.entries,
        login_in_clear=found.tls == "never",
        keep=keep,
    )
    if policy.ftp_email is not None:
        wishes = replace(wishes, anonymous_password=policy.ftp_email.encode())
    if found.user_agent is not None:
        wishes = replace(wishes, user_agent=found.user_agent.encode("utf-8", "surrogateescape"))
    return wishes


def _header(text: str) -> tuple[bytes, bytes]:
    name, colon, value = text.partition(":")
    if not (name and colon) or "\r" in text or "\n" in text or "\0" in text:
        raise UsageError("-H takes NAME:VALUE on one line")  # the value is often a secret
    return name.encode("utf-8", "surrogateescape"), value.strip().encode("utf-8", "surrogateescape")


def limits_of(found: Found) -> Limits:
    """The limits that were set; the short forms win over `--limit`. Raises `UsageError`."""
    limits = Limits(total=found.max_time, min_rate=found.min_rate)
    for text in found.limit:
        limits = _limit(limits, *pair(text, "--limit"))
    if found.connect_timeout is not None:
        limits = replace(limits, connect=found.connect_timeout)
    if found.idle_timeout is not None:
        limits = replace(limits, idle=found.idle_timeout)
    if found.max_size is not None:
        limits = replace(limits, body=found.max_size, body_everywhere=True)
    return limits


_COUNTS = frozenset({"line", "lines", "entries", "hops", "body", "ratio"})
_SECONDS = frozenset({"connect", "idle"})


def _limit(limits: Limits, name: str, value: str) -> Limits:
    try:
        match name:
            case "connect":
                return replace(limits, connect=seconds(value))
            case "idle":
                return replace(limits, idle=seconds(value))
            case "body":
                return replace(limits, body=size(value), body_everywhere=True)
            case _ if name in _COUNTS:
                changed: dict[str, Any] = {name: size(value)}
                return replace(limits, **changed)
    except BadValue as error:
        raise UsageError(f"--limit {name}: {error}") from error
    names = ", ".join(sorted(_COUNTS | _SECONDS))
    raise UsageError(f"--limit {name}: there is no such limit; there are {names}")
