"""Trees of real servers: the copy equals the served tree, byte for byte, and each file is fetched once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import resolver
from resolver.transfer.saving import Exists
from tests.resolver.trees.mirrors import contents, mirror
from tests.servers.ftp_servers import FtpServer
from tests.servers.gopher_servers import GopherServer
from tests.servers.http_servers import HttpServer

#: The modification time of every file, to the second.
MODIFIED = 1_000_000_000

#: Names that a server, a URL or a shell might misinterpret.
ODD = (
    "a b",
    "na\xefve",
    "semi;colon",
    "per%cent",
    "x%2Fy",
    "hash#tag",
    "plus+plus",
    "-la",
    "~tilde",
    "&amp;",
)

FOREST: dict[str, bytes] = {
    f"{top}/{below}{number:03d}.bin": f"{top} {below} {number}\n".encode() * number
    # `odd names` has more entries than the flavor `few` lists
    for top, many in (("oak", 3), ("elm", 3), ("odd names", 12))
    for below in ("", "deep/", "deep/er/")
    for number in range(many if below == "" else 3)
} | {f"odd names/{name}": name.encode() for name in ODD}

#: Links, each to a target that the tree contains under its own name.
LINKS = {"oak/up": "..", "oak/here": ".", "elm/oak": "../oak", "elm/deep/down": "er", "a link": "elm"}


@contextmanager
def planted(folder: Path) -> Iterator[Path]:
    """Write the forest into a served folder."""
    top = folder / "forest"
    for name, octets in FOREST.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(octets)
        path.chmod(0o644)  # Gophernicus lists only world-readable files
        os.utime(path, (MODIFIED, MODIFIED))
    for name, target in LINKS.items():
        (top / name).symlink_to(target)
    for where in (top, *filter(Path.is_dir, top.rglob("*"))):
        where.chmod(0o755)
    try:
        yield top
    finally:
        shutil.rmtree(top)


async def check_mirror(url: str, port: int, into: Path, exists: Exists, *, tops: str = "oak elm odd") -> None:
    """Mirror the tree, check that it is complete, and that a second run fetches no file."""
    session = resolver.Resolver(policy=resolver.Policy(allow_port={port}))
    found = await mirror(url, into=into, session=session)
    assert {name: error.message for name, error in found.failed.items()} == {}
    files = {name: octets for name, octets in contents(into / "top").items() if octets is not None}
    expected = {name.replace("/-", "/_"): octets for name, octets in FOREST.items()}  # S14
    for each in tops.split():
        assert files_below(files, each) == files_below(expected, each)
    assert len(files) == len(expected)
    session = resolver.Resolver(policy=resolver.Policy(allow_port={port}))
    again = await mirror(url, into=into, session=session, exists=exists)
    assert (again.fetched, again.failed) == ([], {})


def files_below(files: dict[str, bytes], top: str) -> dict[str, bytes]:
    return {name: octets for name, octets in files.items() if name.startswith(top)}


@pytest.mark.parametrize("name", ["vsftpd", "proftpd", "pure_ftpd"])
async def test_mirror_of_ftp_tree(
    name: str, ftp_tree: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The client recognizes links to visited directories by the server's reply to PWD."""
    server: FtpServer = request.getfixturevalue(name)
    port = server.ports["plain"]
    with planted(ftp_tree / "pub"):
        await check_mirror(f"ftp://127.0.0.1:{port}/pub/forest", port, tmp_path, "newer")


async def test_mirror_fails_directory_truncated_by_pure_ftpd(
    pure_ftpd: FtpServer, ftp_tree: Path, tmp_path: Path
) -> None:
    """The truncated directory is a failure, but its listed files are fetched.

    The other directories succeed.
    """
    port = pure_ftpd.ports["few"]
    session = resolver.Resolver(policy=resolver.Policy(allow_port={port}))
    with planted(ftp_tree / "pub"):
        found = await mirror(f"ftp://127.0.0.1:{port}/pub/forest/", into=tmp_path, session=session)
    assert {type(error).__name__ for error in found.failed.values()} == {"LimitExceeded"}
    assert [url.rpartition("/")[2] for url in found.failed] == ["odd%20names"]
    assert len(found.fetched) > 20


async def test_mirror_of_index_pages_detects_loop(nginx: HttpServer, http_tree: Path, tmp_path: Path) -> None:
    """Index pages do not show links. The tree is copied again under each link until the loop is detected."""
    with planted(http_tree) as top:
        for name in LINKS:
            (top / name).unlink()
        await check_mirror(nginx.url("/rounded/forest/"), nginx.port, tmp_path, "newer")
        (top / "oak" / "up").symlink_to("..")
        session = resolver.Resolver(policy=resolver.Policy(allow_port={nginx.port}))
        found = await mirror(nginx.url("/rounded/forest/"), into=tmp_path / "loop", session=session)
    assert found.rules == {"http:index-loop"}
    assert len(found.fetched) < 3 * len(FOREST)


async def test_mirror_of_gopher_menus(gophernicus: GopherServer, gopher_tree: Path, tmp_path: Path) -> None:
    """A name comes from the selector; Gophernicus writes unusual bytes there in octal (`#040`)."""
    with planted(gopher_tree) as top:
        for name in LINKS:
            (top / name).unlink()
        await check_mirror(gophernicus.url("1/forest/"), gophernicus.port, tmp_path, "skip", tops="oak elm")


async def test_mirror_of_local_tree(tmp_path: Path) -> None:
    with planted(tmp_path) as top:
        await check_mirror(top.as_uri(), 1, tmp_path / "out", "newer")
