"""fsspec's own tests of file systems, over ftp against vsftpd; then further tests against vsftpd.

fsspec's tests write the files that they read. `FtpFileSystem` is read-only, so `Furnished` writes into the
directory that the server serves, and reads as `FtpFileSystem` does. fsspec's tests of `open` and `pipe` are
not used, because they only test writes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar
from urllib.parse import unquote_to_bytes

import fsspec
import fsspec.tests.abstract as abstract
import pytest

import resolver
from resolver.adapters.fsspec import FtpFileSystem
from tests.servers.ftp_servers import FtpServer
from tests.servers.ftp_tree import BIG, LINES, MODIFIED, NAMES
from tests.servers.http_servers import HttpServer
from tests.servers.namespace import PASSWORD, USER


class Furnished(FtpFileSystem):
    """An `FtpFileSystem` whose writes go to the `folder` that the server serves."""

    folder: ClassVar[Path]

    def _local(self, path: str) -> Path:
        return self.folder / self._resolve_name(path).partition("/")[2]

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._local(path).mkdir(parents=True, exist_ok=exist_ok)
        self.dircache.clear()

    async def _mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        await self._makedirs(path, exist_ok=True)

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        self._local(path).parent.mkdir(parents=True, exist_ok=True)
        self._local(path).write_bytes(value)
        self.dircache.clear()

    async def _put_file(self, lpath: Any, rpath: str, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        await self._pipe_file(rpath, await asyncio.to_thread(Path(lpath).read_bytes))

    async def _cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:  # type: ignore[override]
        if await self._isdir(path1):
            await self._mkdir(path2)
        else:
            await self._pipe_file(path2, await self._cat_file(path1))

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        self.pipe_file(path, b"")

    async def _rm(self, path: Any, recursive: bool = False, **kwargs: Any) -> None:
        for each in path if isinstance(path, list) else [path]:
            local = self._local(each)
            shutil.rmtree(local) if local.is_dir() else local.unlink()
        self.dircache.clear()


@pytest.fixture(scope="module")
def furnished(vsftpd: FtpServer, ftp_tree: Path) -> Iterator[Furnished]:
    """Yield one file system for all of fsspec's tests: its connection serves many of them."""
    Furnished.folder = ftp_tree
    fs = Furnished(policy=policy_for(vsftpd), skip_instance_cache=True)
    mask = os.umask(0o022)
    yield fs
    os.umask(mask)
    fs.close()


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, furnished: Furnished) -> Furnished:
        return furnished

    @pytest.fixture
    def fs_path(self, vsftpd: FtpServer, ftp_tree: Path) -> Iterator[str]:
        # a new name, because the working directory of a pooled connection may be a removed directory
        folder = Path(mkdtemp(prefix="fsspec", dir=ftp_tree))
        folder.chmod(0o755)
        yield f"{host_and_port_of(vsftpd)}/{folder.name}"
        shutil.rmtree(folder)

    @pytest.fixture
    def fs_join(self) -> Callable[..., str]:
        return lambda *names: "/".join(names)


class TestGet(Fixtures, abstract.AbstractGetTests):
    """The tests of fsspec for `get`."""


class TestCopy(Fixtures, abstract.AbstractCopyTests):
    """The tests of fsspec for `copy`: the names and kinds of the source and the target are read."""


class TestPut(Fixtures, abstract.AbstractPutTests):
    """The tests of fsspec for `put`: the names and kinds of the target are read."""


@pytest.fixture
def fs(vsftpd: FtpServer) -> Iterator[FtpFileSystem]:
    fs = FtpFileSystem(policy=policy_for(vsftpd), skip_instance_cache=True)
    yield fs
    fs.close()


def policy_for(server: FtpServer) -> resolver.Policy:
    return resolver.Policy(allow_port={server.ports["plain"]}, allow_password=True)


def host_and_port_of(server: FtpServer) -> str:
    return f"127.0.0.1:{server.ports['plain']}"


def test_ls_reports_kinds_sizes_and_dates(fs: FtpFileSystem, vsftpd: FtpServer, ftp_tree: Path) -> None:
    """LIST reports kinds, sizes and dates; the targets of links are queried."""
    place = f"{host_and_port_of(vsftpd)}/pub"
    records = {record["name"].removeprefix(f"{place}/"): record for record in fs.ls(place)}
    assert set(records) >= {"a.txt", "names", "link.txt", "dirlink", "broken", "emptydir"}
    assert (records["a.txt"]["type"], records["a.txt"]["size"]) == ("file", len(LINES))
    assert fs.modified(f"{place}/a.txt").timestamp() == MODIFIED
    assert (records["link.txt"]["type"], records["link.txt"]["size"]) == ("file", len(LINES))
    assert (records["dirlink"]["type"], records["dirlink"]["islink"]) == ("directory", True)
    assert records["broken"]["type"] == "other"
    assert fs.ls(f"{place}/emptydir") == []
    assert fs.ls(f"{place}/a.txt") == [fs.info(f"{place}/a.txt")]


