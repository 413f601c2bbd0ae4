"""Index pages of a real nginx, in each of its formats."""

from __future__ import annotations

import pytest

import resolver
from resolver import Entry, Kind, Resolver
from tests.servers.http_servers import ABOUT, DATA, LONG, TREE, HttpServer

FORMATS = ("/rounded/", "/objects/", "/elements/")


async def entries_of(url: str) -> list[Entry]:
    async with Resolver() as session, session.entries(url) as entries:
        return [entry async for entry in entries]


@pytest.mark.parametrize("path", FORMATS)
async def test_every_format_lists_the_same(nginx: HttpServer, path: str) -> None:
    found = await entries_of(nginx.url(path))
    kinds = {entry.name: entry.kind for entry in found}
    files = {name for name in TREE if "/" not in name}
    folders = {name.partition("/")[0] for name in TREE if "/" in name}
    assert kinds == {**dict.fromkeys(files, Kind.DOCUMENT), **dict.fromkeys(folders, Kind.DIRECTORY)}
    sizes = {entry.name: entry.size for entry in found}
    exact = path != "/rounded/"
    expected = {"about.txt": len(ABOUT), "data.bin": len(DATA) if exact else None, "long.txt": len(LONG)}
    assert {name: sizes[name] for name in expected} == {
        **expected,
        "long.txt": len(LONG) if exact else None,
    }
    assert all((entry.modified is not None) is exact for entry in found)


@pytest.mark.parametrize("path", FORMATS)
async def test_what_is_listed_can_be_fetched(nginx: HttpServer, path: str) -> None:
    (about,) = [entry for entry in await entries_of(nginx.url(path)) if entry.name == "about.txt"]
    assert about.url is not None
    assert about.url == nginx.url(f"{path}about.txt")
    assert (await resolver.fetch(about.url)).content == ABOUT


async def test_a_redirect_to_the_slash_leads_to_the_index(nginx: HttpServer) -> None:
    (entry,) = await entries_of(nginx.url("/rounded/names"))
    assert (entry.name, entry.url) == ("a b{c}.txt", nginx.url("/rounded/names/a%20b%7Bc%7D.txt"))
    assert entry.referrer is not None
    assert entry.referrer.url == nginx.url("/rounded/names/")


async def test_a_page_is_a_document_to_whoever_fetches_it(nginx: HttpServer) -> None:
    response = await resolver.fetch(nginx.url("/rounded/names/"))
    assert response.entries is None
    with pytest.raises(resolver.Declined, match="listing"):
        await entries_of(nginx.url("/about.txt"))
