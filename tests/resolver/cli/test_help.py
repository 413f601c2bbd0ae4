"""Help pages: their text comes from the tables of the parser, and fits on any terminal."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from resolver import parse
from resolver.cli import help, main
from resolver.cli.arguments import read
from resolver.cli.details import OF_COMMANDS, OF_OPTIONS, OF_STATUSES, plain
from resolver.cli.options import OPTIONS, Option, rows
from resolver.cli.rule_details import OF_RULES
from resolver.cli.values import UsageError
from resolver.cli.vocabulary import RULES, STATUSES, VERBS, CommandVerb
from tests.fresh import environment
from tests.resolver.cli.command import resolve

FLAGS = [flag for row in rows() for flag in row.flags]


def listed_options(text: str) -> set[str]:
    """Return the options that have a line in the page."""
    return {
        flag
        for line in re.findall(r"^  (-.*)$", text, re.MULTILINE)
        for flag in re.findall(r"(?<!\S)-[-\w]+", line)
    }


def test_details_are_complete() -> None:
    assert list(OF_OPTIONS) == [row.long for row in rows()]
    assert OF_COMMANDS.keys() == {verb.name for verb in VERBS}
    assert list(OF_STATUSES) == list(STATUSES)
    assert list(OF_RULES) == [rule.name for rule in RULES]


TEXTS = {
    **OF_OPTIONS,
    **OF_COMMANDS,
    **{str(status): text for status, text in OF_STATUSES.items()},
    **{f"{name}.{part}": text for name, rule in OF_RULES.items() for part, text in rule._asdict().items()},
}


@pytest.mark.parametrize("name", TEXTS)
def test_details_name_existing_options_and_commands(name: str) -> None:
    """Also each code span that begins with `resolve` and has arguments is a valid command line."""
    text = TEXTS[name]
    for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", text):
        assert flag in FLAGS or f"{flag}..." in text, flag
    for line in re.findall(r"`resolve ([^` ]+ [^`]+)`", text):
        assert read(shlex.split(line)) is not None, line
    if name in OF_OPTIONS or name in OF_COMMANDS:
        assert 1 <= len(re.split(r"(?<=\.) (?=[A-Z`0-9\"])", text)) <= 5
        assert text.endswith(".")


def test_details_are_loaded_by_help_only() -> None:
    code = (
        "import sys; from resolver.cli import main; main({!r}); print('resolver.cli.details' in sys.modules)"
    )
    for words, is_loaded in (
        (["parse", "ftp://h.example/"], False),
        (["help", "get"], True),
    ):
        command = [sys.executable, "-c", code.format(words)]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True)
        assert done.stdout.splitlines()[-1] == str(is_loaded)


def test_option_names_are_unique() -> None:
    assert len(FLAGS) == len(set(FLAGS))
    assert len({row.name for row in rows()}) == len(list(rows()))


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: row.name)
def test_option_has_long_name_and_commands(row: Option) -> None:
    assert re.fullmatch(r"--[a-z][a-z0-9-]+", row.long)
    verbs = row.verbs.split()
    assert verbs
    assert set(verbs) <= {verb.name for verb in VERBS}


@pytest.mark.parametrize("row", [row for row in rows() if row.metavar is None], ids=lambda row: row.name)
def test_switch_flag_sets_option(row: Option) -> None:
    if row.name in ("help", "version"):
        return
    needed = {
        "delete": ["get", "-r", "x:"],
        "insecure": ["serve", "--listen", "192.0.2.1"],
        "null": ["get", "-"],
        "warc_cookies": ["cat", "--warc", "x", "x:"],
    }
    words = needed.get(row.name, ["parse", "x:"])
    for flag in row.flags:
        command = read([*words, flag])
        assert command is not None
        assert vars(command)[row.name] is True


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_command_help_has_options_and_example(verb: CommandVerb) -> None:
    done = resolve(verb.name, "--help")
    text = done.out.decode()
    assert (done.status, done.err) == (0, b"")
    assert text.startswith(f"usage: resolve {verb.name} ")
    assert listed_options(text) == {
        flag for row in rows() if verb.name in row.verbs.split() for flag in row.flags
    }
    assert f"\n  {verb.example}\n" in text
    for same in (["-h", verb.name], ["help", verb.name], ["-t", "3", verb.name, "--help"]):
        assert resolve(*same) == done


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_help_example_is_valid_command_line(verb: CommandVerb) -> None:
    program, *words = shlex.split(verb.example)
    command = read(words)
    assert command is not None
    assert (program, command.verb) == ("resolve", verb.name)
    if verb.arguments.startswith("URL"):
        assert [parse(url).text for url in command.urls] == list(command.urls)


def test_help_without_arguments_lists_all_options() -> None:
    done = resolve("--help")
    assert (done.status, done.err) == (0, b"")
    assert resolve("help") == resolve("-h") == done
    assert listed_options(done.out.decode()) == set(FLAGS)
    for verb in VERBS:
        assert f"\n  {verb.name} {verb.arguments}".rstrip() in done.out.decode()


@pytest.mark.parametrize("flag", FLAGS)
def test_option_help_has_line_for_flag(flag: str) -> None:
    for word in (flag, flag.lstrip("-")):
        if word.isdigit() or word in [verb.name for verb in VERBS]:  # a status or a command
            continue
        done = resolve("help", word)
        assert (done.status, done.err) == (0, b"")
        assert flag in listed_options(done.out.decode())
        (row,) = (row for row in rows() if flag in row.flags)
        if row.name != "help":  # the help of the command `help`
            assert plain(OF_OPTIONS[row.long]) in " ".join(done.out.decode().split())


def test_help_describes_rules_and_statuses() -> None:
    for rule in RULES:
        for name in (rule.name, rule.name.lower()):
            text = resolve("help", name).out.decode()
            assert " ".join(text.split()).startswith(f"{rule.name}: {rule.sentence}")
            assert plain(f"check: {OF_RULES[rule.name].check}") in " ".join(text.split())
    for status, words in STATUSES.items():
        text = " ".join(resolve("help", str(status)).out.decode().split())
        assert words in text
        assert plain(OF_STATUSES[status]) in text


@pytest.mark.parametrize(
    ("word", "meant"), [("expalin", "explain"), ("--tires", "tries"), ("S99", None), ("16", None)]
)
def test_help_of_unknown_topic_suggests_closest(word: str, meant: str | None) -> None:
    done = resolve("help", word)
    assert (done.status, done.out) == (2, b"")
    assert repr(word) in done.messages
    assert ("did you mean" in done.messages) == (meant is not None)
    if meant is not None:
        assert done.messages.endswith(f"did you mean {meant}?\n")


@pytest.mark.parametrize("columns", [20, 40, 63, 64, 80, 200])
def test_help_page_fits_terminal_width(columns: int) -> None:
    """Names and examples are exceptions: they are never broken."""
    for words in ((), *((verb.name,) for verb in VERBS), *((rule.name,) for rule in RULES)):
        whole = {verb.example for verb in VERBS}
        lines = help.page(words, columns).splitlines()
        for line in lines:
            narrow = len(line) <= min(columns, 100)
            assert narrow or line.strip() in whole or re.match(r" {0,2}\S.*$|usage: ", line), line
            assert narrow or not line.startswith("   "), line


def test_help_narrow_page_has_same_text() -> None:
    def words_of(columns: int) -> str:
        return " ".join(help.page(("get",), columns).split())

    assert words_of(40) == words_of(200)


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version_option_works_in_any_position(flag: str) -> None:
    alone = resolve(flag)
    assert alone.status == 0
    assert re.fullmatch(rb"resolve [0-9.]+\n", alone.out)
    assert resolve("get", "x:", flag) == resolve(flag, "-q", "-t", "3") == alone


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("--quite", "--quiet"),
        ("--max-sise=3", "--max-size"),
        ("--jso", "--json"),
        ("--connect", "--connect-timeout"),
    ],
)
def test_unknown_option_suggests_closest(wrong: str, meant: str, folder: Path) -> None:
    done = resolve("cat", wrong, "file:///etc/hostname")
    assert (done.status, done.out) == (2, b"")
    assert all(word in done.messages for word in (f" {wrong.partition('=')[0]};", f" {meant}?"))


def test_unrelated_option_suggests_nothing() -> None:
    with pytest.raises(UsageError, match=r"--xyzzy-plugh \("):
        read(["x:", "--xyzzy-plugh"])


def test_option_groups_are_not_empty() -> None:
    assert all(OPTIONS.values())


def test_python_m_resolver_runs_command() -> None:
    command = [sys.executable, "-W", "error", "-m", "resolver", "--version"]
    done = subprocess.run(command, env=environment(), capture_output=True, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", resolve("--version").out)


def test_help_to_full_device_exits_with_status_3(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["--help"]) == 3
