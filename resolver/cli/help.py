"""The pages of `--help` and `resolve help`, generated from the tables of `options` and `vocabulary`.

A page is as wide as the terminal. On a narrow terminal, the description of an option is on the line below the
option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from textwrap import wrap

from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.options import OPTIONS, Option, rows
from resolver.cli.values import UsageError, suggest_nearest
from resolver.cli.vocabulary import RULES, STATUSES, VERBS, CommandVerb, PolicyRule

_INDENT = 32  # the column at which descriptions start
_NARROW = 64  # on a terminal with fewer columns, descriptions are on separate lines
_BELOW = 6
_MOST = 100  # maximum columns of a page, because longer lines are hard to read


def show(command: Command) -> int:
    """Print the help page of the topics on the command line. Raises `UsageError` for an unknown topic.

    Returns:
        The exit status.
    """
    streams.print_text(page(command.urls, streams.output_columns()))
    return 0


def page(words: tuple[str, ...], columns: int) -> str:
    """Return the help page of the given topics.

    Without topics, the page lists all commands and options.

    Raises `UsageError` for an unknown topic.
    """
    width = min(columns, _MOST)
    lines = (
        _list_everything(width)
        if not words
        else (line for word in words for line in _explain_word(word, width))
    )
    return "".join(f"{line}\n" for line in lines)


def orientation() -> list[str]:
    """Return the ten lines of help for a command line without arguments."""
    first = [
        "expected a command or a URL, such as",
        "  resolve URL           download it to a file",
        *(f"  {f'resolve {verb.name} URL':<20}  {verb.purpose.partition(';')[0]}" for verb in VERBS[1:5]),
    ]
    return [*first, *_ORIENTATION]


_ORIENTATION = (
    "  resolve -O FILE URL   save it as FILE",
    "A URL starts with a scheme: ftp http gopher news nntp wais file …",
    "Existing files are not overwritten: resolve help --exists",
    "All commands: resolve help; one command: resolve help get",
)


def _list_everything(width: int) -> Iterator[str]:
    yield "usage: resolve [COMMAND] [OPTION]... URL..."
    yield ""
    yield from wrap(
        "Fetch resources by URL: ftp, http, gopher, mailto, news, nntp, telnet, wais, file, prospero.",
        width,
    )
    yield from _section(
        "commands (default: get)", ((f"{verb.name} {verb.takes}", verb.purpose) for verb in VERBS), width
    )
    yield from _options(lambda row: True, width)
    yield from _section("exit status", ((str(status), words) for status, words in STATUSES.items()), width)


def _explain_word(word: str, width: int) -> Iterator[str]:
    for verb in VERBS:
        if verb.name == word or (verb.name == "help" and word == "--help"):
            return _verb(verb, width)
    for rule in RULES:
        if rule.name == word.upper():
            return _rule(rule, width)
    if word.isascii() and word.isdigit() and int(word[:4]) in STATUSES:
        return _status(int(word[:4]), width)
    found = [row for row in rows() if {word, f"-{word}", f"--{word}"} & set(row.flags)]
    if found:
        return _option(found[0], width)
    if mentions := list(_search(word, width)):
        return iter(mentions)
    known = [*(verb.name for verb in VERBS), *(row.long.removeprefix("--") for row in rows())]
    raise UsageError(f"unknown help topic {word!r}{suggest_nearest(word.lstrip('-'), known)}")


def _search(word: str, width: int) -> Iterator[str]:
    """Yield the help entries that contain a search term.

    If the search term is an option of another client, the first entry describes the corresponding option of
    `resolve`.
    """
    from resolver.cli.habits import ADVICE_BY_COMMAND, ADVICE_BY_OPTION  # lazy import: rarely needed

    advice = ADVICE_BY_OPTION.get(word) or ADVICE_BY_OPTION.get(f"--{word}") or ADVICE_BY_COMMAND.get(word)
    if advice is not None:
        yield from _entry(word, advice, width)
    sought = word.lower().lstrip("-")
    found = {
        "commands": [(f"{verb.name} {verb.takes}", verb.purpose) for verb in VERBS],
        "options": [(_names(row), _purpose(row)) for row in rows()],
        "rules": [(rule.name, rule.sentence) for rule in RULES],
        "exit status": [(str(status), words) for status, words in STATUSES.items()],
    }
    for title, entries in found.items() if len(sought) > 2 else ():
        yield from _section(title, (entry for entry in entries if sought in " ".join(entry).lower()), width)


def _verb(verb: CommandVerb, width: int) -> Iterator[str]:
    from resolver.cli.details import OF_COMMANDS, plain  # lazy import: each run loads this module

    yield f"usage: resolve {verb.name} [OPTION]... {verb.takes}".rstrip()
    yield ""
    yield from wrap(f"{verb.name}: {verb.purpose}", width)
    yield ""
    yield from _paragraph(plain(OF_COMMANDS[verb.name]), width)
    yield ""
    yield f"  {verb.example}"
    yield from _options(lambda row: verb.name in row.verbs.split(), width, verb.name)


def _rule(rule: PolicyRule, width: int) -> Iterator[str]:
    from resolver.cli.details import plain  # lazy import: few runs need the module
    from resolver.cli.rule_details import OF_RULES

    yield from wrap(f"{rule.name}: {rule.sentence}", width)
    if rule.options:
        yield from wrap(f"overridden by {', '.join(rule.options)}", width, initial_indent="  ")
    for title, text in OF_RULES[rule.name]._asdict().items():
        yield ""
        if title != "example":
            yield from _paragraph(plain(f"{title}: {text}"), width)
        elif text:
            yield from (f"  {line}" for line in f"$ {text}".splitlines() if line != "…")


def _status(status: int, width: int) -> Iterator[str]:
    from resolver.cli.details import OF_STATUSES, plain  # lazy import: few runs need the module

    yield from _entry(str(status), STATUSES[status], width)
    yield ""
    yield from _paragraph(plain(OF_STATUSES[status]), width)


def _option(row: Option, width: int) -> Iterator[str]:
    from resolver.cli.details import OF_OPTIONS, plain  # lazy import: few runs need the module

    yield from _entry(_names(row), _purpose(row), width)
    yield from wrap(f"commands: {', '.join(row.verbs.split())}", width, initial_indent="  ")
    yield ""
    yield from _paragraph(plain(OF_OPTIONS[row.long]), width)


def _paragraph(text: str, width: int) -> list[str]:
    return wrap(text, width, break_on_hyphens=False)


def _options(wanted: Callable[[Option], bool], width: int, verb: str = "") -> Iterator[str]:
    for title, group in OPTIONS.items():
        entries = ((_names(row), _purpose(row, verb)) for row in group if wanted(row))
        yield from _section(title, entries, width)


def _section(title: str, entries: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield the lines of a section; a section without entries is omitted."""
    lines = [line for name, purpose in entries for line in _entry(name, purpose, width)]
    return iter(["", f"{title}:", *lines] if lines else [])


def _entry(name: str, purpose: str, width: int) -> Iterator[str]:
    first = f"  {name}"
    below = width < _NARROW or len(first) > _INDENT - 2
    margin = _BELOW if width < _NARROW else _INDENT
    if below:
        yield first
    indent = " " * margin
    head = indent if below else first.ljust(margin)
    yield from wrap(purpose, width, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False)


def _names(row: Option) -> str:
    names = ", ".join(row.flags)
    return names if row.takes is None else f"{names} {row.takes}"


def _purpose(row: Option, verb: str = "") -> str:
    if row.choices is None:
        return row.purpose
    words = [f"{word} (default)" if word == row.unset_of(verb) else word for word in row.choices]
    return f"{row.purpose}: {', '.join(words)}"
