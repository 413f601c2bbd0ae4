"""Functions that convert command-line options to the package's `Options`, `Limits` and `Policy`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from protocols.options import Limits, Options
from resolver.cli.options import CommandOptions
from resolver.cli.values import BadValue, UsageError, pair, seconds, size, suggest_nearest
from resolver.policy.settings import Policy

if TYPE_CHECKING:
    from protocols.script import Transcript


def make_options(
    command: CommandOptions, policy: Policy, *, keep: bool = False, raw: bool = False, listen: bool = False
) -> Options:
    """Return the request options of schemes. Raises `UsageError`.

    Args:
        command: the options of the command line.
        policy: the policy, which contains the e-mail address for anonymous FTP.
        keep: whether connections are kept alive for several URLs.
        raw: whether the command supports `--raw` (the body as received).
        listen: whether the command records telnet sessions.
    """
    options = Options(
        tls=command.tls or "never",
        mlsd=command.mlsd,
        nlst=command.nlst,
        headers=tuple(parse_header(text) for text in command.headers),
        refusals=command.show_error_body,
        entries=command.entries,
        login_in_clear=command.tls == "never",
        keep=keep,
        raw=raw and command.raw,
        transcript=_make_transcript(command) if listen else None,
    )
    if policy.ftp_email is not None:
        options = replace(options, anonymous_password=policy.ftp_email.encode())
    if command.user_agent is not None:
        options = replace(options, user_agent=command.user_agent.encode("utf-8", "surrogateescape"))
    return options


def _make_transcript(command: CommandOptions) -> Transcript | None:
    """Return the settings of a recorded telnet session, or None. Raises `UsageError`."""
    if command.during is None and command.until is None:
        if command.send:
            raise UsageError("--send needs --until or --for")
        return None
    if any(end in text for text in command.send for end in "\r\n\0"):
        raise UsageError("--send must be one line without a line end")
    from protocols.script import Transcript  # lazy import: few command lines record a session
    from resolver.terminal.prompts import prompt

    return Transcript(
        seconds=command.during,
        prompt=None if command.until is None else prompt(command.until.encode("utf-8", "surrogateescape")),
        send=tuple(text.encode("utf-8", "surrogateescape") for text in command.send),
    )


def parse_header(text: str) -> tuple[bytes, bytes]:
    """Split a header into name and value. The error omits the header, because its value may be a secret."""
    name, colon, value = text.partition(":")
    if not (name and colon) or "\r" in text or "\n" in text or "\0" in text:
        raise UsageError(
            "-H: expected NAME:VALUE on one line"
        )  # the message omits the value, which may be a secret
    return name.encode("utf-8", "surrogateescape"), value.strip().encode("utf-8", "surrogateescape")


_LIMIT_BY_OPTION = {
    "min_rate": "min_rate",
    "connect_timeout": "connect",
    "idle_timeout": "idle",
    "max_time": "total",
    "max_size": "body",
}


def make_limits(command: CommandOptions) -> Limits:
    """Return the limits that the options set. Raises `UsageError`."""
    return with_limits(Limits(), vars(command))


def with_limits(limits: Limits, values: Mapping[str, Any]) -> Limits:
    """Return `limits` with changes by option name. Raises `UsageError`.

    An option for one limit, such as `--max-size`, overrides `--limit`.
    """
    for text in values.get("limit", ()):
        limits = _set_limit(limits, *pair(text, "--limit"))
    for option, name in _LIMIT_BY_OPTION.items():
        if values.get(option) is not None:
            changed: dict[str, Any] = {name: values[option]}
            limits = replace(limits, **changed)
    return replace(limits, body_everywhere=True) if values.get("max_size") is not None else limits


def check_limit(name: str, value: str) -> None:
    _set_limit(Limits(), name, value)


_COUNTS = frozenset({"line", "lines", "entries", "hops", "body", "ratio", "quota"})
_SECONDS = frozenset({"connect", "head", "idle", "total"})


def _set_limit(limits: Limits, name: str, value: str) -> Limits:
    try:
        match name:
            case "body":
                return replace(limits, body=size(value), body_everywhere=True)
            case "quota" if size(value) == 0:  # wget's -Q0 means no quota
                raise BadValue("expected bytes, 1 or more, got 0")
            case _ if name in _COUNTS | _SECONDS:
                changed: dict[str, Any] = {name: size(value) if name in _COUNTS else seconds(value)}
                return replace(limits, **changed)
    except BadValue as error:
        raise UsageError(f"--limit {name}: {error}") from error
    known_names = _COUNTS | _SECONDS
    suggestion = suggest_nearest(name, known_names) or f"; expected one of {', '.join(sorted(known_names))}"
    raise UsageError(f"--limit {name}: unknown limit{suggestion}")


# The safety policy of the command line. The policy and the limits are separate, because a plan (`explain`)
# needs the policy but not the limits.


def make_policy(command: CommandOptions) -> Policy:
    """Return the policy of `--policy` with all `--allow-…` options applied. Raises `UsageError`."""
    try:
        return replace(
            Policy.named(command.policy),
            allow_port=frozenset(command.allow_port),
            allow_address=frozenset(command.allow_address),
            allow_name=frozenset(command.allow_name),
            allow_redirect=frozenset(command.allow_redirect),
            allow_forward=frozenset(command.allow_forward),
            allowed_hosts=frozenset(command.allowed_hosts) or None,
            allow_password=command.allow_password,
            allow_form=command.allow_form,
            allow_special=command.allow_special,
            allow_raw=command.allow_raw,
            allow_server_name=command.allow_server_name,
            file_root=command.file_root,
            ftp_email=command.ftp_email,
            trusted_proxy=command.trusted_proxy,
        )
    except ValueError as error:
        # the error message starts with the name of the field, which is also the name of the option
        field, colon, detail = str(error).partition(":")
        raise UsageError(f"--{field.replace('_', '-')}{colon}{detail}") from error
