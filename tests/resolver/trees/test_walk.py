"""Tree walks: the files and directories they yield, loops, links, and hostile names."""

from __future__ import annotations

import itertools
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

import resolver
from fixtures.ftp import Behavior
from fixtures.ftp import serve as serve_ftp
from fixtures.ftp.tree import File, Folder, Node
from fixtures.http import Page, moved
from fixtures.http import serve as serve_http
from resolver import Entry, parse
from resolver.network.task import Requeue
from resolver.trees.scope import DirectoryDigest
from resolver.trees.walk import TreeDirectory, TreeWalk, WalkRequest
from resolver.trees.walk import TreeFile as Item
from tests.resolver.trees.mirrors import contents, mirror, plant

TREE: dict[str, bytes | None] = {
    "a.txt": b"one\n",
    "b": None,
    "b/c.bin": bytes(range(256)),
    "b/d": None,
    "b/d/e.txt": b"",
    "empty": None,
    "na\xefve ~%41#?.txt": b"named so\n",
}


async def test_walk_of_local_directory_is_complete(tmp_path: Path) -> None:
    source = plant(tmp_path / "source", TREE)
    found = await mirror(f"file://{source}", into=tmp_path / "out")
    assert contents(tmp_path / "out" / "top") == {
        name.replace("?", "_"): octets for name, octets in TREE.items()
    }
    assert not found.failed
    assert len(found.listed) == 4


async def test_walk_repeated_fetches_nothing(tmp_path: Path, nursery: trio.Nursery) -> None:
    server = await serve_ftp(nursery)
    first = await mirror(server.url("pub/names/"), into=tmp_path)
    assert len(first.fetched) > 10
    assert not first.failed
    assert (tmp_path / "top" / "x%2Fy.txt").read_bytes() == b"content of x%2Fy.txt\n"
    again = [await mirror(server.url("pub/names/"), into=tmp_path, exists=how) for how in ("skip", "newer")]
    assert [each.fetched for each in again] == [[], []]
    assert not server.violations
    assert sum(command.startswith(b"RETR") for command in server.commands) == len(first.fetched)


async def test_walk_wrong_sizes_in_listing_are_checked_again(tmp_path: Path, nursery: trio.Nursery) -> None:
    """MLSD need not be exact (RFC 3659 7.5.7), and files change: SIZE and MDTM are requested then."""
    files = {b"empty": b"", b"long": b"12345", b"right": b"12", b"short": b"123"}
    told = {b"empty": 4, b"long": 4, b"short": 4}
    server = await serve_ftp(nursery, Behavior(has_features=True, sizes=told))
    server.root = Folder({b"d": Folder({name: File(octets) for name, octets in files.items()})})
    found = await mirror(server.url("d/"), into=tmp_path)
    assert not found.failed
    assert contents(tmp_path / "top") == {name.decode(): octets for name, octets in files.items()}
    asked = [command for command in server.commands if command[:4] in (b"SIZE", b"MDTM")]
    assert sorted(asked) == [b"MDTM empty", b"MDTM short", b"SIZE empty", b"SIZE short"]


async def test_walk_continues_after_failure(tmp_path: Path, nursery: trio.Nursery) -> None:
    server = await serve_ftp(nursery)
    found = await mirror(server.url("pub"), into=tmp_path)
    assert list(found.failed) == [server.url("pub/unreadable.txt")]
    assert (tmp_path / "top" / "names" / "README").is_file()
    assert (tmp_path / "top" / "empty").is_dir()


async def test_walk_depth_counts_directories(tmp_path: Path) -> None:
    source = plant(tmp_path / "source", TREE)
    for depth, deepest in ((1, "a.txt"), (2, "b/c.bin"), (3, "b/d/e.txt")):
        into = tmp_path / str(depth)
        await mirror(f"file://{source}/", into=into, depth=depth)
        files = [name for name, octets in contents(into / "top").items() if octets is not None]
        assert max(sorted(files), key=lambda name: name.count("/")) == deepest


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"accept": ("*.txt",)}, {"a.txt", "b/d/e.txt", "na\xefve ~%41#_.txt"}),
        ({"accept": ("*.txt", "c*"), "reject": ("a.*", "na*")}, {"b/c.bin", "b/d/e.txt"}),
        ({"pattern": r"/b/[^/]*$"}, {"b/c.bin"}),
    ],
)
async def test_walk_patterns_select_files_and_enter_directories(
    wanted: dict[str, Any], names: set[str], tmp_path: Path
) -> None:
    source = plant(tmp_path / "source", TREE)
    await mirror(f"file://{source}/", into=tmp_path / "out", **wanted)
    found = contents(tmp_path / "out" / "top")
    assert {name for name, octets in found.items() if octets is not None} == names


