"""The completion script for bash, which works without the package bash-completion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from resolver.cli.manual.words import NOTE, Value, classify_value, list_options, topics, valued, verb_names
from resolver.cli.options import Option
from resolver.cli.vocabulary import SHELLS

_HEAD = """\
# bash completion for resolve
# {note}

_resolve() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb= index
    local IFS=$' \\t\\n'
    COMPREPLY=()
    if [[ $current == = ]]; then  # bash has a word of its own for the = of --name=value
        current=
    elif [[ $before == = ]]; then
        before=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    for ((index = 1; index < COMP_CWORD; index++)); do
        case ${{COMP_WORDS[index]}} in
            {valued})
                if [[ ${{COMP_WORDS[index+1]}} == = ]]; then ((index++)); fi
                ((index++)) ;;
            -*) ;;
            {verbs}) verb=${{COMP_WORDS[index]}}; break ;;
            *) verb=get; break ;;
        esac
    done
    case $before in
"""
_FILES = "compopt -o filenames 2>/dev/null; IFS=$'\\n'; COMPREPLY=($(compgen -{kind} -- \"$current\"))"


def script() -> str:
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    verbs = verb_names()
    head = _HEAD.format(note=NOTE, valued=_either(valued()), verbs="|".join(verbs))
    yield from head.splitlines()
    for row in valued():
        yield f"        {_either([row])}) {_value(row, classify_value(row))}return ;;"
    yield "    esac"
    yield "    case $verb:$current in"
    yield f"        help:*) {_words(topics())} ;;"
    for verb in verbs:
        flags = [flag for row in list_options(verb) for flag in row.flags]
        place = "get:-*|:-*" if verb == "get" else f"{verb}:-*"  # the default command is get
        yield f"        {place}) {_words(flags)} ;;"
    yield f"        :*) {_words(verbs)} ;;"
    yield f"        completion:*) {_words(SHELLS)} ;;"
    yield f"        extract:*) {_FILES.format(kind='f')} ;;"
    yield "    esac"
    yield "}"
    yield "complete -F _resolve resolve"


def _either(options: Iterable[Option]) -> str:
    return "|".join(flag for row in options for flag in row.flags)


def _value(row: Option, value: Value) -> str:
    match value:
        case "words":
            return f"{_words(row.choices or ())}; "
        case "path":
            return f"{_FILES.format(kind='f')}; "
        case "directory":
            return f"{_FILES.format(kind='d')}; "
    return ""


def _words(words: Iterable[str]) -> str:
    return f'COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$current"))'
