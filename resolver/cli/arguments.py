"""The command line, read into one frozen `Command`.

A URL always has a colon and a verb never has, so both may come first; no verb means `get`. Values
are checked here: what leaves this file can be acted on.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, cast

from protocols.contract import Limits, Origin
from resolver.cli.options import OPTIONS, seconds, size
from resolver.policy import Policy
from resolver.version import VERSION

OFFLINE = frozenset({"parse", "explain", "extract", "schemes"})
ONLINE = frozenset({"get", "cat", "ls", "info"})
VERBS = OFFLINE | ONLINE

_DESCRIPTION = """\
Fetch what URLs locate: ftp, http, gopher, mailto, news, nntp, telnet, wais, file, prospero.

verbs (none means get):
  get URL...       save each under its own name
  cat URL...       bodies to standard output
  ls URL...        a directory, menu, group or result list
  info URL...      kind, size, type, date; no body
  explain URL...   what would be sent and what the policy says; nothing is sent
  parse URL...     components, findings or the error
  extract [FILE]   wrapped URLs in running text
  schemes          every scheme and its default port
"""
_EPILOG = """\
exit status: 0 done and verified, 1 mixed, 2 usage, 3 local file, 4 network, 5 TLS, 6 login,
7 protocol violation, 8 the server said no, 9 refused by policy, 10 integrity, 11 timed out,
12 not a URL, 13 scheme unsupported, 14 size limit, 15 redirect refused, 130 interrupted,
143 terminated, 141 the reader of standard output went away
"""


class UsageError(Exception):
    """The command line cannot be understood; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command line. `urls` are as typed; `lists` are files with more of them."""

    verb: str
    urls: tuple[str, ...]
    lists: tuple[str, ...]
    output: str | None
    directory: str | None
    exists: Literal["fail", "replace"]
    jobs: int
    json: bool
    quiet: bool
    verbose: bool
    trace: str | None
    strict: bool
    origin: Origin
    referrer: str | None
    policy: Policy
    limits: Limits
    gateways: dict[str, str]
    cafile: str | None
    family: Literal["4", "6"] | None
    refinements: tuple[tuple[str, str], ...]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (resolve --help shows what there is)")


def read(argv: list[str]) -> Command | None:
    """The command, or None when `--help` or `--version` was answered. Raises `UsageError`."""
    verb, rest = ("get", argv) if not argv or argv[0] not in VERBS else (argv[0], argv[1:])
    if not argv:
        raise UsageError("a URL is needed (resolve --help shows what there is)")
    try:
        found = _parser().parse_intermixed_args(rest)
    except SystemExit:
        return None
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from error
    return _command(verb, found)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="resolve",
        usage="resolve [VERB] [OPTION]... URL...",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("urls", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version=f"resolve {VERSION}")
    for title, rows in OPTIONS.items():
        group = parser.add_argument_group(title)
        for row in rows:
            row.add_to(group)
    return parser


def _command(verb: str, found: argparse.Namespace) -> Command:
    if not found.urls and not found.lists and verb not in ("extract", "schemes"):
        raise UsageError("a URL is needed (resolve --help shows what there is)")
    if found.output is not None and found.output != "-" and len(found.urls) + len(found.lists) > 1:
        raise UsageError("-O FILE takes one URL; -d DIR is for several")
    if found.only_ipv4 and found.only_ipv6:
        raise UsageError("-4 and -6 exclude one another")
    return Command(
        verb=verb,
        urls=tuple(found.urls),
        lists=tuple(found.lists),
        output=found.output,
        directory=found.directory,
        exists=found.exists,
        jobs=found.jobs,
        json=found.json,
        quiet=found.quiet,
        verbose=found.verbose,
        trace=found.trace,
        strict=found.strict,
        origin=cast(Origin, found.origin),
        referrer=found.referrer,
        policy=_policy(found),
        limits=_limits(found),
        gateways=dict(_pair(text, "--gateway") for text in found.gateway),
        cafile=found.cacert,
        family="4" if found.only_ipv4 else "6" if found.only_ipv6 else None,
        refinements=tuple(
            (name, value)
            for name, value in (("search", found.search), ("view", found.view))
            if value is not None
        ),
    )


def _policy(found: argparse.Namespace) -> Policy:
    try:
        return replace(
            Policy.named(found.policy),
            allow_port=frozenset(found.allow_port),
            allow_address=frozenset(found.allow_address),
            allow_name=frozenset(found.allow_name),
            allow_redirect=frozenset(found.allow_redirect),
            allow_forward=frozenset(found.allow_forward),
            allow_password=found.allow_password,
            allow_form=found.allow_form,
            allow_special=found.allow_special,
            allow_raw=found.allow_raw,
            allow_server_name=found.allow_server_name,
            file_root=found.file_root,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def _limits(found: argparse.Namespace) -> Limits:
    limits = Limits(total=found.max_time)
    for text in found.limit:
        limits = _limit(limits, *_pair(text, "--limit"))
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
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--limit {name}: {error}") from error
    names = ", ".join(sorted(_COUNTS | _SECONDS))
    raise UsageError(f"--limit {name}: there is no such limit; there are {names}")


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"{option} takes NAME=VALUE, not {text!r}")
    return name, value
