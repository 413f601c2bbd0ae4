"""The man page in man(7) macros, with the section order of section 1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from resolver.cli.details import OF_COMMANDS, OF_OPTIONS
from resolver.cli.manual.words import NOTE
from resolver.cli.options import OPTIONS, Option
from resolver.cli.rule_details import OF_RULES
from resolver.cli.vocabulary import RULES, STATUSES, VERBS, CommandVerb, PolicyRule
from resolver.version import VERSION

_NAME = "fetch resources by URL: ftp, http, gopher, mailto, news, nntp, telnet, wais, file, prospero"
_ABOUT = """
resolve retrieves resources by URL, for all schemes of RFC 1738 and their TLS siblings. A URL has a colon
and a command has none, so either may come first; the default command is get. A truncated transfer is always
an error; a retry, and another run, resumes where the last one stopped.
"""


def page() -> str:
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield f'.\\" {NOTE}'
    yield f'.TH RESOLVE 1 "" "resolve {VERSION}" "User Commands"'
    yield from _section("NAME", [f"resolve \\- {_text(_NAME)}"])
    yield from _section("SYNOPSIS", [".B resolve", "[\\fICOMMAND\\fR] [\\fIOPTION\\fR]... \\fIURL\\fR..."])
    yield from _section("DESCRIPTION", map(_text, _ABOUT.split("\n")[1:-1]))
    yield from _section("COMMANDS", map(_verb, VERBS))
    yield ".SH OPTIONS"
    for title, group in OPTIONS.items():
        yield f'.SS "{title.capitalize()}"'
        yield from (_option(row) for row in group)
    examples = (
        f".PP\n{_text(verb.purpose.capitalize())}:\n.PP\n.EX\n    {_text(verb.example)}\n.EE"
        for verb in VERBS
    )
    yield from _section("EXAMPLES", examples)
    yield from _section("EXIT STATUS", (_item(str(status), words) for status, words in STATUSES.items()))
    yield from _section("RULES OF THE POLICY", map(_rule, RULES))
    yield from _section("SEE ALSO", [".BR curl (1),", ".BR wget (1),", ".BR lftp (1)"])


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f".SH {title}" if " " not in title else f'.SH "{title}"'
    yield from lines


def _item(name: str, words: str) -> str:
    return f".TP\n.B {_text(name)}\n{_text(words)}"


def _verb(verb: CommandVerb) -> str:
    words = f"{verb.name} {verb.arguments}".strip()
    return f"{_item(words, _sentence(verb.purpose))}\n{_marked(OF_COMMANDS[verb.name])}"


def _rule(rule: PolicyRule) -> str:
    details = OF_RULES[rule.name]
    texts = (details.threat, details.check, details.override)
    return "\n".join([_item(rule.name, _sentence(rule.sentence)), *map(_marked, texts)])


def _option(row: Option) -> str:
    names = ", ".join(f"\\fB{_text(flag)}\\fR" for flag in row.flags)
    metavar = "" if row.metavar is None else f" \\fI{_text(row.metavar)}\\fR"
    words = [row.purpose]
    if row.choices is not None:
        words.append(", ".join(f"{word} (default)" if word == row.unset else word for word in row.choices))
    verbs = "" if row.name in ("help", "version") else f" Commands: {', '.join(row.verbs.split())}."
    purpose = _text(_sentence(": ".join(words)))
    return f".TP\n{names}{metavar}\n{purpose}\n{_marked(OF_OPTIONS[row.long])}{_text(verbs)}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _marked(text: str) -> str:
    """Format a text of `details` for man(7), with literals in bold."""
    parts = re.split(r"`([^`]*)`", text)
    return "".join(f"\\fB{_text(part)}\\fR" if at % 2 else _text(part) for at, part in enumerate(parts))


def _text(text: str) -> str:
    """Escape characters that have a special meaning in roff."""
    shown = text.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti")
    shown = shown.replace("'", "\\(aq").replace("`", "\\(ga").replace('"', "\\(dq").replace("…", "\\&...")
    return f"\\&{shown}" if shown.startswith((".", "\\(aq")) else shown
