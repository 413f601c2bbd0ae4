"""The command line, read into one frozen `Command`.

A URL always has a colon and a verb never has, so both may come first; no verb means `get`. Values
are checked here: what leaves this file can be acted on.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields, replace
from typing import Literal, NoReturn, cast

from protocols.contract import Limits, Origin
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
    _add_output(parser)
    _add_bounds(parser)
    _add_safety(parser)
    _add_access(parser)
    return parser


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("-O", "-o", dest="output", metavar="FILE", help="save there; - is standard output")
    group.add_argument("-d", dest="directory", metavar="DIR", help="save below DIR, created if need be")
    group.add_argument("-i", dest="lists", action="append", default=[], metavar="LIST", help="more URLs: lines or JSON objects; - is standard input")  # fmt: skip
    group.add_argument("--exists", choices=["fail", "replace"], default="fail", help="what to do about a file that is there (fail)")  # fmt: skip
    group.add_argument("--json", action="store_true", help="one JSON object a line")
    group.add_argument("-q", dest="quiet", action="store_true", help="no messages")
    group.add_argument("-v", dest="verbose", action="store_true", help="show the dialogue")
    group.add_argument("--trace", metavar="FILE", help="write the dialogue there, secrets as ****")


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("limits")
    group.add_argument("-j", dest="jobs", type=_count, default=4, metavar="N", help="retrievals at once (4)")
    group.add_argument("--max-size", type=_size, metavar="BYTES", help="largest body")
    group.add_argument("--connect-timeout", type=_seconds, metavar="S", help="seconds to connect (30)")
    group.add_argument("--idle-timeout", type=_seconds, metavar="S", help="seconds without an octet (60)")
    group.add_argument("--max-time", type=_seconds, metavar="S", help="seconds for all of one URL")
    group.add_argument("--limit", action="append", default=[], metavar="NAME=VALUE", help="line, lines, entries, hops, body, ratio, connect or idle")  # fmt: skip


def _add_safety(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("safety")
    group.add_argument("--strict", action="store_true", help="a URL that RFC 1738 would not write is an error")
    group.add_argument("--policy", choices=["default", "cautious", "untrusted"], default="default")
    group.add_argument("--allow-port", action="append", default=[], type=_port, metavar="PORT")
    group.add_argument("--allow-address", action="append", default=[], metavar="CIDR")
    group.add_argument("--allow-name", action="append", default=[], metavar="HOST")
    group.add_argument("--allow-redirect", action="append", default=[], metavar="SCHEME")
    group.add_argument("--allow-forward", action="append", default=[], metavar="HOST")
    for word in ("password", "form", "special", "raw", "server-name"):
        group.add_argument(f"--allow-{word}", action="store_true")
    group.add_argument("--file-root", metavar="DIR", help="file URLs must lead below DIR")
    group.add_argument("--origin", choices=["user", "chosen", "derived"], default="user", help="who chose the URL")  # fmt: skip
    group.add_argument("--referrer", metavar="URL", help="the URL that led to it")


def _add_access(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("access")
    family = group.add_mutually_exclusive_group()
    family.add_argument("-4", dest="family", action="store_const", const="4", help="IPv4 only")
    family.add_argument("-6", dest="family", action="store_const", const="6", help="IPv6 only")
    group.add_argument("--cacert", metavar="FILE", help="trust these certificates as well")
    group.add_argument("--gateway", action="append", default=[], metavar="SCHEME=URL", help="resolve SCHEME through URL")  # fmt: skip
    group.add_argument("--search", metavar="TEXT", help="what to search for (gopher, wais)")
    group.add_argument("--view", metavar="TYPE", help="the Gopher+ view to ask for (gopher)")


def _command(verb: str, found: argparse.Namespace) -> Command:
    if not found.urls and not found.lists and verb not in ("extract", "schemes"):
        raise UsageError("a URL is needed (resolve --help shows what there is)")
    if found.output is not None and found.output != "-" and len(found.urls) + len(found.lists) > 1:
        raise UsageError("-O FILE takes one URL; -d DIR is for several")
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
        family=found.family,
        refinements=tuple((name, getattr(found, name)) for name in ("search", "view") if getattr(found, name) is not None),  # fmt: skip
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


_SECONDS = frozenset({"connect", "idle"})
_COUNTS = frozenset(field.name for field in fields(Limits)) - _SECONDS - {"body_everywhere", "total"}


def _limit(limits: Limits, name: str, value: str) -> Limits:
    try:
        match name:
            case "connect":
                return replace(limits, connect=_seconds(value))
            case "idle":
                return replace(limits, idle=_seconds(value))
            case "body":
                return replace(limits, body=_size(value), body_everywhere=True)
            case "line" | "lines" | "entries" | "hops" | "ratio":
                number = _size(value)
                changed: dict[str, int] = {name: number}
                return replace(limits, **changed)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--limit {name}: {error}") from error
    raise UsageError(f"--limit {name}: there is no such limit; there are {', '.join(sorted(_COUNTS | _SECONDS))}")


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"{option} takes NAME=VALUE, not {text!r}")
    return name, value


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1_000:
        raise argparse.ArgumentTypeError(f"a number from 1 to 1000 is needed, not {text!r}")
    return int(text)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65_535:
        raise argparse.ArgumentTypeError(f"a port from 1 to 65535 is needed, not {text!r}")
    return int(text)


def _size(text: str) -> int:
    """A number of octets, optionally with k, M or G (powers of 1024)."""
    digits, factor = text, 1
    if text[-1:] in "kKMG" and text:
        digits, factor = text[:-1], {"k": 1024, "K": 1024, "M": 1024**2, "G": 1024**3}[text[-1]]
    if not digits.isascii() or not digits.isdigit():
        raise argparse.ArgumentTypeError(f"a whole number is needed, not {text!r}")
    return int(digits) * factor


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"seconds above 0 are needed, not {text!r}")
    return seconds


