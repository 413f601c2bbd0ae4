"""The command line, read into one frozen `Command`.

A URL always has a colon and a verb never has, so the first word that is no option may be either; no verb
means `get`. Values are checked here: what leaves this file can be acted on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from resolver.cli.options import OPTIONS, Found

if TYPE_CHECKING:
    from protocols.contract import Origin
    from resolver.saving import Exists

OFFLINE = frozenset({"parse", "explain", "extract", "schemes"})
ONLINE = frozenset({"get", "cat", "ls", "info"})
VERBS = OFFLINE | ONLINE


class UsageError(Exception):
    """The command line cannot be understood; the message says what is wrong with it, without what a URL in it
    has before an @ (S17)."""

    def __init__(self, message: str) -> None:
        super().__init__(re.sub(r"//[^/?#\s]*@", "//****@", message))


class Command(NamedTuple):
    """One command line. `urls` are as typed; `lists` are files with more of them. What `found` says of
    policy and limits, `permissions` and `bounds` read: parsing has no use for it."""

    verb: str
    urls: tuple[str, ...]
    lists: tuple[str, ...]
    output: str | None
    directory: str | None
    exists: Exists
    jobs: int
    json: bool
    quiet: bool
    verbose: bool
    trace: str | None
    strict: bool
    origin: Origin
    referrer: str | None
    gateways: dict[str, str]
    cafile: str | None
    family: Literal["4", "6"] | None
    refinements: tuple[tuple[str, str], ...]
    found: Found


def read(argv: list[str]) -> Command | None:
    """The command, or None when `--help` or `--version` was answered. Raises `UsageError`."""
    end = argv.index("--") if "--" in argv else len(argv)
    for argument in argv:
        if "\0" in argument:
            raise UsageError(f"{argument!r}: an argument holds no NUL")
    for argument in argv[:end]:
        if argument.startswith("-") and argument.endswith("--"):  # argparse would lose this value
            raise UsageError(f"{argument!r}: -- is no value of an option")
    heard = _read_plain(argv[:end]) or _read_options(argv[:end])
    if heard is None:
        return None
    words, found = (*heard[0], *argv[end + 1 :]), heard[1]
    verb = words[0] if words and words[0] in VERBS else None
    return _command("get", words, found) if verb is None else _command(verb, words[1:], found)


def _read_plain(argv: list[str]) -> tuple[list[str], Found] | None:
    """The words and the switches; None where there is an option that takes a value, or none of the table.
    What asks for nothing special should not wait for argparse, which takes longer than a plan."""
    rows = [row for group in OPTIONS.values() for row in group]
    switches = {flag: row.name for row in rows if row.takes is None for flag in row.flags}
    words, found = [], Found(**{row.name: row.unset for row in rows})
    for argument in argv:
        if argument in switches:
            setattr(found, switches[argument], True)
        elif argument.startswith("-") and argument != "-":
            return None
        else:
            words.append(argument)
    return words, found


def _read_options(argv: list[str]) -> tuple[list[str], Found] | None:
    """The words and the options; None when `--help` or `--version` was answered. Raises `UsageError`."""
    from resolver.cli.grammar import BadArguments, parse

    try:
        return parse(argv)
    except BadArguments as error:
        raise UsageError(f"{error} (resolve --help shows what there is)") from error


def _command(verb: str, urls: tuple[str, ...], found: Found) -> Command:
    _check_words(verb, urls, found)
    _check_output(verb, urls, found)
    if found.only_ipv4 and found.only_ipv6:
        raise UsageError("-4 and -6 exclude one another")
    return Command(
        verb=verb,
        urls=urls,
        lists=tuple(found.lists),
        output=found.output,
        directory=found.directory,
        exists=found.exists,
        jobs=found.jobs,
        json=found.json,
        quiet=found.quiet or _records_to_stderr(verb, found),
        verbose=found.verbose,
        trace=found.trace,
        strict=found.strict,
        origin=cast("Origin", found.origin),
        referrer=found.referrer,
        gateways=_gateways(found.gateway),
        cafile=found.cacert,
        family="4" if found.only_ipv4 else "6" if found.only_ipv6 else None,
        refinements=tuple(
            (name, value)
            for name, value in (("search", found.search), ("view", found.view), ("type", found.type))
            if value is not None
        ),
        found=found,
    )


def _records_to_stderr(verb: str, found: Found) -> bool:
    """Is standard error for records, which say all that a message would?"""
    return bool(found.json) and (verb == "cat" or (verb == "get" and found.output == "-"))


def _check_words(verb: str, urls: tuple[str, ...], found: Found) -> None:
    if verb == "schemes" and urls:
        raise UsageError("schemes takes no URL: it lists every scheme")
    if not urls and not found.lists and verb not in ("extract", "schemes"):
        raise UsageError("a URL is needed (resolve --help shows what there is)")


def _check_output(verb: str, urls: tuple[str, ...], found: Found) -> None:
    """What no file is made of is not to be looked for in one: `explain` is, for it says what `get` does."""
    to_file = found.output is not None and found.output != "-"
    if verb not in ("get", "explain") and (to_file or found.directory is not None):
        raise UsageError(f"-O FILE and -d DIR are for get; what {verb} gives is on standard output")
    if to_file and len(urls) + len(found.lists) > 1:
        raise UsageError("-O FILE takes one URL; -d DIR is for several")


def _gateways(texts: list[str]) -> dict[str, str]:
    if not texts:
        return {}
    from resolver.gateways import check_gateway  # few command lines have one

    try:
        return dict(check_gateway(*pair(text, "--gateway")) for text in texts)
    except ValueError as error:
        raise UsageError(f"--gateway {error}") from error


def pair(text: str, option: str) -> tuple[str, str]:
    """NAME=VALUE taken apart; `option` is for the message. Raises `UsageError`."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f"{option} takes NAME=VALUE, not {text!r}")
    return name, value
