"""The completion script for fish: one line per command, and one line per option with its commands."""

from __future__ import annotations

from collections.abc import Iterator

from resolver.cli.manual.words import NOTE, classify_value, topics, valued, verb_names
from resolver.cli.options import Option, rows
from resolver.cli.vocabulary import SHELLS, VERBS

_HEAD = """\
# fish completion for resolve
# {note}

function __resolve_verb
    set -l words (commandline -opc)
    set -l index 2
    while test $index -le (count $words)
        switch $words[$index]
            case {valued}
                set index (math $index + 1)
            case '-*'
            case {verbs}
                echo $words[$index]
                return 0
            case '*'
                echo get
                return 0
        end
        set index (math $index + 1)
    end
    return 1
end

function __resolve_is
    set -l verb (__resolve_verb; or echo get)
    contains -- $verb $argv
end

complete -c resolve -f
"""


def script() -> str:
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    flags = " ".join(flag for row in valued() for flag in row.flags)
    yield from _HEAD.format(note=NOTE, valued=flags, verbs=" ".join(verb_names())).splitlines()
    for verb in VERBS:
        purpose = _quoted(verb.purpose)
        yield f"complete -c resolve -n 'not __resolve_verb >/dev/null' -a {verb.name} -d {purpose}"
    yield f"complete -c resolve -n '__resolve_is help' -a '{' '.join(topics())}'"
    yield f"complete -c resolve -n '__resolve_is completion' -a '{' '.join(SHELLS)}'"
    yield "complete -c resolve -n '__resolve_is extract' -F"
    yield from map(_option, rows())


def _option(row: Option) -> str:
    names = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in row.flags)
    return f"complete -c resolve -n '__resolve_is {row.verbs}' {names}{_value(row)} -d {_quoted(row.purpose)}"


def _value(row: Option) -> str:
    match classify_value(row):
        case "nothing":
            return ""
        case "words":
            return f" -x -a '{' '.join(row.choices or ())}'"
        case "path":
            return " -r -F"
        case "directory":
            return " -x -a '(__fish_complete_directories)'"
    return " -x"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
