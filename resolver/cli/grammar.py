"""The grammar of the command line, for argparse."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from resolver.cli.options import Option, rows
from resolver.cli.values import BadValue, UsageError, suggest_nearest


class _SwitchAction(argparse.Action):
    """An option without a value; `const` is its row."""

    def __init__(self, option_strings: list[str], dest: str, const: Option, default: str) -> None:
        super().__init__(option_strings, dest, nargs=0, const=const, default=default)

    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: object, flag: str | None = None
    ) -> None:
        again = hasattr(namespace, self.const.name)
        setattr(namespace, self.const.twice if again and self.const.twice else self.const.name, True)


#: Short options of other clients, which `resolve` refuses, and the option of `resolve` for the same purpose.
#: curl's `-x PROXY URL` must not fetch URL without the proxy.
_FOREIGN = {"-x": "--proxy URL"}


class _ForeignAction(argparse.Action):
    """A short option of another client; `const` is the option to name instead."""

    def __call__(self, parser: object, namespace: object, values: object, flag: object = None) -> NoReturn:
        raise _refused(f"unknown option {flag}; did you mean {self.const}?")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if message.endswith("expected one argument"):
            message += "; write a value that starts with - as OPTION=VALUE"
        raise _refused(message)


def parse(argv: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Parse the arguments that are not options, and the options by name. Raises `UsageError`."""
    try:
        namespace, unknown = _parser().parse_known_intermixed_args(argv)
    except argparse.ArgumentError as error:
        raise _refused(str(error)) from error
    if flags := [_flag(argument) for argument in unknown if argument.startswith("-")]:
        raise _refused(f"unknown option {', '.join(flags)}{_advise(flags[0])}")
    given = vars(namespace)
    return given.pop("urls"), given


def _flag(argument: str) -> str:
    """Return the option of an argument without its value, which may be a password."""
    from resolver.cli.habits import ADVICE_BY_OPTION  # lazy: most command lines are valid

    flag = argument.partition("=")[0]
    return flag if flag.startswith("--") or flag in ADVICE_BY_OPTION else flag[:2]


def _advise(flag: str) -> str:
    """Return the equivalent of an option of another client, or the most similar option, or ""."""
    from resolver.cli.habits import ADVICE_BY_OPTION

    if flag in ADVICE_BY_OPTION:
        return f": {ADVICE_BY_OPTION[flag]}"
    return suggest_nearest(flag, [each for row in rows() for each in row.flags]) if flag[:2] == "--" else ""


def _refused(message: str) -> UsageError:
    return UsageError(f"{message} (see resolve --help)")


def _parser() -> argparse.ArgumentParser:
    # Without a usage text argparse would build one of all options for its errors; no message shows it.
    parser = _Parser(prog="resolve", usage="", add_help=False, allow_abbrev=False)
    parser.add_argument("urls", nargs="*")
    for flag, option in _FOREIGN.items():
        parser.add_argument(flag, action=_ForeignAction, nargs="?", const=option, default=argparse.SUPPRESS)
    for row in rows():
        if row.takes is None:
            parser.add_argument(
                *row.flags, dest=row.name, action=_SwitchAction, default=argparse.SUPPRESS, const=row
            )
        else:
            parser.add_argument(
                *row.flags,
                dest=row.name,
                action="append" if row.many else "store",
                default=argparse.SUPPRESS,
                metavar=row.takes,
                type=_reader(row.kind),
                choices=row.choices,
            )
    return parser


def _reader(kind: Callable[[str], object]) -> Callable[[str], object]:
    def read(text: str) -> object:
        try:
            return kind(text)
        except BadValue as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read
