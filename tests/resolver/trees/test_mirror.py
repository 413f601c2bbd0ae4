"""Pruning a mirror: surplus files and directories, protected files, and incomplete listings."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from fixtures.ftp import Behavior
from fixtures.ftp import serve as serve_ftp
from fixtures.gopher import GOPHERNICUS, PYGOPHERD, UMN23, Flavor, Item
from fixtures.gopher import serve as serve_gopher
from fixtures.http import Page
from fixtures.http import serve as serve_http
from fixtures.http.site import Framing, moved
from protocols.location import Finding
from resolver import LocalError, Resolver, RetryPolicy
from resolver.files.directory import Proven, SurplusFile
from resolver.testing.certificates import server_tls
from resolver.trees.mirror import Inventory, Pruner
from resolver.trees.scope import Selection
from tests.resolver.trees.mirrors import Mirrored, contents, mirror, plant

SOURCE = {"a.txt": b"a", "sub/b.txt": b"b", "sub/deep/c.txt": b"c"}


async def again(source: str, into: Path, prepare: Callable[[], object], **wanted: Any) -> list[SurplusFile]:
    """Mirror, call `prepare`, mirror again, and return the surplus of the second run."""
    await mirror(source, into=into, **wanted)
    prepare()
    return (await _surplus(source, into, **wanted))[1]


async def _surplus(
    source: str, into: Path, *, cafile: str | None = None, **wanted: Any
) -> tuple[Mirrored, list[SurplusFile]]:
    session = Resolver(patience=RetryPolicy(tries=1), cafile=cafile)
    with closing(Inventory()) as inventory:
        found = await mirror(
            source, into=into, exists="newer", session=session, inventory=inventory, **wanted
        )
        words = {name: wanted[name] for name in ("accept", "reject", "pattern") if name in wanted}
        pruner = Pruner(str(into / "top"), inventory, Selection(**words).takes_local)
        return found, list(pruner.list_surplus())


def paths(found: list[SurplusFile]) -> list[str]:
    return [each.path for each in found]


@pytest.fixture(name="source")
def _source(tmp_path: Path) -> Path:
    return plant(tmp_path / "source", SOURCE)


async def test_prune_removes_missing_files_and_directories(source: Path, tmp_path: Path) -> None:
    """Entries of a directory precede it; new and existing files stay."""
    here = tmp_path / "here"

    def change() -> None:
        (source / "a.txt").unlink()
        (source / "sub/deep/c.txt").unlink()
        (source / "sub/deep").rmdir()
        plant(source, {"new/d.txt": b"d"})
        plant(here / "top", {"never/was/e.txt": b"e"})

    found = await again(source.as_uri() + "/", here, change)
    gone = ["a.txt", "never/was/e.txt", "never/was/", "never/", "sub/deep/c.txt", "sub/deep/"]
    assert paths(found) == gone
    assert all(each.listing.certain for each in found)
    with closing(Inventory()) as nothing:
        pruner = Pruner(str(here / "top"), nothing, Selection().takes_local)
        assert [pruner.drop(each) for each in found] == [True] * len(found)
    assert contents(here / "top") == contents(source)


STAY = {
    ".hidden": b"x",
    "f.part": b"x",
    "f.part-state": b"x",
    "f.part-state.new": b"x",
    "F.PART": b"x",
    "a.txt.meta.json": b"{}",
    ".dir/x": b"x",
}


async def test_prune_keeps_hidden_partial_and_special_files(source: Path, tmp_path: Path) -> None:
    top = tmp_path / "here/top"

    def change() -> None:
        plant(top, STAY)
        plant(top, {"gone/.hidden": b"x", "gone/seen": b"x", "gone/seen.meta.json": b"{}"})
        plant(tmp_path / "outside", {"precious": b"x"})
        (top / "link").symlink_to(tmp_path / "outside/precious")
        (top / "folder").symlink_to(tmp_path / "outside")
        (top / "gone/folder").symlink_to(tmp_path / "outside")
        os.mkfifo(top / "pipe")

    found = await again(source.as_uri() + "/", tmp_path / "here", change)
    assert paths(found) == ["gone/seen", "gone/seen.meta.json"]


@pytest.mark.parametrize(
    ("wanted", "gone"),
    [
        ({"accept": ("*.txt",)}, ["old.txt"]),
        ({"reject": ("*.txt",)}, ["old.iso"]),
        ({"pattern": r"\.iso$"}, ["old.iso"]),
        ({"pattern": r"/sub/"}, []),
    ],
)
async def test_prune_keeps_files_excluded_by_patterns(
    wanted: dict[str, Any], gone: list[str], source: Path, tmp_path: Path
) -> None:
    plant(source, {"b.iso": b"x", "sub/c.iso": b"x"})
    old = {"old.txt": b"x", "old.iso": b"x", "b.iso": b"x", "a.txt": b"a"}
    found = await again(
        source.as_uri() + "/", tmp_path / "here", lambda: plant(tmp_path / "here/top", old), **wanted
    )
    assert paths(found) == gone


async def test_prune_keeps_other_spelling_of_same_file(tmp_path: Path) -> None:
    """A second link has the properties of a file on a file system that ignores case and normalization."""
    source = plant(tmp_path / "source", {"README": b"x", "caf\xe9": b"x", "d/B": b"x"})
    here = tmp_path / "here"

    def link() -> None:
        for name, spelling in (("README", "Readme"), ("caf\xe9", "cafe\u0301"), ("d/B", "d/b")):
            os.link(here / "top" / name, here / "top" / spelling)
        plant(here / "top", {"readme": b"x", "readme.meta.json": b"{}", "Readme.meta.json": b"{}"})

    found = await again(source.as_uri() + "/", here, link)
    assert sorted(paths(found)) == ["readme", "readme.meta.json"]


async def test_prune_keeps_files_below_depth(source: Path, tmp_path: Path) -> None:
    await mirror(source.as_uri() + "/", into=tmp_path / "here")
    _, found = await _surplus(source.as_uri() + "/", tmp_path / "here", depth=1)
    assert found == []


async def test_prune_does_not_follow_links(source: Path, tmp_path: Path) -> None:
    """A directory is replaced by a link, before or after it is listed."""
    top, outside = tmp_path / "here/top", plant(tmp_path / "outside", {"old": b"x", "b.txt": b"x"})
    found = await again(source.as_uri() + "/", tmp_path / "here", lambda: plant(top, {"sub/old": b"x"}))
    assert paths(found) == ["sub/old"]
    (top / "sub").rename(tmp_path / "moved")
    (top / "sub").symlink_to(outside)
    with closing(Inventory()) as inventory:
        pruner = Pruner(str(top), inventory, Selection().takes_local)
        with pytest.raises(LocalError, match="cannot remove"):
            pruner.drop(found[0])
    assert sorted(contents(outside)) == ["b.txt", "old"]


def test_surplus_in_directory_of_unknown_device_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> os.stat_result:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "top/sub").mkdir(parents=True)
    (tmp_path / "top/sub/a").touch()
    found = (tmp_path / "top/sub/a").stat()
    surplus = SurplusFile(("sub", "a"), False, found.st_dev, found.st_ino, Proven("ftp://h/top/", True))
    with closing(Inventory()) as inventory, monkeypatch.context() as patch:
        pruner = Pruner(str(tmp_path / "top"), inventory, lambda name, url: True)
        patch.setattr(os, "fstat", fail)
        assert list(pruner.list_surplus()) == []
        with pytest.raises(LocalError, match="cannot remove"):
            pruner.drop(surplus)


async def test_prune_keeps_replaced_files(source: Path, tmp_path: Path) -> None:
    top = tmp_path / "here/top"
    found = await again(
        source.as_uri() + "/", tmp_path / "here", lambda: plant(top, {"old": b"x", "dir/x": b"x"})
    )
    (top / "old").rename(top / "kept")
    (top / "old").write_bytes(b"mine")
    (top / "dir/new").write_bytes(b"mine")
    with closing(Inventory()) as inventory:
        pruner = Pruner(str(top), inventory, Selection().takes_local)
        assert [pruner.drop(each) for each in found] == [True, False, False]
    assert sorted(contents(top / "dir")) == ["new"]


async def test_prune_keeps_open_files(source: Path, tmp_path: Path) -> None:
    top = tmp_path / "here/top"
    with closing(Inventory()) as inventory:
        await mirror(source.as_uri() + "/", into=tmp_path / "here", inventory=inventory)
        plant(top, {"ledger": b"x", "old": b"x"})
        status = os.stat(top / "ledger")
        spared = [(status.st_dev, status.st_ino)]
        pruner = Pruner(str(top), inventory, Selection().takes_local, spared)
        assert paths(list(pruner.list_surplus())) == ["old"]


async def test_prune_keeps_nested_tree(source: Path, tmp_path: Path) -> None:
    """The listings of the outer tree do not contain the inner tree."""
    top = tmp_path / "here/top"
    with closing(Inventory()) as inventory:
        await mirror(source.as_uri() + "/", into=tmp_path / "here", inventory=inventory)
        plant(top, {"inner/x": b"x", "gone/inner/x": b"x", "gone/y": b"x"})
        inventory.record([str(top / "inner"), str(top / "gone/inner")])
        pruner = Pruner(str(top), inventory, Selection().takes_local)
        assert paths(list(pruner.list_surplus())) == ["gone/y"]


# Listings without a proven end.


async def test_prune_after_empty_listing_removes_nothing(source: Path, tmp_path: Path) -> None:
    """An empty listing with 226 is the reply of vsftpd for a directory that it may not read."""

    def change() -> None:
        for each in ("a.txt", "sub/b.txt", "sub/deep/c.txt"):
            (source / each).unlink()
        (source / "sub/deep").rmdir()
        (source / "sub").rmdir()

    assert await again(source.as_uri() + "/", tmp_path / "here", change) == []


CUT = [
    Behavior(final=b"226 Output truncated to 3 matches\r\n"),
    Behavior(final=b"426 It broke off\r\n"),
    Behavior(final=b""),
]


@pytest.mark.parametrize("behavior", CUT)
async def test_prune_after_truncated_listing_removes_nothing(
    behavior: Behavior, nursery: trio.Nursery, tmp_path: Path
) -> None:
    whole, cut = await serve_ftp(nursery), await serve_ftp(nursery, behavior)
    await mirror(whole.url("pub/"), into=tmp_path)
    plant(tmp_path / "top", {"old": b"x"})
    found, surplus = await _surplus(cut.url("pub/"), tmp_path)
    assert (cut.url("pub/") in found.failed, surplus) == (True, [])
    _, surplus = await _surplus(whole.url("pub/"), tmp_path)
    assert paths(surplus) == ["old"]


INDEX = """<html><head><title>Index of /d/</title></head><body><h1>Index of /d/</h1><pre><a href="../">../</a>
<a href="a.txt">a.txt</a>      01-Jan-2020 00:00  2
</pre></body></html>"""


async def test_prune_of_index_page_is_uncertain(nursery: trio.Nursery, tmp_path: Path) -> None:
    site = {"/d/": Page(INDEX.encode(), "text/html"), "/d/a.txt": Page(b"a\n")}
    server = await serve_http(nursery, site)
    plant(tmp_path / "top", {"old": b"x"})
    _, (surplus,) = await _surplus(server.url("/d/"), tmp_path)
    assert (surplus.path, surplus.listing.certain) == ("old", False)


@pytest.mark.parametrize(("framing", "gone"), [("length", ["old"]), ("chunked", ["old"]), ("close", [])])
async def test_prune_of_index_page_needs_proven_end(
    framing: Framing, gone: list[str], nursery: trio.Nursery, tmp_path: Path
) -> None:
    site = {"/d/": Page(INDEX.encode(), "text/html", framing=framing), "/d/a.txt": Page(b"a\n")}
    server = await serve_http(nursery, site)
    plant(tmp_path / "top", {"old": b"x"})
    found, surplus = await _surplus(server.url("/d/"), tmp_path)
    assert (paths(surplus), "http:listing-unproven" in found.rules) == (gone, not gone)


@pytest.mark.parametrize(("start", "gone"), [("/d", ["old"]), ("/", [])])
async def test_prune_after_redirect_to_other_directory_removes_nothing(
    start: str, gone: list[str], nursery: trio.Nursery, tmp_path: Path
) -> None:
    """The names of `/` are not in the listing of `/d/`; a redirect may add a slash to the same directory."""
    site = {"/d/": Page(INDEX.encode(), "text/html"), "/d/a.txt": Page(b"a\n")}
    server = await serve_http(nursery, {**site, "/": moved("/d/"), "/d": moved("/d/")})
    plant(tmp_path / "top", {"old": b"x"})
    found, surplus = await _surplus(server.url(start), tmp_path)
    assert (paths(surplus), "http:listing-unproven" in found.rules) == (gone, not gone)


BURROW = {
    b"/d": Item("1", b"d", members=(b"/d/a", b"/d/b")),
    **{name: Item("0", name[3:], b"x\n") for name in (b"/d/a", b"/d/b")},
}
NO_PERIOD = replace(GOPHERNICUS, menu_end=False)


@pytest.mark.parametrize(
    ("flavor", "tls", "gone"),
    [
        (GOPHERNICUS, False, ["old"]),
        (UMN23, False, ["old"]),
        (NO_PERIOD, False, []),
        (PYGOPHERD, False, []),
        (NO_PERIOD, True, ["old"]),
        (replace(NO_PERIOD, close_notify=False), True, []),
    ],
)
async def test_prune_of_gopher_menu_needs_proven_end(
    flavor: Flavor, tls: bool, gone: list[str], nursery: trio.Nursery, tmp_path: Path
) -> None:
    context, cafile = server_tls(tmp_path)
    server = await serve_gopher(nursery, BURROW, flavor, ssl_context=context if tls else None)
    plant(tmp_path / "here/top", {"old": b"x"})
    found, surplus = await _surplus(server.url("1/d"), tmp_path / "here", cafile=str(cafile))
    said = f"{server.scheme}:listing-unproven" in found.rules
    assert (found.failed, paths(surplus), said) == ({}, gone, not gone)


async def test_prune_keeps_file_whose_menu_line_has_no_url(nursery: trio.Nursery, tmp_path: Path) -> None:
    """The file may still exist; a finding names the skipped entry."""
    menu = Item("1", b"d", members=(b"/d/a", b"0b\t/d/b\t{host}"))
    server = await serve_gopher(nursery, {**BURROW, b"/d": menu})
    plant(tmp_path / "top", {"b": b"x"})
    found, surplus = await _surplus(server.url("1/d"), tmp_path)
    assert (found.fetched, surplus) == ([server.url("0/d/a%09%09+")], [])
    assert "gopher:no-url" in found.rules


TRUNCATED = (Finding("ftp:listing-cut", "warn", "the server truncated the listing"),)
FOREIGN = (Finding("ftp:foreign-name", "warn", "skipped, not a name in this directory: './b'"),)


@pytest.mark.parametrize(
    ("proofs", "findings", "entries", "skipped"),
    [
        ((), (), 1, False),
        (("length",), TRUNCATED, 1, False),
        (("length",), FOREIGN, 1, False),
        (("length",), (), 0, False),
        (("length",), (), 1, True),
    ],
)
def test_proven_of_unproven_listing_is_none(
    proofs: tuple[str, ...], findings: tuple[Finding, ...], entries: int, skipped: bool
) -> None:
    found = Proven.of("http://h/d/", proofs, findings, entries=entries, skipped=skipped, certain=True)
    assert found is None
    assert Proven.of("http://h/d/", ("length",), (), entries=1, skipped=False, certain=True) is not None


async def test_tree_is_not_saved_into_itself(tmp_path: Path) -> None:
    plant(tmp_path / "top", {"q?x": b"a", "d/b": b"b"})
    before = contents(tmp_path)
    url = f"{(tmp_path / 'top').as_uri()}/"
    found, surplus = await _surplus(url, tmp_path)
    assert isinstance(found.failed[url], LocalError)
    assert not surplus
    assert contents(tmp_path) == before
