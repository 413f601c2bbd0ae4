"""A directory, menu, group or result list is never saved under the name of a document."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import resolver
from tests.cli.command import resolve

#: Listings of every scheme that has them, by URLs whose last part could name a file.
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
def test_a_listing_is_no_document(url: str, at: dict[str, str], folder: Path) -> None:
    given = url.format_map(at)
    for more in ([], ["-d", "."], ["--exists", "replace"]):
        done = resolve("get", *more, given)
        assert (done.status, done.out, os.listdir(folder)) == (9, b"", [])
        has_tree = not given.startswith(("news:", "wais:"))
        ways = [way for way in ("ls", "-r", "-O FILE") if f" {way} " in done.told]
        assert ways == (["ls", "-r", "-O FILE"] if has_tree else ["ls", "-O FILE"])
    (outcome,) = resolve("get", "-q", "--json", given).records
    assert (outcome["status"], outcome["exit"], outcome["path"]) == ("refused", 9, None)
    assert (outcome["error"]["code"], outcome["error"]["rule"]) == ("Refused", "S14")
    assert (outcome["attempts"], os.listdir(folder)) == (0, [])


@pytest.mark.parametrize("url", LISTINGS)
def test_a_listing_is_saved_where_somebody_named_the_file(url: str, at: dict[str, str], folder: Path) -> None:
    given = url.format_map(at)
    assert resolve("get", "-q", "-O", "names", given).status == 0
    assert (folder / "names").read_bytes() == resolve("ls", "-q", given).out


@pytest.mark.parametrize(
    "url", ["{gopher}/00/story%09%09!", "{gopher}/11/sub%09%09$", "{wais}/demo", "{ftp}/pub/a.txt"]
)
def test_what_is_text_beside_is_a_document(url: str, at: dict[str, str], folder: Path) -> None:
    """Attributes of Gopher+, the description of a database."""
    given = url.format_map(at)
    (outcome,) = resolve("get", "-q", "--json", given).records
    assert (outcome["exit"], os.listdir(folder)) == (0, [outcome["path"]])
    assert (folder / outcome["path"]).read_bytes() == resolve("cat", "-q", given).out


async def test_a_program_says_whether_it_wants_a_listing(at: dict[str, str], folder: Path) -> None:
    saved = await resolver.save(at["file"], folder / "names")
    assert saved.bytes == len((folder / "names").read_bytes()) > 0
    with pytest.raises(resolver.Refused, match="directory") as caught:
        await resolver.save(at["file"], folder / "other", listings=False)
    assert (caught.value.rule, os.listdir(folder)) == ("S14", ["names"])