def test_glob_finds_every_name(fs: FtpFileSystem, vsftpd: FtpServer) -> None:
    """Names with any bytes are found. The server does not list names with a leading dot."""
    names = fs.glob(f"{host_and_port_of(vsftpd)}/pub/names/*")
    found = {unquote_to_bytes(name.rpartition("/")[2]): name for name in names if fs.isfile(name)}
    shown = [name for name in NAMES if not name.startswith(b".")]
    for name in shown:
        assert fs.cat_file(found[name]) == b"content of " + name + b"\n"


def test_open_large_file_reads_any_offset(fs: FtpFileSystem, vsftpd: FtpServer) -> None:
    with fs.open(f"{host_and_port_of(vsftpd)}/pub/big.bin", block_size=100_000) as file:
        for start in (5_000_000, 16, 7_999_999, 0):
            file.seek(start)
            assert file.read(1_000) == BIG[start : start + 1_000]
        file.seek(-10, os.SEEK_END)
        assert file.read() == BIG[-10:]
    ranges = [(0, 10), (8_388_600, 8_388_700), (100, 90), (-16, None), (3_000_000, 3_000_010)]
    starts, ends = zip(*ranges, strict=True)
    found = fs.cat_ranges([f"{host_and_port_of(vsftpd)}/pub/big.bin"] * len(ranges), list(starts), list(ends))
    assert found == [BIG[start:end] for start, end in ranges]


def test_login_from_url_or_options_hides_password(vsftpd: FtpServer) -> None:
    """The login is in the URL, or in the storage options of fsspec's own ftp file system."""
    port = vsftpd.ports["plain"]
    policy = policy_for(vsftpd)
    url = f"resolve+ftp://{USER}:{PASSWORD}@127.0.0.1:{port}/private.txt"
    with fsspec.open(url, policy=policy) as file:
        assert file.read() == b"bob's private file\n"
        assert PASSWORD not in repr(file) + str(file) + file.path
    options = {"host": "127.0.0.1", "port": port, "username": USER, "password": PASSWORD}
    fs = fsspec.filesystem("resolve+ftp", policy=policy, **options)
    assert fs.cat("/private.txt") == b"bob's private file\n"
    assert f"{USER}@127.0.0.1:{port}/private.txt" in fs.ls("/", detail=False)
    with pytest.raises(TypeError, match=r"password .*host"):
        fsspec.filesystem("resolve+ftp", username=USER, password=PASSWORD)
    wrong = f"resolve+ftp://{USER}:wrong@127.0.0.1:{port}/private.txt"
    with pytest.raises(PermissionError) as caught, fsspec.open(wrong, policy=policy) as file:
        file.read()
    assert isinstance(caught.value.__cause__, resolver.ResolveError)
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["ftp", "http"])
def test_pyarrow_reads_hive_partitions(
    scheme: str, vsftpd: FtpServer, ftp_tree: Path, nginx: HttpServer, http_tree: Path
) -> None:
    """The names of the partitions are in FTP listings, and in index pages of nginx."""
    import pyarrow
    import pyarrow.dataset
    import pyarrow.parquet

    tree, port, path = {
        "ftp": (ftp_tree, vsftpd.ports["plain"], "table"),
        "http": (http_tree, nginx.port, "rounded/table"),
    }[scheme]
    table = pyarrow.table({"year": [2025, 2025, 2026], "site": ["a", "b", "a"], "n": [1, 2, 3]})
    pyarrow.parquet.write_to_dataset(table, tree / "table", partition_cols=["year", "site"])
    for each in (tree / "table").rglob("*"):
        each.chmod(0o755)
    fs = fsspec.filesystem(f"resolve+{scheme}", policy=resolver.Policy(allow_port={port}))
    name = f"127.0.0.1:{port}/{path}"
    try:
        assert fs.ls(f"{name}/year%3D2026", detail=False) == [f"{name}/year=2026/site=a"]
        dataset = pyarrow.dataset.dataset(name, filesystem=fs, partitioning="hive")
        read = dataset.to_table(filter=pyarrow.dataset.field("year") == 2025).sort_by("n")
        assert read.to_pydict() == {"n": [1, 2], "year": [2025, 2025], "site": ["a", "b"]}
    finally:
        fs.close()
        shutil.rmtree(tree / "table")  # other tests list the directory
