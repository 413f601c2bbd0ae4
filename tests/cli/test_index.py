"""What a URL names by its directory alone has the name `index`, and goes on by its media type (S14)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resolver import parse
from resolver.transfer.naming import local_file_name
from tests.cli.command import resolve
from tests.cli.places import DIRECTORIES
from tests.cli.test_directories import LISTINGS


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/", "index.html"),
        ("/deep/", "index.json"),
        ("/?q=a", "index_q=a.html"),
        ("/odd/", "index"),
        ("/untold/", "index"),
        ("/moved/", "index.html"),
    ],
)
def test_the_name_and_the_message(path: str, name: str, at: dict[str, str], folder: Path) -> None:
    url = at["directories"] + path
    done = resolve("get", url)
    content = DIRECTORIES["/" if path in ("/moved/", "/?q=a") else path].content
    assert (done.status, done.out) == (0, b"")
    assert done.told.endswith(f"{url} -> {name} ({len(content)} octets)\n")
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == {name: content}
    again = resolve("get", "-q", "--json", url)
    assert (again.status, again.records[0]["error"]["code"]) == (3, "LocalError")


@pytest.mark.parametrize("jobs", ["1", "4"])
def test_names_are_given_in_the_order_of_the_list(jobs: str, at: dict[str, str], folder: Path) -> None:
    """Whoever is answered first."""
    urls = [at["directories"] + path for path in ("/", "/deep/", "/untold/", "/moved/")]
    done = resolve("get", "-q", "--json", "-j", jobs, *urls)
    assert {record["url"]: record["path"] for record in done.records} == dict(
        zip(urls, ("index.html", "index.2.json", "index.3", "index.4.html"), strict=True)
    )


def test_two_urls_never_write_one_file(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-q", "--json", at["directories"] + "/index.html", at["directories"] + "/")
    assert {record["path"] for record in done.records} == {"index.html", "index.2.html"}
    assert (folder / "index.html").read_bytes() == b"another"
    assert (folder / "index.2.html").read_bytes() == DIRECTORIES["/"].content


def test_what_is_not_there_is_said_as_ever(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-q", "--json", at["directories"] + "/gone/")
    assert (done.status, done.records[0]["error"]["code"], os.listdir(folder)) == (8, "NotFound", [])


@pytest.mark.parametrize("options", [["--host-directories"], ["--cut-dirs", "0"]])
def test_directories_are_kept(options: list[str], at: dict[str, str], folder: Path) -> None:
    (record,) = resolve("get", "-q", "--json", *options, at["directories"] + "/deep/").records
    assert record["path"] == ("deep/index.json" if "--cut-dirs" in options else "127.0.0.1/deep/index.json")


@pytest.mark.parametrize("url", ["{ftp}/", "{ftp}/pub/", "{gopher}/", "{gopher}/1", "{news}/", "{file}/"])
def test_a_listing_says_that_it_is_one(url: str, at: dict[str, str], folder: Path) -> None:
    """Also where its URL names it by its directory."""
    assert url not in LISTINGS
    done = resolve("get", "-q", "--json", url.format_map(at))
    error = done.records[0]["error"]
    assert (done.status, error["rule"], os.listdir(folder)) == (9, "S14", [])
    assert " ls " in error["message"]


@pytest.mark.parametrize("part", ["..", "%2F", "x%2F", "%5C", "."])
def test_other_names_are_refused_as_before(part: str, at: dict[str, str], folder: Path) -> None:
    assert resolve("get", "-q", f"{at['named']}/{part}").status == 9
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("gopher://h.example/1/sub/", "index"),
        ("prospero://h.example//example/", "index"),
        ("gopher://h.example/0/sub/x", "x"),
        ("ftp://h.example/a/", "index"),
        ("https://h.example?a", "index_a"),
    ],
)
def test_a_path_of_octets_has_parts_too(url: str, name: str) -> None:
    assert local_file_name(parse(url)) == name