async def test_walk_of_file_saves_it(tmp_path: Path, nursery: trio.Nursery) -> None:
    server = await serve_ftp(nursery)
    found = await mirror(server.url("pub/a.txt"), into=tmp_path)
    assert found.fetched == [server.url("pub/a.txt")]
    assert os.listdir(tmp_path) == ["top"]


def index(*links: str) -> Page:
    """Return an index page as nginx writes it, for any directory."""
    rows = "".join(f'<a href="{link}">{link}</a>  09-Sep-2001 01:46  7\n' for link in links)
    body = f'<title>Index of /</title><h1>Index of /</h1><hr><pre><a href="../">../</a>\n{rows}</pre><hr>'
    return Page(body.encode(), "text/html")


async def test_walk_enters_index_pages_and_saves_documents(tmp_path: Path, nursery: trio.Nursery) -> None:
    """A document as the response for a directory is saved as `index` in it.

    A redirect that adds a slash leads to a directory.
    """
    pages = {
        "/t/": index("a.txt", "sub/", "book/", "link"),
        "/t/a.txt": Page(b"a"),
        "/t/sub/": index("b.txt"),
        "/t/sub/b.txt": Page(b"b"),
        "/t/book/": Page(b"<title>A book</title>", "text/html"),
        "/t/link": moved("/t/link/", 301),
        "/t/link/": index("c.txt"),
        "/t/link/c.txt": Page(b"c"),
    }
    server = await serve_http(nursery, pages)
    found = await mirror(server.url("/t/"), into=tmp_path)
    assert not found.failed
    assert contents(tmp_path / "top") == {
        "a.txt": b"a",
        "sub": None,
        "sub/b.txt": b"b",
        "book": None,
        "book/index.html": b"<title>A book</title>",
        "link": None,
        "link/c.txt": b"c",
    }
    saved = contents(tmp_path / "top")
    for exists in ("skip", "newer", "replace", "resume"):  # the local path of /t/link is a directory now
        server.requests.clear()
        again = await mirror(server.url("/t/"), into=tmp_path, exists=exists)
        assert not again.failed
        assert {each.requested_url for each in again.saved} == {each.requested_url for each in found.saved}
        assert "/t/link" not in [each.target for each in server.requests]
        assert contents(tmp_path / "top") == saved


async def test_walk_stays_below_start(tmp_path: Path, nursery: trio.Nursery) -> None:
    """The URL is neither linked nor reached by a redirect."""
    elsewhere = await serve_http(nursery, {"/t/x": Page(b"x"), "/t/": index("x")})
    pages = {
        "/t/": index("up", "out", "away/", "fine", "../other", elsewhere.url("/t/x"), "fine2", "fine3"),
        "/t/up": moved("../other"),
        "/t/out": moved(elsewhere.url("/t/x")),
        "/t/away/": moved(elsewhere.url("/t/")),
        "/t/fine": moved("/t/moved"),
        "/t/moved": Page(b"moved"),
        "/t/fine2": Page(b"2"),
        "/t/fine3": Page(b"3"),
        "/other": Page(b"other"),
    }
    server = await serve_http(nursery, pages)
    policy = resolver.Policy(allow_port={server.port, elsewhere.port})
    found = await mirror(server.url("/t/"), into=tmp_path, session=resolver.Resolver(policy=policy))
    assert contents(tmp_path / "top") == {"fine": b"moved", "fine2": b"2", "fine3": b"3"}
    assert {url.rpartition("/t/")[2]: error.exit_code for url, error in found.failed.items()} == {
        "up": 15,
        "out": 15,
        "away/": 15,
    }
    assert elsewhere.requests == []
    assert "/other" not in [each.target for each in server.requests]


