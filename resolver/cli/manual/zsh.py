"""The completion script for zsh: `_arguments` with the options of the typed command."""

from __future__ import annotations

from collections.abc import Iterator

from resolver.cli.manual.words import NOTE, classify_value, list_options, topics, valued
from resolver.cli.options import Option
from resolver.cli.vocabulary import SHELLS, VERBS

_HEAD = """\
#compdef resolve
# {note}

_resolve() {{
    local verb index
    local -a options
    for ((index = 2; index < CURRENT; index++)); do
        case $words[index] in
            ({valued}) ((index++)) ;;
            (-*) ;;
            ({verbs}) verb=$words[index]; break ;;
            (*) verb=get; break ;;
        esac
    done
    case $verb in
"""
_TAIL = """\
    esac
    if [[ -z $verb ]]; then
        _arguments -s -S $options '*:command:(({verbs}))'
    elif [[ $verb == help ]]; then
        _arguments -s -S $options '*:topic:({topics})'
    elif [[ $verb == completion ]]; then
        _arguments -s -S $options '*:shell:({shells})'
    elif [[ $verb == extract ]]; then
        _arguments -s -S $options '*:text:_files'
    else
        _arguments -s -S $options '*:URL:_urls'
    fi
}}

_resolve "$@"
"""


def script() -> str:
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    flags = "|".join(flag for row in valued() for flag in row.flags)
    verbs = "|".join(verb.name for verb in VERBS)
    yield from _HEAD.format(note=NOTE, valued=flags, verbs=verbs).splitlines()
    for verb in VERBS:
        yield f"        ({'get|' + _EMPTY if verb.name == 'get' else verb.name}) options=("
        for row in list_options(verb.name):
            yield from (f"            {spec}" for spec in _specs(row))
        yield "        ) ;;"
    purposes = [(verb.name, _described(verb.purpose).replace('"', "")) for verb in VERBS]
    described = " ".join(f'{name}\\:"{purpose}"' for name, purpose in purposes)
    yield from _TAIL.format(verbs=described, topics=" ".join(topics()), shells=" ".join(SHELLS)).splitlines()


_EMPTY = "''"


def _specs(row: Option) -> Iterator[str]:
    """Yield one spec of `_arguments` for each flag; flags exclude each other unless repeatable."""
    others = "" if row.many else f"({' '.join(row.flags)})"
    for flag in row.flags:
        joint = "" if row.metavar is None else "=" if flag.startswith("--") else "+"
        repeated = "*" if row.many else ""
        text = f"{others}{repeated}{flag}{joint}[{_described(row.purpose)}]{_value(row)}"
        yield "'" + text.replace("'", "'\\''") + "'"


def _value(row: Option) -> str:
    match classify_value(row):
        case "nothing":
            return ""
        case "words":
            return f":{row.metavar}:({' '.join(row.choices or ())})"
        case "path":
            return f":{_described(row.metavar or '')}:_files"
        case "directory":
            return f":{row.metavar}:_files -/"
    return f":{_described(row.metavar or '')}: "


def _described(text: str) -> str:
    """Escape colons, brackets and backslashes, which have a special meaning in a spec."""
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
