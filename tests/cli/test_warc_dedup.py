"""`--warc-dedup CDX`: what earlier archives have is not kept again, whoever wrote them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import resolve
from tests.cli.test_warc import Found, check, records
from tests.hang import HANG

PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home)}


def objects(path: Path) -> list[Found]:
    return [each for each in records(path) if each.head.type in ("response", "resource", "revisit")]


def test_a_second_run_refers_to_the_files_of_the_first(at: dict[str, str], folder: Path) -> None:
    (folder / "big.txt").write_bytes(b"x" * 600)
    urls = [f"{at['large']}/", (folder / "big.txt").as_uri(), f"{at['http']}/about.txt"]
    assert resolve("cat", "-q", "--warc", "a.warc.gz", *urls).status == 0
    first = objects(folder / "a.warc.gz")
    words = ["cat", "-q", "--warc", "b.warc.gz", "--warc-dedup", "a.cdxj"]
    assert resolve(*words, *urls, f"{at['large']}/?again").status == 0
    again = objects(folder / "b.warc.gz")
    assert [each.head.type for each in again] == ["revisit", "revisit", "response", "revisit"]
    for each, original in ((again[0], first[0]), (again[1], first[1]), (again[3], first[0])):
        for name, value in (
            ("WARC-Refers-To", original.head.id),
            ("WARC-Refers-To-Target-URI", original.head.target),
            ("WARC-Refers-To-Date", original.head.first("WARC-Date")),
            ("WARC-Profile", PROFILE),
        ):
            assert each.head.first(name) == value
        assert each.head.first("WARC-Payload-Digest") is not None
    check(folder / "b.warc.gz", folder / "a.warc.gz")  # each reference leads somewhere


def test_more_than_one_index_may_be_named(at: dict[str, str], folder: Path) -> None:
    for name, octets in (("a", b"x" * 600), ("b", b"y" * 600)):
        (folder / name).write_bytes(octets)
        assert resolve("cat", "-q", "--warc", f"{name}.warc.gz", (folder / name).as_uri()).status == 0
    words = ["cat", "-q", "--warc", "c.warc.gz", "--warc-dedup", "a.cdxj", "--warc-dedup", "b.cdxj"]
    assert resolve(*words, *((folder / name).as_uri() for name in "ab")).status == 0
    assert [each.head.type for each in objects(folder / "c.warc.gz")] == ["revisit"] * 2


def test_an_index_that_lies_changes_nothing(at: dict[str, str], folder: Path) -> None:
    url = f"{at['large']}/"
    assert resolve("cat", "-q", "--warc", "a.warc.gz", url).status == 0
    (folder / "a.warc.gz").write_bytes(b"what a person wrote")
    assert resolve("cat", "-q", "--warc", "b.warc.gz", "--warc-dedup", "a.cdxj", url).status == 0
    assert [each.head.type for each in objects(folder / "b.warc.gz")] == ["response"]


def test_an_index_that_cannot_be_read_is_an_error_before_anything_is_made(
    at: dict[str, str], folder: Path
) -> None:
    (folder / "a.cdxj").write_text("nonsense\n")
    for name in ("a.cdxj", "none.cdxj"):
        words = ["cat", "--warc", "b.warc.gz", "--warc-dedup", name, f"{at['http']}/about.txt"]
        done = resolve(*words)
        assert done.status == 3
        assert name in done.told
        assert not (folder / "b.warc.gz").exists()


def test_lines_of_no_use_are_told(at: dict[str, str], folder: Path) -> None:
    url = f"{at['large']}/"
    assert resolve("cat", "-q", "--warc", "a.warc.gz", url).status == 0
    with (folder / "a.cdxj").open("a") as file:
        file.write("nonsense\n")
    done = resolve("cat", "--warc", "b.warc.gz", "--warc-dedup", "a.cdxj", url)
    assert "--warc-dedup: of 1 line" in done.told
    assert [each.head.type for each in objects(folder / "b.warc.gz")] == ["revisit"]


def test_it_takes_an_archive() -> None:
    assert resolve("get", "--warc-dedup", "a.cdxj", "http://h.example/").status == 2


@pytest.mark.skipif(shutil.which("wget") is None, reason="there is no wget")
def test_what_wget_has_kept_is_referred_to(at: dict[str, str], folder: Path) -> None:
    url = f"{at['large']}/"
    words = ["wget", "-q", "--no-config", "--warc-file=made/by-wget", "--warc-cdx", "-O", "out", url]
    (folder / "made").mkdir()
    subprocess.run(
        words, cwd=folder, check=True, timeout=HANG, env={"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    )
    assert resolve("cat", "-q", "--warc", "b.warc.gz", "--warc-dedup", "made/by-wget.cdx", url).status == 0
    (revisit,) = objects(folder / "b.warc.gz")
    (original,) = [
        each for each in objects(folder / "made" / "by-wget.warc.gz") if each.head.type == "response"
    ]
    assert (revisit.head.type, revisit.head.first("WARC-Refers-To")) == ("revisit", original.head.id)
    assert revisit.head.first("WARC-Refers-To-Target-URI") == url
