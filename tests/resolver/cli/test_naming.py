"""Local names: collisions with files of this program, listings, and URLs without a file name (S14)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import resolver
from resolver import parse
from resolver.transfer.naming import local_file_name
from tests.resolver.cli.command import resolve
from tests.resolver.cli.places import DIRECTORIES

GOOD = b"the tool, by those who made it\n" * 400
#: Only its beginning differs: a comparison of the end does not detect the difference.
EVIL = b"something else" + GOOD[14:-1]


@pytest.mark.parametrize("options", [(), ("--policy", "untrusted", "--file-root", "/")])
@pytest.mark.parametrize("ending", ["part", "PART", "%70art", "p%E2%80%8Dart"])
def test_forged_part_files_are_not_resumed(ending: str, options: tuple[str, ...], folder: Path) -> None:
    """The server sends forged `.part` and `.part-state` files, then the tool."""
    served = folder.parent / f"{folder.name}-served"
    served.mkdir()
    (served / "tool.bin").write_bytes(GOOD)
    tool = (served / "tool.bin").as_uri()
    state = {
        "format": "url-resolver part state 1",
        "url": tool,
        "size": len(GOOD),
        "modified": None,
        "etag": None,
    }
    state |= {"device": folder.stat().st_dev, "inode": 1, "token": None, "withheld": 0, "complete": False}
    names = [f"tool.bin.{ending}", f"tool.bin.{ending}-state"]
    urls = [f"{served.as_uri()}/{name}" for name in names]
    for url, content in zip(urls, (EVIL, json.dumps(state).encode()), strict=True):
        (served / _decoded(url)).write_bytes(content)
        assert resolve("get", *options, url).status == 0
    assert resolve("get", *options, tool).status == 0
    assert (folder / "tool.bin").read_bytes() == GOOD
    assert sum(path.name.endswith("_") for path in folder.iterdir()) == 2


def _decoded(url: str) -> str:
    return url.rpartition("/")[2].replace("%70", "p").replace("%E2%80%8D", "\u200d")


@pytest.mark.parametrize("exists", ["fail", "replace"])
def test_server_chosen_part_name_is_escaped(exists: str, at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "--allow-server-name", "--exists", exists, at["named_part"] + "/x")
    assert (done.status, [path.name for path in folder.iterdir()]) == (0, ["tool.PART_"])


@pytest.mark.parametrize(
    "name", ["x.part", "x.Part-State", "x.part-state.new", "x.ｐａｒｔ", "x.meta.json", "x.META.json.new"]
)
def test_output_option_with_reserved_name_is_refused(name: str, at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "--json", "-O", name, "--trace", "trace", at["http"] + "/about.txt")
    assert (done.status, done.records[0]["error"]["code"]) == (3, "LocalError")
    assert "choose another name" in done.messages
    assert "GET" not in (folder / "trace").read_text()


def test_meta_file_is_not_replaced_by_download(at: dict[str, str], folder: Path) -> None:
    """A server cannot forge the metadata file."""
    (served := folder.parent / f"{folder.name}-served").mkdir(exist_ok=True)
    (served / "about.txt.meta.json").write_text('{\n  "format": "url-resolver meta 1"\n}')
    assert resolve("get", "-q", f"{served.as_uri()}/about.txt.meta.json").status == 0
    url = at["http"] + "/about.txt"
    assert resolve("get", "-q", "--meta", url).status == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "about.txt",
        "about.txt.meta.json",
        "about.txt.meta.json_",
    ]
    record = json.loads((folder / "about.txt.meta.json").read_text())
    assert (record["url"], record["bytes"]) == (url, (folder / "about.txt").stat().st_size)


# A directory, menu, group or result list is never saved under the name of a document.

#: Listings of every scheme that has listings, with URLs whose last part could be a file name.
LISTINGS = (
    "{ftp}/pub",
    "{ftp}/etc;type=d",
    "{gopher}/11/sub",
    "{gopher}/77/find%09a",
    "{nntp}/comp.misc",
    "{news}/comp.misc",
    "{wais}/demo?ferry",
    "{prospero}//example",
    "{file}",
)


@pytest.mark.parametrize("url", LISTINGS)
def test_get_listing_without_output_is_refused(url: str, at: dict[str, str], folder: Path) -> None:
    target = url.format_map(at)
    for more in ([], ["-d", "."], ["--exists", "replace"]):
        done = resolve("get", *more, target)
        assert (done.status, done.out, os.listdir(folder)) == (9, b"", [])
        has_tree = not target.startswith(("news:", "wais:"))
        ways = [way for way in ("ls", "-r", "-O FILE") if f" {way} " in done.messages]
        assert ways == (["ls", "-r", "-O FILE"] if has_tree else ["ls", "-O FILE"])
    (outcome,) = resolve("get", "-q", "--json", target).records
    assert (outcome["status"], outcome["exit"], outcome["path"]) == ("refused", 9, None)
    assert (outcome["error"]["code"], outcome["error"]["rule"]) == ("Refused", "S14")
    assert (outcome["attempts"], os.listdir(folder)) == (0, [])


@pytest.mark.parametrize("url", LISTINGS)
def test_get_listing_with_output_saves_names(url: str, at: dict[str, str], folder: Path) -> None:
    target = url.format_map(at)
    assert resolve("get", "-q", "-O", "names", target).status == 0
    assert (folder / "names").read_bytes() == resolve("ls", "-q", target).out


@pytest.mark.parametrize(
    "url", ["{gopher}/00/story%09%09!", "{gopher}/11/sub%09%09$", "{wais}/demo", "{ftp}/pub/a.txt"]
)
def test_get_attributes_and_descriptions_are_saved(url: str, at: dict[str, str], folder: Path) -> None:
    """Attributes of Gopher+, and the description of a database."""
    target = url.format_map(at)
    (outcome,) = resolve("get", "-q", "--json", target).records
    assert (outcome["exit"], os.listdir(folder)) == (0, [outcome["path"]])
    assert (folder / outcome["path"]).read_bytes() == resolve("cat", "-q", target).out


async def test_save_with_listings_false_refuses_directory(at: dict[str, str], folder: Path) -> None:
    saved = await resolver.save(at["file"], folder / "names")
    assert saved.bytes == len((folder / "names").read_bytes()) > 0
    with pytest.raises(resolver.Refused, match="directory") as caught:
        await resolver.save(at["file"], folder / "other", listings=False)
    assert (caught.value.rule, os.listdir(folder)) == ("S14", ["names"])


# A URL that names only a directory gets the name `index`, with an extension for its media type (S14).


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
def test_get_directory_url_is_named_index_by_media_type(
    path: str, name: str, at: dict[str, str], folder: Path
) -> None:
    url = at["directories"] + path
    done = resolve("get", url)
    content = DIRECTORIES["/" if path in ("/moved/", "/?q=a") else path].content
    assert (done.status, done.out) == (0, b"")
    assert done.messages.endswith(f"{url} -> {name} ({len(content)} bytes)\n")
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == {name: content}
    again = resolve("get", "-q", "--json", url)
    assert (again.status, again.records[0]["error"]["code"]) == (3, "LocalError")


@pytest.mark.parametrize("jobs", ["1", "4"])
def test_index_names_are_numbered_in_list_order(jobs: str, at: dict[str, str], folder: Path) -> None:
    """The order of the responses does not matter."""
    urls = [at["directories"] + path for path in ("/", "/deep/", "/untold/", "/moved/")]
    done = resolve("get", "-q", "--json", "-j", jobs, *urls)
    assert {record["url"]: record["path"] for record in done.records} == dict(
        zip(urls, ("index.html", "index.2.json", "index.3", "index.4.html"), strict=True)
    )


def test_index_name_does_not_overwrite_other_url(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-q", "--json", at["directories"] + "/index.html", at["directories"] + "/")
    assert {record["path"] for record in done.records} == {"index.html", "index.2.html"}
    assert (folder / "index.html").read_bytes() == b"another"
    assert (folder / "index.2.html").read_bytes() == DIRECTORIES["/"].content


def test_missing_directory_url_creates_no_file(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-q", "--json", at["directories"] + "/gone/")
    assert (done.status, done.records[0]["error"]["code"], os.listdir(folder)) == (8, "NotFound", [])


@pytest.mark.parametrize("options", [["--host-directories"], ["--cut-dirs", "0"]])
def test_index_name_keeps_requested_directories(options: list[str], at: dict[str, str], folder: Path) -> None:
    (record,) = resolve("get", "-q", "--json", *options, at["directories"] + "/deep/").records
    assert record["path"] == ("deep/index.json" if "--cut-dirs" in options else "127.0.0.1/deep/index.json")


@pytest.mark.parametrize("url", ["{ftp}/", "{ftp}/pub/", "{gopher}/", "{gopher}/1", "{news}/", "{file}/"])
def test_get_listing_of_directory_url_names_ls(url: str, at: dict[str, str], folder: Path) -> None:
    """The message is the same if the URL ends in a slash."""
    assert url not in LISTINGS
    done = resolve("get", "-q", "--json", url.format_map(at))
    error = done.records[0]["error"]
    assert (done.status, error["rule"], os.listdir(folder)) == (9, "S14", [])
    assert " ls " in error["message"]


@pytest.mark.parametrize("part", ["..", "%2F", "x%2F", "%5C", "."])
def test_unusable_names_are_refused(part: str, at: dict[str, str], folder: Path) -> None:
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
def test_local_file_name_of_other_schemes(url: str, name: str) -> None:
    assert local_file_name(parse(url)) == name