def limit_memory(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store more than `few` names and entries of a directory in the database."""
    monkeypatch.setattr("resolver.trees.listing.MAX_IN_MEMORY", few)
    monkeypatch.setattr("resolver.trees.spool.MAX_IN_MEMORY", few)


@pytest.mark.parametrize("few", [1, 1_000])
async def test_walk_detects_loop_of_pages(
    few: int, tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTP has no symbolic links to detect: the third identical page on one path is a loop."""
    limit_memory(few, monkeypatch)
    pages = {"/": index("a.txt", "other/", "self/"), "/other/": index("b.txt"), "/other/b.txt": Page(b"b")}
    pages |= {f"/{'self/' * depth}": index("a.txt", "self/") for depth in range(1, 9)}
    pages |= {f"/{'self/' * depth}a.txt": Page(b"a") for depth in range(9)}
    server = await serve_http(nursery, pages)
    found = await mirror(server.url("/"), into=tmp_path)
    assert found.rules == {"http:index-loop"}
    assert len(found.fetched) == 4


@pytest.mark.parametrize("replies", [{}, {b"MLSD": b"500 what?\r\n", b"LIST": b"500 what?\r\n"}])
async def test_walk_detects_loop_behind_virtual_paths(
    replies: dict[bytes, bytes], tmp_path: Path, nursery: trio.Nursery
) -> None:
    """Links are listed as directories, and PWD repeats their names: pyftpdlib 1.5.7 without `unique`."""
    server = await serve_ftp(nursery, Behavior(replies=replies))
    items: dict[bytes, Node] = {b"f": File(b"hi\n")}
    server.root.items[b"a"] = Folder(items)
    items |= {b"s1": server.root.items[b"a"], b"s2": server.root.items[b"a"]}
    found = await mirror(server.url("a"), into=tmp_path)
    assert ("ftp:index-loop" in found.rules, len(found.fetched)) == (True, 3)


async def test_walk_enters_equal_directories_of_a_unix_listing(tmp_path: Path, nursery: trio.Nursery) -> None:
    """LIST of vsftpd 3.0.3 marks links, so that a directory `a` in `a` in `a` is not a loop."""
    server = await serve_ftp(nursery, Behavior(has_features=False))
    folder = Folder({b"f": File(b"hi\n")})
    for _ in range(5):
        folder = Folder({b"a": folder})
    server.root.items[b"top"] = folder
    found = await mirror(server.url("top"), into=tmp_path)
    assert ("ftp:index-loop" in found.rules, len(found.fetched)) == (False, 1)


async def test_walk_detects_loop_of_links(tmp_path: Path) -> None:
    """The file system identifies a directory under each of its names."""
    source = plant(tmp_path / "source", TREE)
    (source / "b" / "up").symlink_to("..")
    (source / "b" / "self").symlink_to(".")
    (source / "b" / "beside").symlink_to("../empty")
    found = await mirror(f"file://{source}/", into=tmp_path / "out")
    names = contents(tmp_path / "out" / "top")
    assert {name for name in names if name.endswith(".txt")} == {
        "a.txt",
        "b/d/e.txt",
        "na\xefve ~%41#_.txt",
    }
    assert not found.failed


async def test_walk_refuses_link_in_target(tmp_path: Path) -> None:
    """A link in the target directory does not lead out of it."""
    source = plant(tmp_path / "source", TREE)
    aside = tmp_path / "aside"
    aside.mkdir()
    (tmp_path / "out" / "top").mkdir(parents=True)
    (tmp_path / "out" / "top" / "b").symlink_to(aside)
    for how in ("fail", "skip", "newer", "replace"):
        found = await mirror(f"file://{source}/", into=tmp_path / "out", exists=how)
        assert not os.listdir(aside)
        assert "symbolic link" in found.failed[f"file://{source}/b/"].message


async def test_walk_makes_hostile_names_safe(tmp_path: Path, nursery: trio.Nursery) -> None:
    server = await serve_ftp(nursery, Behavior(has_features=True))
    names = [b"CON", b"File", b"file", b"FILE", b"trail", b"trail ", b"trail.", b"..\\..\\evil", b".part"]
    server.root.items[b"hostile"] = Folder(
        {**{name: File(name) for name in names}, b"x": Folder({b"y": File(b"y")}), b"X": File(b"X")}
    )
    found = await mirror(server.url("hostile"), into=tmp_path)
    assert not found.failed
    assert contents(tmp_path) == {
        "top": None,
        "top/x": None,
        "top/x/y": b"y",
        "top/X.2": b"X",
        "top/evil": b"..\\..\\evil",
        "top/_CON": b"CON",
        "top/FILE": b"FILE",
        "top/File.2": b"File",
        "top/file.3": b"file",
        "top/trail": b"trail",
        "top/trail_": b"trail ",
        "top/trail_.2": b"trail.",
        "top/_part": b".part",
    }


async def test_walk_skips_names_with_path(tmp_path: Path, nursery: trio.Nursery) -> None:
    server = await serve_ftp(nursery, Behavior(has_features=True))
    names = [b"..", b"a/b", b"/etc/motd", b"../../out", b"fine"]
    server.root.items[b"hostile"] = Folder({name: File(name) for name in names})
    found = await mirror(server.url("hostile/"), into=tmp_path / "in")
    assert contents(tmp_path) == {"in": None, "in/top": None, "in/top/fine": b"fine"}
    assert found.rules >= {"ftp:foreign-name"}


async def test_walk_reports_entries_removed_after_listing(tmp_path: Path, nursery: trio.Nursery) -> None:
    """The listed entries are a removed file, a file that became a directory, and a removed directory."""
    pages = {
        "/t/": index("gone", "now", "lost/", "stays"),
        "/t/now": moved("/t/now/", 301),
        "/t/now/": index("inside"),
        "/t/now/inside": Page(b"inside"),
        "/t/stays": Page(b"stays"),
    }
    server = await serve_http(nursery, pages)
    found = await mirror(server.url("/t/"), into=tmp_path)
    files = {name: octets for name, octets in contents(tmp_path / "top").items() if octets is not None}
    assert files == {"now/inside": b"inside", "stays": b"stays"}
    assert {url.rpartition("/t/")[2]: error.exit_code for url, error in found.failed.items()} == {
        "gone": 8,
        "lost/": 8,
    }


async def test_walk_requeued_file_is_fetched_again(tmp_path: Path) -> None:
    """The walk is not finished, and continues with the other entries."""
    source = plant(tmp_path / "source", {"a": b"a"})
    turns = [Requeue, None]

    async def save() -> str:
        if (turn := turns.pop(0)) is not None:
            raise turn
        return "saved"

    async with resolver.Resolver() as session:
        with closing(TreeWalk(session)) as walk:
            top = str(tmp_path / "top")
            walk.add_tree(WalkRequest(url=parse(f"file://{source}"), below=str(tmp_path), path=top))
            walk.close_input()
            directory = await anext(walk)
            assert isinstance(directory, TreeDirectory)
            await directory.run()
            file = await anext(walk)
            assert isinstance(file, Item)
            with pytest.raises(Requeue):
                await file.fetch(save)
            assert await file.fetch(save) == "saved"
            with pytest.raises(StopAsyncIteration):
                await anext(walk)


@pytest.mark.parametrize("few", [10, 1_000])
async def test_walk_of_large_directory_numbers_equal_names(
    few: int, tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than `few` names and entries are stored in the database; each equal hostile name gets a number."""
    limit_memory(few, monkeypatch)
    server = await serve_ftp(nursery, Behavior(has_features=True))
    names = [bytes(name) for name in itertools.product(b"aA", repeat=8)]
    server.root.items[b"many"] = Folder({name: File(name) for name in names})
    found = await mirror(server.url("many/"), into=tmp_path, accept=("a[aA]*",))
    assert len(found.fetched) == 128
    assert {name.casefold() for name in contents(tmp_path / "top")} == {
        "aaaaaaaa",
        *(f"aaaaaaaa.{number}" for number in range(2, 129)),
    }


# The digest that identifies equal listings.


def _likeness(*names: str) -> str:
    likeness = DirectoryDigest()
    for name in names:
        likeness.add(name.encode(), Entry(name=name))
    return likeness.text


def test_likeness_other_names_of_equal_count_differs() -> None:
    assert _likeness("a", "b") != _likeness("a", "c")


def test_likeness_other_order_is_equal() -> None:
    assert _likeness("a", "b") == _likeness("b", "a")
