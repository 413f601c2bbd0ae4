"""The pages of `--help` and `resolve help`, generated from the tables of `options` and `vocabulary`.

A page is as wide as the terminal. On a narrow terminal, the description of an option is on the line below the
option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from textwrap import wrap

from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.details import OF_COMMANDS, OF_OPTIONS, OF_STATUSES, plain
from resolver.cli.habits import ADVICE_BY_COMMAND, ADVICE_BY_OPTION
from resolver.cli.options import OPTIONS, Option, rows
from resolver.cli.rule_details import OF_RULES
from resolver.cli.values import UsageError, suggest_nearest
from resolver.cli.vocabulary import RULES, STATUSES, VERBS, CommandVerb, PolicyRule

_INDENT = 32  # the column at which descriptions start
_MIN_WIDTH = 64  # on a terminal with fewer columns, descriptions are on separate lines
_NARROW_INDENT = 6
_MIN_MATCHES = 3  # with fewer matching summaries, a search includes the details
_MAX_WIDTH = 100  # maximum columns of a page, because longer lines are hard to read


def show(command: Command) -> int:
    """Print the help page of the topics on the command line. Raises `UsageError` for an unknown topic.

    Returns:
        The exit status.
    """
    streams.print_text(page(command.urls, streams.output_columns()))
    return 0


def page(words: tuple[str, ...], columns: int) -> str:
    """Return the help page of the topics, or of all commands. An unknown topic raises `UsageError`."""
    width = min(columns, _MAX_WIDTH)
    pages = [_find_topic(word, width) for word in words] or [_format_index(width)]
    topics = [page for page in pages if page is not None]
    if len(topics) < len(pages):
        topics = [iter(_search(" ".join(words), width))]
    return "".join(f"{line}\n" for topic in topics for line in topic)


def list_introduction() -> list[str]:
    """Return the ten lines of help for a command line without arguments."""
    first = [
        "expected a command or a URL, such as",
        "  resolve URL           download it to a file",
        *(f"  {f'resolve {verb.name} URL':<20}  {verb.purpose.partition(';')[0]}" for verb in VERBS[1:5]),
    ]
    return [*first, *_INTRODUCTION]


_INTRODUCTION = (
    "  resolve -O FILE URL   save it as FILE",
    "A URL starts with a scheme: ftp http gopher news nntp wais file …",
    "Existing files are not overwritten: resolve help --exists",
    "All commands: resolve help; one command: resolve help get",
)


def _format_index(width: int) -> Iterator[str]:
    yield "usage: resolve [COMMAND] [OPTION]... URL..."
    yield ""
    yield from wrap(
        "Fetch resources by URL: ftp, http, gopher, mailto, news, nntp, telnet, wais, file, prospero.",
        width,
    )
    yield from _section(
        "commands (default: get)", ((f"{verb.name} {verb.arguments}", verb.purpose) for verb in VERBS), width
    )
    yield from _options(lambda row: True, width)
    yield from _section("exit status", ((str(status), words) for status, words in STATUSES.items()), width)


def _find_topic(word: str, width: int) -> Iterator[str] | None:
    """Return the page of a topic, or None for any other text."""
    for verb in VERBS:
        if verb.name == word or (verb.name == "help" and word == "--help"):
            return _verb(verb, width)
    for rule in RULES:
        if rule.name == word.upper():
            return _rule(rule, width)
    if word.isascii() and word.isdigit() and int(word[:4]) in STATUSES:
        return _status(int(word[:4]), width)
    options = [row for row in rows() if {word, f"-{word}", f"--{word}"} & set(row.flags)]
    return _option(options[0], width) if options else None


def _search(text: str, width: int) -> list[str]:
    """Return the help entries that contain every search term of a text.

    If few entries match, entries with matching details are added. If the text is an option of another client,
    the first entry describes the corresponding option of `resolve`.

    Raises `UsageError` if no entry matches.
    """
    advice = ADVICE_BY_OPTION.get(text) or ADVICE_BY_OPTION.get(f"--{text}") or ADVICE_BY_COMMAND.get(text)
    lines = [] if advice is None else list(_entry(text, advice, width))
    terms = [word.removesuffix("s") for word in text.lower().lstrip("-").split()]  # `headers` finds `header`
    sections = {
        "commands": [
            (f"{verb.name} {verb.arguments}", verb.purpose, OF_COMMANDS[verb.name]) for verb in VERBS
        ],
        "options": [(_names(row), _purpose(row), OF_OPTIONS[row.long]) for row in rows()],
        "rules": [(rule.name, rule.sentence, " ".join(OF_RULES[rule.name])) for rule in RULES],
        "exit status": [(str(status), purpose, OF_STATUSES[status]) for status, purpose in STATUSES.items()],
    }

    def is_match(entry: tuple[str, ...]) -> bool:
        return all(word in " ".join(entry).lower() for word in terms)

    matches = sum(is_match(entry[:2]) for entries in sections.values() for entry in entries)
    parts = 2 if matches >= _MIN_MATCHES else 3
    for title, entries in sections.items() if max(map(len, terms), default=0) > 2 else ():
        lines += _section(title, (entry[:2] for entry in entries if is_match(entry[:parts])), width)
    if not lines:
        names = [*(verb.name for verb in VERBS), *(row.long.removeprefix("--") for row in rows())]
        raise UsageError(f"unknown help topic {text!r}{suggest_nearest(text.lstrip('-'), names)}")
    return lines


def _verb(verb: CommandVerb, width: int) -> Iterator[str]:
    yield f"usage: resolve {verb.name} [OPTION]... {verb.arguments}".rstrip()
    yield ""
    yield from wrap(f"{verb.name}: {verb.purpose}", width)
    yield ""
    yield from _paragraph(plain(OF_COMMANDS[verb.name]), width)
    yield ""
    yield f"  {verb.example}"
    yield from _options(lambda row: verb.name in row.verbs.split(), width, verb.name)


def _rule(rule: PolicyRule, width: int) -> Iterator[str]:
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
    yield from _entry(str(status), STATUSES[status], width)
    yield ""
    yield from _paragraph(plain(OF_STATUSES[status]), width)


def _option(row: Option, width: int) -> Iterator[str]:
    yield from _entry(_names(row), _purpose(row), width)
    yield from wrap(f"commands: {', '.join(row.verbs.split())}", width, initial_indent="  ")
    yield ""
    yield from _paragraph(plain(OF_OPTIONS[row.long]), width)


def _paragraph(text: str, width: int) -> list[str]:
    return wrap(text, width, break_on_hyphens=False)


def _options(is_shown: Callable[[Option], bool], width: int, verb: str = "") -> Iterator[str]:
    for title, group in OPTIONS.items():
        entries = ((_names(row), _purpose(row, verb)) for row in group if is_shown(row))
        yield from _section(title, entries, width)


def _section(title: str, entries: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield the lines of a section; a section without entries is omitted."""
    lines = [line for name, purpose in entries for line in _entry(name, purpose, width)]
    return iter(["", f"{title}:", *lines] if lines else [])


def _entry(name: str, purpose: str, width: int) -> Iterator[str]:
    first = f"  {name}"
    below = width < _MIN_WIDTH or len(first) > _INDENT - 2
    margin = _NARROW_INDENT if width < _MIN_WIDTH else _INDENT
    if below:
        yield first
    indent = " " * margin
    head = indent if below else first.ljust(margin)
    yield from wrap(purpose, width, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False)


def _names(row: Option) -> str:
    names = ", ".join(row.flags)
    return names if row.metavar is None else f"{names} {row.metavar}"


def _purpose(row: Option, verb: str = "") -> str:
    if row.choices is None:
        return row.purpose
    words = [f"{word} (default)" if word == row.get_unset(verb) else word for word in row.choices]
    return f"{row.purpose}: {', '.join(words)}"
