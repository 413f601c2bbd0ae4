"""The grammar of the command line, for argparse: options with values."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

from resolver.cli.options import Found, Option, rows
from resolver.cli.values import BadValue, nearest


class BadCommandLine(Exception):
    """The words are not of this grammar; the message says what is wrong."""


class _SwitchAction(argparse.Action):
    """An option without a value; `const` is its row."""

    def __init__(self, option_strings: list[str], dest: str, const: Option, default: str) -> None:
        super().__init__(option_strings, dest, nargs=0, const=const, default=default)

    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: object, flag: str | None = None
    ) -> None:
        self.const.turn_on(namespace)


#: Short options of other clients, which `resolve` refuses, and the option of `resolve` for the same purpose.
#: curl's `-x PROXY URL` must not fetch URL without the proxy.
_FOREIGN = {"-x": "--proxy URL"}


class _Foreign(argparse.Action):
    """A short option of another client; `const` is the option to name instead."""

    def __call__(self, parser: object, namespace: object, values: object, flag: object = None) -> NoReturn:
        raise BadCommandLine(f"there is no option {flag}; did you mean {self.const}?")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if message.endswith("expected one argument"):
            message += "; one that begins with - is written behind a = sign"
        raise BadCommandLine(message)


def parse(argv: list[str]) -> tuple[list[str], Found]:
    """The words that are no options, and the options. Raises `BadCommandLine`."""
    try:
        found, unknown = _parser().parse_known_intermixed_args(argv, Found())
    except argparse.ArgumentError as error:
        raise BadCommandLine(str(error)) from error
    if flags := [argument.partition("=")[0] for argument in unknown if argument.startswith("-")]:
        known = [flag for row in rows() for flag in row.flags]
        hint = nearest(flags[0], known) if flags[0].startswith("--") else ""
        raise BadCommandLine(f"there is no option {', '.join(flags)}{hint}")
    return vars(found).pop("urls"), found


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="resolve", add_help=False, allow_abbrev=False)
    parser.add_argument("urls", nargs="*")
    for flag, option in _FOREIGN.items():
        parser.add_argument(flag, action=_Foreign, nargs="?", const=option, default=argparse.SUPPRESS)
    for row in rows():
        _add(row, parser)
    return parser


def _add(row: Option, parser: argparse.ArgumentParser) -> None:
    if row.takes is None:
        parser.add_argument(
            *row.flags, dest=row.name, action=_SwitchAction, default=argparse.SUPPRESS, const=row
        )
        return
    parser.add_argument(
        *row.flags,
        dest=row.name,
        action="append" if row.many else "store",
        default=argparse.SUPPRESS,
        metavar=row.takes,
        type=_reader(row.kind),
        choices=row.choices,
    )


def _reader(kind: Callable[[str], object]) -> Callable[[str], object]:
    def read(text: str) -> object:
        try:
            return kind(text)
        except BadValue as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read
