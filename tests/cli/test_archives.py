"""`resolve warc`: what is in archives, and whether they are what they say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli import contract
from tests.cli.command import resolve
from tests.resolver.warc.archives import WARC, packed, record


def test_a_record_a_line(folder: Path) -> None:
    done = resolve("warc", "ls", str(WARC / "news.warc.gz"), "--under", "news:gone@example.test")
    assert done.status == 0
    assert done.out.decode().splitlines() == [
        "2026-11-22T10:00:12  metadata  failed             1507  news:gone@example.test"
    ]


def test_every_recorded_file_is_listed() -> None:
    paths = [str(path) for path in sorted(WARC.glob("*.warc.gz"))]
    done = resolve("warc", "ls", "--json", *paths)
    assert done.status == 0
    assert len(done.records) == 78
    assert all(set(each) == contract.RECORD for each in done.records)
    kinds = {each["kind"] for each in done.records}
    assert kinds >= {
        "-",
        "200",
        "404",
        "directory",
        "document",
        "done",
        "failed",
        "group",
        "results",
        "truncated",
    }


def test_what_is_below_a_url(folder: Path) -> None:
    urls = ("ftp://h.example/a", "ftp://h.example/a/b", "ftp://h.example/ab", "ftp://g.example/a/b", "x y")
    (folder / "a.warc").write_bytes(b"".join(record(WARC_Target_URI=url) for url in urls))
    done = resolve("warc", "ls", "a.warc", "--under", "ftp://h.example/a/", "--json")
    assert [each["url"] for each in done.records] == ["ftp://h.example/a", "ftp://h.example/a/b"]
    assert resolve("warc", "ls", "a.warc", "--under", "no url").status == 12


def test_no_password_of_a_url_is_shown() -> None:
    for words in (["ls"], ["ls", "--json"], ["check", "--json"]):
        done = resolve("warc", *words, str(WARC / "foreign" / "wget-ftp.warc.gz"))
        assert b"secret" not in done.out + done.err


def test_what_is_wrong_a_line_each(folder: Path) -> None:
    octets = packed(record(), record(b"x", length="7"), record(WARC_Record_ID="<2>", WARC_Refers_To="<3>"))
    (folder / "a.warc.gz").write_bytes(octets)
    done = resolve("warc", "check", "a.warc.gz")
    assert done.status == 10
    at = len(packed(record()))
    after = at + len(packed(record(b"x", length="7")))
    damaged, reference = done.out.decode().splitlines()
    assert all(word in damaged for word in ("a.warc.gz", f" {at}:", f" {after} ", "(warc:damaged)"))
    assert all(word in reference for word in ("a.warc.gz", f" {after}:", "<3>", "(warc:reference)"))
    assert all(word in done.told for word in ("2 whole", "1 file", "1 damaged"))
    told = resolve("warc", "check", "--json", "a.warc.gz").records
    assert [(each["finding"], each["fault"], each["offset"]) for each in told] == [
        ("warc:damaged", True, at),
        ("warc:reference", False, after),
    ]
    assert all(set(each) == contract.RECORD_FINDING for each in told)


def test_what_is_right_needs_no_words() -> None:
    done = resolve("warc", "check", str(WARC / "gopher.warc.gz"), str(WARC / "http.warc.gz"))
    assert (done.status, done.out, done.told.count("\n")) == (0, b"", 1)
    assert all(word in done.told for word in ("41 whole", "2 files"))
    assert "damaged" not in done.told
    assert resolve("warc", "check", "-q", str(WARC / "gopher.warc.gz")).told == ""


def test_a_damaged_file_is_listed_as_far_as_it_can_be() -> None:
    done = resolve("warc", "ls", str(WARC / "hostile" / "damage-in-the-middle.warc.gz"))
    assert (done.status, len(done.out.splitlines())) == (10, 27)
    assert "octet 2340" in done.told


def test_files_that_cannot_be_read(folder: Path) -> None:
    (folder / "a.warc").write_bytes(b"WARC/0.18\r\n")
    os.mkfifo(folder / "pipe")
    for path, words in {
        "none": "No such file or directory",
        ".": "no regular file",
        "pipe": "no regular file",
        "a.warc": "another version",
    }.items():
        done = resolve("warc", "check", path)
        assert done.status == 3
        assert done.told.startswith(f"resolve: {path}: ")
        assert words in done.told


@pytest.mark.parametrize(
    "words",
    [
        ["warc"],
        ["warc", "ls"],
        ["warc", "list", "a.warc"],
        ["warc", "check", "-i", "list", "a.warc"],
        ["warc", "check", "a.warc", "--under", "ftp://h.example/"],
    ],
)
def test_other_words_are_a_usage_error(words: list[str]) -> None:
    assert resolve(*words).status == 2
