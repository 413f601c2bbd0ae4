"""The grammar of the command line, for argparse: options with values, `--help`, `--version`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

from resolver.cli import streams
from resolver.cli.options import OPTIONS, BadValue, Found, Option
from resolver.version import VERSION

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


class BadArguments(Exception):
    """The words are not of this grammar; the message says what is wrong."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Of a fixed width: one is made for every option, and asking the terminal each time is slow."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=100)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if message.endswith("expected one argument"):
            message += "; one that begins with - is written behind a = sign"
        raise BadArguments(message)

    def _print_message(self, message: str, file: object = None) -> None:
        streams.print_text(message)  # argparse would not say when it cannot


def parse(argv: list[str]) -> tuple[list[str], Found] | None:
    """The words that are no options, and the options; None when `--help` or `--version` was answered.

    Raises `BadArguments`.
    """
    try:
        found, unknown = _parser().parse_known_intermixed_args(argv, Found())
    except SystemExit:
        return None
    except argparse.ArgumentError as error:
        raise BadArguments(str(error)) from error
    if flags := [argument.partition("=")[0] for argument in unknown if argument.startswith("-")]:
        raise BadArguments(f"there is no option {', '.join(flags)}")
    return vars(found).pop("urls"), found


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="resolve",
        usage="resolve [VERB] [OPTION]... URL...",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("urls", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version=f"resolve {VERSION}")
    for title, rows in OPTIONS.items():
        group = parser.add_argument_group(title)
        for row in rows:
            _add(row, group)
    return parser


def _add(row: Option, group: argparse._ArgumentGroup) -> None:
    if row.takes is None:
        group.add_argument(*row.flags, dest=row.name, action="store_true", help=row.purpose)
        return
    group.add_argument(
        *row.flags,
        dest=row.name,
        action="append" if row.many else "store",
        default=row.unset,
        metavar=None if row.choices else row.takes,
        type=_reader(row.kind),
        choices=row.choices,
        help=row.purpose,
    )


def _reader(kind: Callable[[str], object]) -> Callable[[str], object]:
    def read(text: str) -> object:
        try:
            return kind(text)
        except BadValue as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read
