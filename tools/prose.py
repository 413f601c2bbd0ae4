"""Count the sentences that are hard to read, in docstrings, comments, messages, names of tests and pages.

    python -m tools.prose [--show RULE] [PATH ...]

The rules are heuristics that find sentences to rewrite by hand. `BUDGETS` has the allowed number of findings
for each rule in `PATHS`. tests/tools/test_prose.py fails if a number differs from its budget. A budget may
only be decreased.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
PATHS = (
    "protocols", "resolver", "fixtures", "manual", "bench", "tools", "tests", "docs",
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md",
)  # fmt: skip

RULES = {
    "P1": "a relative clause (what, who, whatever) stands for a noun",
    "P2": "a noun is negated (is no X, takes none) instead of the verb",
    "P3": "a docstring starts with a pronoun or a quantifier",
    "P4": "a word is private to this project; the field has another",
    "P5": "the docstring of a function is a clause or a question, not an imperative",
    "P6": "the summary of a docstring is longer than one line",
    "P7": "a comment or a message starts with a pronoun",
    "P8": "the name of a test starts with a pronoun or a relative (test_what_, test_it_)",
}
BUDGETS = {"P1": 0, "P2": 6, "P3": 0, "P4": 22, "P5": 0, "P6": 0, "P7": 0, "P8": 0}

# Words and phrases that are private to this project, with the usual terms that a reader searches for.
FIELD_TERMS = {
    r"(?:gone|going) on with|go(?:es)? on (?:there|where|with)": "resume, continue",
    r"(?:is|are|was|were|be) (?:told|said)\b": "report, print, log",
    r"hears?|heard": "receive, read, be notified",
    r"cut (?:off|short)|was cut|is cut": "truncated, closed early",
    r"(?:a |an )?strangers?(?:'s|')?": "untrusted (server, URL, input)",
    r"(?:of )?(?:ours|one's own|a person's)": "the owner: the user, this package",
    r"somebody|nobody|anybody": "the user, the caller, another process",
    r"by itself|as ever|anew|at once": "alone, unchanged, again, concurrently, immediately",
    r"passed over|passes over": "skipped, ignored",
    r"judged?|judges": "checked (against the policy)",
    r"a word|words": "the item: argument, token, keyword",
    r"(?:the |this |a )(?:house|room)s?": "architecture, package",
    r"beside (?:it|the|each|them)": "next to, in addition to, compared with",
}
_RELATIVE = re.compile(
    r"\bwhat(?:ever)?\b|\bwhom?ever\b"
    r"|(?:^|[,;:(]\s*|\b(?:for|of|to|by|and|or|is|as|than|with|from|on)\s)who(?:m|se)?\b",
    re.IGNORECASE,
)
_NEGATED_NOUN = re.compile(
    r"\b(?:is|are|was|were|takes?|names?|knows?|makes?|leads? to) (?:no(?!t)|none|nobody)\b", re.IGNORECASE
)
_PRIVATE = re.compile(rf"\b(?:{'|'.join(FIELD_TERMS)})\b", re.IGNORECASE)
_PRONOUN_HEAD = re.compile(
    r"(?:That|Those|None|Nobody|Somebody|Anybody|Nothing|All that|All of it|Its?|One|Of (?:an?|the|one|those)"
    r"|The same|Another)\b"
)
_CLAUSE_HEAD = re.compile(
    r"(?:Is|Are|Was|Were|Does|Do|Did|Has|Have|Had|May|Can|Could|Should|Will|Would|Must"
    r"|What|Where|Who|How|When|Why|As|So|In|Until|From|At|By|Of)\b"
)
_PRONOUN_FIRST = re.compile(r"(?:its?|that|those|they|them|none|nobody)\b", re.IGNORECASE)
_VAGUE_TEST = re.compile(
    r"test_(?:what|who|whoever|where|it|its|that|those|nobody|nothing|one|some|each|all|of)(?:_|$)"
)
_DIRECTIVE = re.compile(r"#(?:!|\s*(?:noqa|type:|pragma|fmt:))")
_NOT_PROSE = re.compile(r"(?s:```.*?```)|^(?: {4}|\t)[^\n]*$|^\|[^\n]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Finding:
    """A location that breaks a rule, with the sentence or the name."""

    rule: str
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text[:140]}"


def find_in_file(path: Path) -> Iterator[Finding]:
    """Yield the findings of a Python file or a Markdown page."""
    source = path.read_text()
    results = _check_python(source) if path.suffix == ".py" else _check_prose(1, source, "page")
    for rule, line, text in results:
        yield Finding(rule, path, line, text)


def _split_sentences(text: str) -> list[str]:
    """Split text into sentences of at least three words, without code blocks and tables."""
    text = re.sub(r"\s+", " ", _NOT_PROSE.sub(" ", text) if "\n" in text else text)
    split = re.split(r"(?<=[.!?])\s+", re.sub(r"`[^`]*`", "CODE", text))
    return [sentence for sentence in split if len(sentence.split()) > 2]


def _check_prose(line: int, text: str, kind: str) -> Iterator[tuple[str, int, str]]:
    for sentence in _split_sentences(text):
        if _RELATIVE.search(sentence) and not sentence.endswith("?"):
            yield "P1", line, sentence
        if _NEGATED_NOUN.search(sentence):
            yield "P2", line, sentence
        if _PRIVATE.search(sentence):
            yield "P4", line, sentence
        if kind in ("comment", "message") and _PRONOUN_FIRST.match(sentence):
            yield "P7", line, sentence


def _check_python(source: str) -> Iterator[tuple[str, int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module):
            yield from _check_docstring(1, node)
        elif isinstance(node, ast.ClassDef):
            yield from _check_docstring(node.lineno, node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if _VAGUE_TEST.match(node.name):
                yield "P8", node.lineno, node.name
            yield from _check_docstring(node.lineno, node)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in (*node.exc.args, *(keyword.value for keyword in node.exc.keywords)):
                if " " in (text := _literal_text(argument)):
                    yield from _check_prose(node.lineno, text, "message")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
            yield from _check_prose(token.start[0], token.string.lstrip("#: "), "comment")


def _check_docstring(
    line: int, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[tuple[str, int, str]]:
    text = ast.get_docstring(node)
    if not text:
        return
    yield from _check_prose(line, text, "docstring")
    summary = text.split("\n\n")[0]
    if _PRONOUN_HEAD.match(text):
        yield "P3", line, summary
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _CLAUSE_HEAD.match(text):
        yield "P5", line, summary
    if "\n" in summary:
        yield "P6", line, summary


def _literal_text(argument: ast.expr) -> str:
    """Return the text of a string or an f-string; each value in an f-string is replaced by X."""
    parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
    values = (part.value if isinstance(part, ast.Constant) else None for part in parts)
    return "".join(value if isinstance(value, str) else "X" for value in values)


def find_all(paths: list[Path]) -> list[Finding]:
    """Return the findings of files, and of all Python files and pages below folders."""
    files: list[Path] = []
    for path in paths:
        inside = path.rglob("*") if path.is_dir() else [path]
        files += sorted(file for file in inside if file.suffix in (".py", ".md"))
    return [finding for file in files for finding in find_in_file(file)]


def main() -> int:
    """Print the number of findings of each rule, or the findings of one rule."""
    parser = argparse.ArgumentParser(description="Count the sentences that are hard to read.")
    parser.add_argument("paths", nargs="*", type=Path, default=[CHECKOUT / path for path in PATHS])
    parser.add_argument("--show", choices=RULES, help="list the findings of this rule")
    arguments = parser.parse_args()
    findings = find_all(arguments.paths)
    counts = Counter(finding.rule for finding in findings)
    for finding in findings:
        if finding.rule == arguments.show:
            print(finding)
    for rule, meaning in RULES.items():
        print(f"{rule} {counts[rule]:5d}  {meaning}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
