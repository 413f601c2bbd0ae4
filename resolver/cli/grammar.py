"""The argparse parser of the command line, built from the table of options."""

from __future__ import annotations

import argparse
import re
from functools import partial
from typing import Any, NoReturn

from resolver.cli.options import Option, rows
from resolver.cli.values import UsageError, suggest_nearest


class _SwitchAction(argparse.Action):
    """The action for an option without a value (a switch). `const` is the row of the option."""

    def __init__(self, option_strings: list[str], dest: str, const: Option, default: str) -> None:
        super().__init__(option_strings, dest, nargs=0, const=const, default=default)

    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: object, flag: str | None = None
    ) -> None:
        again = hasattr(namespace, self.const.name)
        setattr(namespace, self.const.twice if again and self.const.twice else self.const.name, True)


#: Short options of other clients that `resolve` rejects, with the equivalent option of `resolve`. For
#: example, curl has `-x PROXY URL`. Without this error, `resolve` would fetch URL without the proxy. aria2
#: has `-x N` for the number of connections.
_FOREIGN_OPTIONS = {"-x": "--proxy URL, or --segments N"}


class _ForeignAction(argparse.Action):
    """The action of a short option of another client: an error that suggests the option in `const`."""

    def __call__(self, parser: object, namespace: object, values: object, flag: object = None) -> NoReturn:
        raise _make_usage_error(f"unknown option {flag}; did you mean {self.const}?")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if message.endswith("expected one argument"):
            message += "; write a value that starts with - as OPTION=VALUE"
        raise _make_usage_error(message)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Return the values of an argument, and keep the value `--` of an option, as in `--separator=--`.

        Up to Python 3.12, argparse drops this value.
        """
        if action.option_strings and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)


def parse(argv: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Parse a command line. Raises `UsageError`.

    Returns:
        The arguments that are not options, and the values of the options by name.
    """
    try:
        namespace, unknown = _parser(argv).parse_known_intermixed_args(argv)
    except argparse.ArgumentError as error:
        raise _make_usage_error(str(error)) from error
    if arguments := [argument for argument in unknown if argument.startswith("-")]:
        raise _make_usage_error(_describe_unknown(arguments))
    options = vars(namespace)
    return options.pop("urls"), options


def _describe_unknown(arguments: list[str]) -> str:
    """Format the message about unknown options.

    Values of options are omitted, because they may be passwords. For the first option, the message suggests
    the equivalent option of `resolve`.
    """
    from resolver.cli.habits import ADVICE_BY_OPTION  # lazy import: most command lines are valid

    names = (argument.partition("=")[0] for argument in arguments)
    flags = [name if name.startswith("--") or name in ADVICE_BY_OPTION else name[:2] for name in names]
    hint = ""
    if flags[0] in ADVICE_BY_OPTION:
        hint = f": {ADVICE_BY_OPTION[flags[0]]}"
    elif flags[0].startswith("--"):
        hint = suggest_nearest(flags[0], [flag for row in rows() for flag in row.flags])
    return f"unknown option {', '.join(flags)}{hint}"


#: Matches the end of the argparse message about a value for a switch (an option without a value). The message
#: contains the value, which may be a password. Python 3.11 also writes this message for `-qume:secret`.
#: Python 3.13 reports the unknown option -u instead.
_SURPLUS_VALUE = r"(?s)ignored explicit argument .*"


def _make_usage_error(message: str) -> UsageError:
    return UsageError(f"{re.sub(_SURPLUS_VALUE, 'takes no value', message)} (see resolve --help)")


def _parser(argv: list[str]) -> argparse.ArgumentParser:
    # The usage text is empty, so that argparse does not generate a usage text, which would never be shown.
    # With a given width, argparse does not import `shutil`.
    width_80 = partial(argparse.HelpFormatter, width=80)
    parser = _Parser(prog="resolve", usage="", formatter_class=width_80, add_help=False, allow_abbrev=False)
    # Long names cannot be abbreviated. The options that `argv` does not have would take 6 ms.
    flags = {argument.partition("=")[0] for argument in argv}
    parser.add_argument("urls", nargs="*")
    for flag, option in _FOREIGN_OPTIONS.items():
        parser.add_argument(flag, action=_ForeignAction, nargs="?", const=option, default=argparse.SUPPRESS)
    for row in rows():
        if len(row.flags) == 1 and row.long not in flags:
            continue
        if row.metavar is None:
            parser.add_argument(
                *row.flags, dest=row.name, action=_SwitchAction, default=argparse.SUPPRESS, const=row
            )
        else:
            parser.add_argument(
                *row.flags,
                dest=row.name,
                action="append" if row.many else "store",
                default=argparse.SUPPRESS,
                metavar=row.metavar,
                type=row.parse,
                choices=row.choices,
            )
    return parser
