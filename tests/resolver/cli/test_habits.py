"""Tests of the advice for options and commands of other clients."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from resolver.cli.habits import ADVICE_BY_COMMAND, ADVICE_BY_OPTION, looks_like_data
from resolver.cli.help import page
from resolver.cli.options import rows
from resolver.cli.values import UsageError, suggest_nearest
from resolver.cli.vocabulary import VERBS
from tests.resolver.cli.command import resolve
from tests.resolver.cli.terminal import Terminal, on_terminal

FLAGS = {flag for row in rows() for flag in row.flags}
ADVICE = sorted({*ADVICE_BY_OPTION.values(), *ADVICE_BY_COMMAND.values()})


def test_advice_is_for_options_and_commands_that_resolve_lacks() -> None:
    assert len(ADVICE_BY_OPTION) > 60
    assert FLAGS.isdisjoint(ADVICE_BY_OPTION)
    assert {verb.name for verb in VERBS}.isdisjoint(ADVICE_BY_COMMAND)


@pytest.mark.parametrize("advice", ADVICE)
def test_advice_names_existing_options_and_commands(advice: str) -> None:
    assert set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", advice)) <= FLAGS
    assert set(re.findall(r"use resolve ([a-z]+)", advice)) <= {verb.name for verb in VERBS}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--limit-rate", "200k"], "unknown option --limit-rate: use --rate BYTES"),
        (["--limit-rate=200k"], "unknown option --limit-rate: use --rate BYTES"),
        (["-L"], "unknown option -L: redirects are followed"),
        (["-nc"], "unknown option -nc: use --exists skip"),
        (["--bwlimit", "1M"], "unknown option --bwlimit: use --rate BYTES"),
        (["-R", "*.tmp"], "with -r, --reject GLOB"),
        (["--data", "a=1"], "it sends no request body"),
        (["--jsno"], "unknown option --jsno; did you mean --json?"),
        (["--limit-rat"], "unknown option --limit-rat (see"),
    ],
)
def test_option_of_other_client_is_refused_with_advice(
    words: list[str], expected: str, tmp_path: Path
) -> None:
    done = resolve("get", *words, "http://127.0.0.1:9/", folder=tmp_path)
    assert (done.status, done.out) == (2, b"")
    assert expected in done.messages


@pytest.mark.parametrize(
    ("option", "expected"),
    [("-O", "missing URL: -O needs a name"), ("--mirror", "missing URL: --mirror names another location")],
)
def test_url_as_value_of_option_is_a_missing_url(option: str, expected: str, tmp_path: Path) -> None:
    done = resolve(option, "http://127.0.0.1:9/", folder=tmp_path)
    assert (done.status, done.out) == (2, b"")
    assert expected in done.messages


def test_value_attached_to_unknown_short_option_is_not_shown(tmp_path: Path) -> None:
    done = resolve("get", "-ume:secret", "http://127.0.0.1:9/", folder=tmp_path)
    assert done.status == 2
    assert "unknown option -u: use --user NAME" in done.messages
    assert "secret" not in done.messages


@pytest.mark.parametrize("argument", ["-qume:secret", "--quiet=secret", "-q=secret"])
def test_value_of_option_without_value_is_not_shown(argument: str, tmp_path: Path) -> None:
    done = resolve("get", argument, "http://127.0.0.1:9/", folder=tmp_path)
    assert (done.status, done.out) == (2, b"")
    assert "secret" not in done.messages


@pytest.mark.parametrize(
    ("word", "expected"),
    [("fetch", "use resolve get URL"), ("head", "use resolve info URL"), ("gte", "get?")],
)
def test_command_of_other_client_is_refused_with_advice(word: str, expected: str, tmp_path: Path) -> None:
    done = resolve(word, "http://127.0.0.1:9/", folder=tmp_path)
    assert (done.status, done.out) == (2, b"")
    assert expected in done.messages


@pytest.mark.parametrize(
    ("word", "names", "expected"),
    [
        ("jsno", ["json"], "json"),
        ("exsits", ["exists"], "exists"),
        ("min-raet", ["min-rate"], "min-rate"),
        ("limit-rate", ["min-rate"], ""),
        ("gets", ["get"], "get"),
        ("xyz", ["get"], ""),
        ("prog", ["progress"], "progress"),
    ],
)
def test_suggestion_is_at_most_two_edits_away(word: str, names: list[str], expected: str) -> None:
    assert suggest_nearest(word, names) == (f"; did you mean {expected}?" if expected else "")


def test_help_of_unknown_topic_lists_entries_that_contain_it() -> None:
    assert "S08" in page(("ssrf",), 100)
    assert "--rate BYTES" in page(("limit-rate",), 100)
    assert "--checksum" in page(("digest",), 100)
    assert "--checksum" in page(("sha256",), 100)  # only the details contain the word
    assert "--reject GLOB" in page(("exclude", "pattern"), 100)
    assert "-H, --header" in page(("headers",), 100)
    assert "--reject GLOB" in page(("exclude pattern",), 100)
    with pytest.raises(UsageError, match="unknown help topic 'get zzzz'"):
        page(("get", "zzzz"), 100)
    with pytest.raises(UsageError, match="unknown help topic 'zzzz'"):
        page(("zzzz",), 100)


# `-d a=1`: curl sends this text, and `resolve` saves below a directory of this name.


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        *((name, True) for name in ("a=1", "a=1&b=2", "url=http://h/", "=", '{"a": 1}', "[1]", "@file")),
        *((name, False) for name in ("out", "./a=1", "out/a=1", "/srv/a=1", "a@b", "a-1", "a{1}")),
    ],
)
def test_directory_looks_like_data(directory: str, expected: bool) -> None:
    assert looks_like_data(directory) is expected


@pytest.mark.parametrize(
    ("typed", "status", "files"), [(b"y\n", 0, ["a=1"]), (b"n\n", 2, []), (b"\n", 2, []), (b"\x04", 2, [])]
)
async def test_directory_like_data_is_confirmed_on_terminal(
    typed: bytes, status: int, files: list[str], source: Path, folder: Path
) -> None:
    terminal = Terminal(80)
    async with on_terminal(terminal, folder, "-d", "a=1", source.as_uri(), typed=True) as command:
        rows = await terminal.until(lambda rows: "save below a new directory 'a=1'? [y/N]" in rows)
        assert "resolve: -d a=1: this option names a directory; resolve sends no request body" in rows
        assert os.listdir(folder) == []
        terminal.type(typed)
        assert await command.status() == status
    assert os.listdir(folder) == files


@pytest.mark.parametrize(
    "words", [("-d", "a=1", "--yes"), ("-d", "out"), ("-d", "a=1", "--dry-run")], ids=" ".join
)
async def test_directory_needs_no_confirmation_on_terminal(
    words: tuple[str, ...], source: Path, folder: Path
) -> None:
    terminal = Terminal(80)
    async with on_terminal(terminal, folder, *words, source.as_uri(), typed=True) as command:
        assert await command.status() == 0
    assert not any("[y/N]" in row for row in terminal.rows)


async def test_existing_directory_is_not_confirmed(source: Path, folder: Path) -> None:
    os.mkdir(folder / "a=1")
    terminal = Terminal(80)
    async with on_terminal(terminal, folder, "-d", "a=1", source.as_uri(), typed=True) as command:
        assert await command.status() == 0
    assert os.listdir(folder / "a=1") == ["source.txt"]


def test_directory_like_data_is_not_confirmed_without_terminal(source: Path, folder: Path) -> None:
    done = resolve("-q", "-d", "a=1", source.as_uri())
    assert done == (0, b"", b"")
    assert os.listdir(folder / "a=1") == ["source.txt"]


async def test_directory_like_data_is_not_confirmed_if_input_is_a_pipe(source: Path, folder: Path) -> None:
    terminal = Terminal(80)
    async with on_terminal(terminal, folder, "-d", "a=1", source.as_uri()) as command:
        assert await command.status() == 0
    assert os.listdir(folder / "a=1") == ["source.txt"]


@pytest.fixture(name="source")
def _source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "source.txt"
    path.write_bytes(b"x")
    return path
