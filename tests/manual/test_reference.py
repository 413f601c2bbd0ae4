"""The generated reference pages are up to date, and the others agree with the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from manual.reference import FOLDER, pages, write
from resolver import Policy, Refused
from resolver.cli.arguments import read
from resolver.cli.rule_details import OF_RULES
from resolver.policy.components import check_data_port
from resolver.policy.proxies import _CGI_VARIABLES
from tests.resolver.cli.command import resolve


def test_committed_pages_equal_generated_pages() -> None:
    """`make reference` writes them."""
    texts = pages()
    for name, text in texts.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, name
    below = [path for folder in ("commands", "rules") for path in (FOLDER / folder).iterdir()]
    assert {str(path.relative_to(FOLDER)) for path in below} == texts.keys() - {"exit-statuses.md"}


def test_write_removes_pages_of_former_commands(tmp_path: Path) -> None:
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands/former.md").touch()
    write(tmp_path)
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.md")}
    assert written == pages().keys()


@pytest.mark.parametrize("rule", [name for name, details in OF_RULES.items() if details.example])
def test_rule_example_prints_shown_message(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tests/test_recipes.py` runs the examples that need a server."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null")
    command, message, *_ = OF_RULES[rule].example.split("\n")
    words = shlex.split(command)[1:]
    assert read(words) is not None
    if "127.0.0.1" not in command:
        assert resolve(*words).messages.splitlines()[0] == message


def test_messages_in_details_are_real() -> None:
    with pytest.raises(Refused) as caught:
        check_data_port(25, Policy())
    assert f"`{caught.value.message}`" in OF_RULES["S13"].check


#: An environment variable that the code reads by name.
READ = re.compile(r'(?:environ(?:[m]ent)?(?:\.get\(|\[)|_home\()"(\w+)"')


def test_environment_page_lists_variables_of_code() -> None:
    page = (FOLDER / "environment.md").read_text(encoding="utf-8")
    table = page.partition("## Variables that the program reads")[2].partition("## Variables that lib")[0]
    text = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))))
    result = {
        name
        for package in ("protocols", "resolver")
        for path in (FOLDER.parents[1] / package).rglob("*.py")
        for name in READ.findall(path.read_text(encoding="utf-8"))
    }
    assert {"NNTPSERVER", "NETRC", "XDG_STATE_HOME", "RESOLVE_TRACEBACK"} <= result
    proxies = {f"{name}_proxy" for name in ("http", "https", "ftp", "gopher", "SCHEME", "all", "no")}
    assert text == result | set(_CGI_VARIABLES) | proxies | {"SCHEME_PROXY", "ALL_PROXY", "NO_PROXY"}


def test_glossary_is_sorted_and_each_term_is_unique() -> None:
    _, *sections = (FOLDER / "glossary.md").read_text(encoding="utf-8").split("\n## ")
    terms = [re.findall(r"^- \*\*(.*?)\*\*: ", section, re.MULTILINE) for section in sections]
    for result in terms:
        assert result == sorted(result, key=str.lower)
    assert len({term for result in terms for term in result}) == sum(map(len, terms)) > 70
