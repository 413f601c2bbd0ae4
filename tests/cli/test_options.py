"""Verbs and options: what each is for, and what files, names and lists become of it.

The tables are in `contract`.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import pytest

from protocols.location import Origin
from resolver.cli.options import CommandOptions, Option, rows
from resolver.files.commit import Sync
from resolver.policy.settings import Name
from resolver.transfer.saving import Exists
from resolver.transfer.verification import Checksum
from tests.cli import contract
from tests.cli.command import Done, resolve

ABOUT = contract.ABOUT.encode()


#: Names that `options` imports for types alone.
_TYPES = {"Checksum": Checksum, "Exists": Exists, "Origin": Origin, "PolicyName": Name, "Sync": Sync}


def test_command_options_fields_are_rows_of_the_table() -> None:
    assert [field.name for field in fields(CommandOptions)] == [row.name for row in rows()]


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: row.name)
def test_command_options_field_has_type_of_row(row: Option) -> None:
    hint = get_type_hints(CommandOptions, localns=_TYPES)[row.name]
    if row.takes is None:
        assert hint is bool
        return
    if row.many:
        assert get_origin(hint) is list
        (hint,) = get_args(hint)
    elif row.unset is None:
        assert type(None) in get_args(hint)
        hint = get_args(hint)[0]
    if row.choices is not None:
        assert set(get_args(hint)) == set(row.choices)
    else:
        kind = str if row.kind is str else get_type_hints(row.kind, localns=_TYPES)["return"]
        assert hint is kind


def test_names_that_are_no_options(folder: Path) -> None:
    for name in contract.NOT_THERE:
        done = resolve("cat", name, "file:///etc/hostname")
        if name == "-":  # no option: a word that is no URL
            assert done.status == 12
            continue
        assert (done.status, done.out) == (2, b""), name
        assert done.told.startswith("resolve: ")
        assert name.partition("=")[0] in done.told


@pytest.mark.parametrize("wish", contract.WISHES, ids=" ".join)
def test_an_option_stands_beside_every_url(wish: list[str], at: dict[str, str]) -> None:
    done = resolve("cat", "-q", *wish, *(url.format_map(at) for url in contract.DOCUMENTS))
    assert (done.status, done.err) == (0, b"")
    assert done.out == b"".join(contract.DOCUMENTS.values())


@pytest.mark.parametrize("argv", contract.ANSWERS, ids=" ".join)
def test_what_an_option_is_for(argv: tuple[str, ...], at: dict[str, str], folder: Path) -> None:
    (folder / "password").write_text("password\nand more\n")
    sent, shown = contract.ANSWERS[argv]
    done = resolve("-q", "--trace", "trace", *(word.format_map(at) for word in argv))
    assert (done.status, done.err) == (0, b"")
    assert done.out.decode() == shown
    trace = (folder / "trace").read_text()
    assert sent in trace
    assert "password" not in trace


def test_no_verb_is_get(at: dict[str, str], folder: Path) -> None:
    assert resolve("-q", f"{at['http']}/about.txt") == Done(0, b"", b"")
    assert (folder / "about.txt").read_bytes() == ABOUT


@pytest.mark.parametrize(
    ("options", "path"),
    [
        (["-O", "x"], "x"),
        (["-o", "x"], "x"),
        (["-d", "new/deep"], "new/deep/about.txt"),
        (["-d", "new", "-O", "x"], "new/x"),
    ],
)
def test_where_a_file_is_saved(options: list[str], path: str, at: dict[str, str], folder: Path) -> None:
    done = resolve("get", *options, "--json", f"{at['http']}/about.txt")
    assert (done.status, done.records[0]["path"]) == (0, path)
    assert [str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()] == [path]
    assert (folder / path).read_bytes() == ABOUT


def test_a_server_names_a_file_only_where_it_may(at: dict[str, str], folder: Path) -> None:
    url = f"{at['named']}/x"
    assert resolve("-q", url, "-d", "own").status == 0
    assert resolve("-q", "--allow-server-name", url, "-d", "theirs").status == 0
    assert resolve("-q", "--allow-server-name", f"{at['http']}/about.txt", "-d", "theirs").status == 0
    assert resolve("-q", "--allow-server-name", url, "-O", "mine").status == 0
    found = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert found == {"own/x", "theirs/_bashrc", "theirs/about.txt", "mine"}
    done = resolve("--allow-server-name", f"{at['misnamed']}/x")
    assert (done.status, "S14" in done.told) == (9, True)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("..%2F..%2Fx", "x"),
        ("%5Cx", "x"),
        (".bashrc", "_bashrc"),
        ("-rf", "_rf"),
        ("a:b%3F%22%0A%1B%E2%80%AE%FFc", "a_b______c"),
        ("nul.txt", "_nul.txt"),
        ("x.", "x_"),
        ("x%20", "x_"),
        ("x" * 250, "x" * 200),
        ("%C3%A9.txt", "é.txt"),
        ("..", None),
        ("%2F", None),
        ("", "index"),
        ("x/", "index"),
        ("?a=b/c", "index_a=b_c"),
    ],
)
def test_the_name_of_a_file_is_made_of_the_url(
    part: str, name: str | None, at: dict[str, str], folder: Path
) -> None:
    done = resolve("get", "-q", f"{at['named']}/{part}")
    assert (done.status, os.listdir(folder)) == ((9, []) if name is None else (0, [name]))


def test_standard_output_is_no_file(at: dict[str, str], folder: Path) -> None:
    url = f"{at['http']}/about.txt"
    assert resolve("-O", "-", url, url) == Done(0, ABOUT * 2, b"")
    assert resolve("cat", "-O", "-", url).out == ABOUT
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("how", "status", "state", "held", "name"),
    [
        ("fail", 3, "failed", b"mine", "about.txt"),
        ("skip", 0, "skipped", b"mine", "about.txt"),
        ("newer", 0, "skipped", b"mine", "about.txt"),  # it is of 1994
        ("replace", 0, "done", ABOUT, "about.txt"),
        ("rename", 0, "done", ABOUT, "about.2.txt"),
        ("resume", 0, "done", ABOUT, "about.txt"),
    ],
)
def test_a_file_that_is_there(
    how: str, status: int, state: str, held: bytes, name: str, at: dict[str, str], folder: Path
) -> None:
    (folder / "about.txt").write_bytes(ABOUT[:9] if how == "resume" else b"mine")
    done = resolve("get", "-q", "--json", "--exists", how, f"{at['http']}/about.txt")
    (outcome,) = done.records
    assert (done.status, outcome["status"], outcome["exit"]) == (status, state, status)
    assert (folder / name).read_bytes() == held
    assert sorted(os.listdir(folder)) == sorted({"about.txt", name})
    assert tuple(outcome) == contract.OUTCOME


@pytest.mark.parametrize(("how", "times"), [((), 1), (("--sync", "always"), 1), (("--sync", "never"), 0)])
def test_when_files_get_to_the_disk(
    how: tuple[str, ...], times: int, at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    assert resolve("get", "-q", *how, f"{at['http']}/about.txt").status == 0
    assert len(synced) == times + (how == ("--sync", "always"))  # and its directory
    assert (folder / "about.txt").read_bytes() == ABOUT


def test_a_mirror_and_its_digest(at: dict[str, str], folder: Path) -> None:
    digest = hashlib.sha256(ABOUT).hexdigest()
    checked = ["--checksum", f"SHA256:{digest.upper()}", "-t", "2", "--retry-delay", "0.01"]
    done = resolve(
        "--json", *checked, "--mirror", f"{at['http']}/about.txt", f"{at['closed']}/about.txt", "-q"
    )
    (outcome,) = done.records
    assert (done.status, outcome["final_url"]) == (0, f"{at['http']}/about.txt")
    assert (outcome["digest"], outcome["verified"]) == (f"sha256:{digest}", ["digest", "length"])
    assert outcome["mirror"] == f"{at['http']}/about.txt"


def test_who_served_is_named(at: dict[str, str], folder: Path) -> None:
    mirror = f"{at['http']}/about.txt"
    told = resolve("-t", "1", "--mirror", mirror, f"{at['closed']}/about.txt").told
    last = told.splitlines()[-1]
    assert last.startswith(f"resolve: {at['closed']}/about.txt -> about.txt ({len(ABOUT)} ")
    assert last.endswith(f" {mirror})")
    done = resolve("--json", "--exists", "replace", "--mirror", f"{at['closed']}/about.txt", mirror)
    assert [record["mirror"] for record in done.records] == [None]


def test_what_a_list_holds(at: dict[str, str], folder: Path) -> None:
    about = f"{at['http']}/about.txt"
    lines = ["# a comment", "", "  ", about, json.dumps({"url": about, "origin": "user", "more": 1})]
    given = "\n".join(lines).encode()
    (folder / "list").write_bytes(given + b"\r\n")
    for verb, count in (("cat", 2), ("get", 1), ("ls", 0), ("info", 2), ("parse", 2), ("explain", 2)):
        for name, stdin in (("-", given), ("list", b"")):
            options = ["-O", "-"] if verb == "get" else []
            done = resolve(verb, *options, "-i", name, stdin=stdin)
            assert done.status == (0 if count else 8), (verb, done.told)
            assert done.out.count(b"of two lines" if verb in ("cat", "get") else b"url: ") in (count, 2, 0)
    derived = json.dumps({"url": about, "origin": "derived"}).encode()
    assert resolve("cat", "-i", "-", stdin=derived).status == 9
    near = json.dumps({"url": about, "origin": "derived", "referrer": [at["http"], "127.0.0.1"]}).encode()
    assert resolve("cat", "-i", "-", stdin=near) == Done(0, ABOUT, b"")


def test_a_list_feeds_a_list(at: dict[str, str], folder: Path) -> None:
    listed = resolve("ls", "-q", "--json", f"{at['ftp']}/pub/", f"{at['gopher']}/").out
    assert json.loads(listed.splitlines()[0])["origin"] == "derived"
    done = resolve("explain", "--json", "-i", "-", stdin=listed)
    assert {plan["scheme"] for plan in done.records} >= {"ftp", "gopher"}
    assert len(done.records) == sum(json.loads(line)["url"] is not None for line in listed.splitlines())


@pytest.mark.parametrize(("words", "attempts"), [([], 1), (["--retry-all"], 3)])
def test_what_will_be_the_same_is_tried_again_on_request(
    words: list[str], attempts: int, at: dict[str, str], folder: Path
) -> None:
    patience = ["-t", "3", "--retry-delay", "0.001"]
    done = resolve("get", "--json", "-q", *patience, *words, f"{at['closed']}/x")
    assert (done.status, [record["attempts"] for record in done.records]) == (4, [attempts])
