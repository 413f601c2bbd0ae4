"""The completion candidates: commands, the options of a command, and the values of an option."""

from __future__ import annotations

from typing import Literal, TypeAlias

from resolver.cli.options import Option, rows
from resolver.cli.vocabulary import RULES, STATUSES, VERBS

#: The type of an option's value: one of the choices, a file, a directory, free text, or no value.
Value: TypeAlias = Literal["words", "path", "directory", "text", "nothing"]

_FILES = ("FILE", "LIST")
_DIRECTORIES = ("DIR",)

NOTE = "Generated from the tables of the command: change these."


def verb_names() -> list[str]:
    return [verb.name for verb in VERBS]


def list_options(verb: str) -> list[Option]:
    return [row for row in rows() if verb in row.verbs.split()]


def classify_value(row: Option) -> Value:
    if row.metavar is None:
        return "nothing"
    if row.choices is not None:
        return "words"
    first = row.metavar.partition("|")[0]
    return "path" if first in _FILES else "directory" if first in _DIRECTORIES else "text"


def valued() -> list[Option]:
    """Return the options that have a value."""
    return [row for row in rows() if row.metavar is not None]


def topics() -> list[str]:
    options = [row.long for row in rows()]
    return [*verb_names(), *options, *(rule.name for rule in RULES), *map(str, STATUSES)]
