"""The files for shells and `man`: in the wheel, equal to the tables, and accepted by real shells."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from manual.__main__ import write
from resolver.cli.manual import FILES
from resolver.cli.manual.words import classify_value
from resolver.cli.options import Option, rows
from resolver.cli.vocabulary import RULES, STATUSES, VERBS
from tests.resolver.cli.command import resolve
from tests.servers.packages import find

CHECKOUT = Path(__file__).parents[2]
BASH, ZSH, FISH, MAN = FILES


@pytest.fixture(name="files", scope="module")
def _files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return write(tmp_path_factory.mktemp("files"))


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_wheel_has_files_equal_to_tables(target: str, files: Mapping[str, Path], tmp_path: Path) -> None:
    """Built from the repository, and from the content of the source distribution."""
    source = CHECKOUT
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path), "-t"]
    if target == "sdist":
        subprocess.run([*build, "sdist"], cwd=CHECKOUT, check=True, capture_output=True)
        subprocess.run(["tar", "-xf", next(tmp_path.glob("*.tar.gz"))], cwd=tmp_path, check=True)
        (source,) = (path for path in tmp_path.iterdir() if path.is_dir())
    subprocess.run([*build, "wheel"], cwd=source, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        shipped = {name.partition(".data/data/")[2]: wheel.read(name) for name in wheel.namelist()}
    for place, path in files.items():
        assert shipped[place] == path.read_bytes(), place


@pytest.mark.parametrize(
    ("words", "place"),
    [("man", MAN), ("completion bash", BASH), ("completion zsh", ZSH), ("completion fish", FISH)],
)
def test_command_prints_file(words: str, place: str, files: Mapping[str, Path]) -> None:
    done = resolve(*words.split())
    assert (done.status, done.out, done.err) == (0, files[place].read_bytes(), b"")


@pytest.mark.parametrize("words", ["man x", "completion", "completion tcsh", "completion bash zsh"])
def test_printing_command_rejects_other_arguments(words: str) -> None:
    assert resolve(*words.split()).status == 2


def test_printing_command_ignores_faulty_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("tires = 8")
    for words in (["man"], ["completion", "fish"]):
        assert resolve(*words, "--config", str(tmp_path / "config.toml")).status == 0


def test_files_have_every_option_and_command(files: Mapping[str, Path]) -> None:
    for row in rows():
        for place, path in files.items():
            text = path.read_text().replace("\\-", "-")
            for flag in row.flags:
                shown = (
                    f"-{'l' if flag.startswith('--') else 's'} {flag.lstrip('-')} " if place == FISH else flag
                )
                assert shown in text, (place, flag)
            for choice in row.choices or ():
                assert re.search(rf"\b{choice}\b", text), (place, choice)
    page = files[MAN].read_text()
    for word in (*(verb.name for verb in VERBS), *(rule.name for rule in RULES), *map(str, STATUSES)):
        assert re.search(rf"^\.B {word}\b", page, re.MULTILINE), word


# --- bash, which is installed on every test machine


def by_bash(path: Path, folder: Path, *words: str) -> list[str]:
    """Return the completions that bash offers for the last of these arguments after `resolve`."""
    program = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _resolve'
    script = program + '; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "--norc", "-uc", script, "bash", str(path), "resolve", *words],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split("\n")[:-1]


CASES: dict[tuple[str, ...], list[str]] = {
    ("",): [verb.name for verb in VERBS],
    ("ex",): ["explain", "extract"],
    ("--exi",): ["--exists"],  # no command means get
    ("-q", "i"): ["info"],
    ("get", "--exi"): ["--exists"],
    ("ls", "--exi"): [""],
    ("ls", "--lon"): ["--long"],
    ("http://h.example/", "--exi"): ["--exists"],
    ("get", "--exists", "re"): ["resume", "replace", "rename"],
    ("get", "--exists", "=", "re"): ["resume", "replace", "rename"],
    ("get", "--progress", "="): ["auto", "bar", "dot", "json", "none"],
    ("get", "-O", "a"): ["a file", "another"],
    ("-O", "get", "e"): ["explain", "extract"],  # `get` is the argument of -O
    ("get", "-d", ""): ["directory"],
    ("get", "--user", ""): [""],
    ("get", "h"): [""],
    ("extract", "an"): ["another"],
    ("help", "S0"): [rule.name for rule in RULES if rule.name < "S1"],
    ("help", "13"): ["13", "130"],
    ("completion", ""): ["bash", "zsh", "fish"],
}


@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_bash_completes_arguments(words: tuple[str, ...], files: Mapping[str, Path], tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    (tmp_path / "another").touch()
    (tmp_path / "directory").mkdir()
    assert by_bash(files[BASH], tmp_path, *words) == CASES[words]


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS if verb.name != "help"])
def test_bash_completes_options_of_command(verb: str, files: Mapping[str, Path], tmp_path: Path) -> None:
    expected = {flag for row in rows() if verb in row.verbs.split() for flag in row.flags}
    assert set(by_bash(files[BASH], tmp_path, verb, "-")) == expected


def test_metavariables_are_classified() -> None:
    """A new metavariable of a row must be classified as a file, a directory or neither."""
    result: dict[str, set[str]] = {}
    for row in rows():
        result.setdefault(classify_value(row), set()).add(row.metavar or "")
    assert result["path"] <= {"FILE", "LIST", "FILE|none"}
    assert result["directory"] == {"DIR"}
    assert not any(re.search("FILE|LIST|DIR", takes) for takes in result["text"] | result["words"])


# --- the other shells, which `make servers` unpacks


def program(name: str, path: str) -> tuple[str, dict[str, str]]:
    """Return the path of the program, and the environment in which it finds its files."""
    if (installed := shutil.which(name)) is not None:
        return installed, dict(os.environ)
    unpacked = find(name, path)
    share = unpacked.path("usr/share/groff/current")
    groff = {"GROFF_FONT_PATH": share / "font", "GROFF_TMAC_PATH": share / "tmac"}
    return str(unpacked.path(path)), {
        **unpacked.environment(),
        **{variable: str(place) for variable, place in groff.items()},
        "GROFF_BIN_PATH": str(unpacked.path("usr/bin")),
    }


def test_zsh_accepts_completion_file(files: Mapping[str, Path]) -> None:
    zsh, environment = program("zsh", "bin/zsh")
    done = subprocess.run([zsh, "-fn", files[ZSH]], capture_output=True, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("resolve ex", ["explain", "extract"]),
        ("resolve get --exists re", ["rename", "replace", "resume"]),
        ("resolve ls --lo", ["--long"]),
        ("resolve ls --exi", []),
        ("resolve --exi", ["--exists"]),
    ],
)
def test_fish_completes_arguments(
    line: str, offered: list[str], files: Mapping[str, Path], tmp_path: Path
) -> None:
    fish, environment = program("fish", "usr/bin/fish")
    script = f"source {files[FISH]}; complete -C '{line}'"
    done = subprocess.run(
        [fish, "-N", "-c", script], capture_output=True, text=True, env={**environment, "HOME": str(tmp_path)}
    )
    assert done.stderr == ""
    assert sorted(row.partition("\t")[0] for row in done.stdout.splitlines()) == offered


def test_groff_formats_page_without_warnings(files: Mapping[str, Path]) -> None:
    groff, environment = program("groff", "usr/bin/groff")
    done = subprocess.run(
        [groff, "-ww", "-man", "-Tascii", files[MAN]], capture_output=True, text=True, env=environment
    )
    assert done.stderr == ""
    shown = re.sub(r"\x1b\[[0-9]*m|.\x08", "", done.stdout)
    assert "--exists HOW" in shown
    assert "resolve explain 'ftp://me@ftp.example/%2Fetc/motd;type=a'" in shown


def test_special_characters_of_purposes_are_quoted() -> None:
    """A purpose may contain quotes, brackets, colons and periods, which are special in these languages."""
    from resolver.cli.manual import fish, roff, zsh

    row = Option(("--odd",), "a:b]", 'it\'s [a]: \\ "x" `y` $z', verbs="get")
    (spec,) = zsh._specs(row)
    assert spec == "'(--odd)--odd=[it'\\''s \\[a\\]\\: \\\\ \"x\" `y` $z]:a\\:b\\]: '"
    assert fish._option(row).endswith("-d 'it\\'s [a]: \\\\ \"x\" `y` $z'")
    assert roff._text(".x '-\\") == "\\&.x \\(aq\\-\\e"
