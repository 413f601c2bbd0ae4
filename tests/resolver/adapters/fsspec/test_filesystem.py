"""The fsspec file systems, used by fsspec, pandas, dask, tarfile and zipfile."""

from __future__ import annotations

import asyncio
import errno
import io
import pickle
import socket
import tarfile
import threading
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pytest
import trio

import fixtures.ftp
import fixtures.ftp.listings
import fixtures.gopher
import fixtures.http
import fixtures.nntp
import fixtures.prospero
import fixtures.wais
import resolver
import resolver.adapters.fsspec.filesystem
import resolver.adapters.fsspec.listings
from fixtures.ftp import MockFtp
from fixtures.ftp.tree import File, Folder
from fixtures.gopher.flavor import GOPHERNICUS
from fixtures.gopher.tree import Item
from fixtures.ports import serve_connections
from resolver.adapters.fsspec import (
    FtpFileSystem,
    GopherFileSystem,
    HttpFileSystem,
    NntpFileSystem,
    ProsperoFileSystem,
    UrlFileSystem,
    WaisFileSystem,
)
from tests.elsewhere import served
from tests.fresh import run_alone
from tests.resolver.adapters.fsspec.conftest import TABLE, Make

OURS = ["gopher", "gophers", "nntp", "wais", "prospero", "ftps"]
BESIDE = [
    f"{prefix}{scheme}" for prefix in ("resolve", "resolve+") for scheme in (*OURS, "ftp", "http", "https")
]


def put(server: MockFtp, folder: bytes, files: Mapping[bytes, bytes]) -> str:
    """Add a folder of files to the server and return its name."""
    items: dict[bytes, Any] = {name: File(content) for name, content in files.items()}
    server.root.items[folder] = Folder(items)
    return f"127.0.0.1:{server.port}/{folder.decode()}"


def options_for(server: MockFtp) -> dict[str, object]:
    return {"policy": resolver.Policy(allow_port={server.port})}


@pytest.mark.parametrize("protocol", [*OURS, *BESIDE])
def test_protocol_has_a_url_file_system(protocol: str) -> None:
    kind = fsspec.get_filesystem_class(protocol)
    assert issubclass(kind, UrlFileSystem)
    assert protocol in kind.protocol
    assert kind._strip_protocol(f"{protocol}://host/a b/") == "host/a%20b"


def test_clobber_replaces_other_file_systems() -> None:
    program = """
import fsspec
before = [fsspec.get_filesystem_class(name).__module__ for name in ("ftp", "http", "https")]
from resolver.adapters.fsspec import clobber
assert not any(name.startswith("resolver") for name in before), before
clobber()
print(*[fsspec.get_filesystem_class(name).__name__ for name in ("ftp", "http", "https")])
"""
    assert run_alone(program).split() == ["FtpFileSystem", "HttpFileSystem", "HttpsFileSystem"]


def test_pandas_reads_table_by_gopher() -> None:
    import pandas

    tree = {b"": Item("1", b"Tables", members=(b"9/table.csv",)), b"9/table.csv": Item("9", b"table", TABLE)}
    with served(partial(fixtures.gopher.serve, tree=tree, flavor=GOPHERNICUS)) as server:
        url = f"gopher://127.0.0.1:{server.port}/99/table.csv"
        policy = resolver.Policy(allow_port={server.port})
        found = pandas.read_csv(f"resolve+{url}", storage_options={"policy": policy})
        with fsspec.open(url, policy=policy) as file:
            again = pandas.read_csv(file)
    assert found["square"].tolist() == again["square"].tolist() == [n * n for n in range(1_000)]


def test_pandas_reads_table_by_ftp(ftp: MockFtp) -> None:
    import pandas

    name = put(ftp, b"tables", {b"table.csv": TABLE})
    found = pandas.read_csv(f"resolve+ftp://{name}/table.csv", storage_options=options_for(ftp))
    assert found["square"].sum() == sum(n * n for n in range(1_000))


def test_dask_reads_tables_in_threads(ftp: MockFtp) -> None:
    """Dask reads each table in blocks, so most reads begin in the middle of a file."""
    import dask  # imported lazily: the import takes 1 s
    import dask.dataframe

    name = put(ftp, b"tables", {b"%d.csv" % number: TABLE for number in range(4)} | {b"other": b"no table"})
    with dask.config.set(scheduler="threads", num_workers=3):
        tables = dask.dataframe.read_csv(
            f"resolve+ftp://{name}/*.csv", storage_options=options_for(ftp), blocksize=3_000
        )
        assert tables.npartitions > 8
        assert tables["square"].sum().compute() == 4 * sum(n * n for n in range(1_000))


def test_archives_are_read_by_zipfile_tarfile_and_fsspec(ftp: MockFtp) -> None:
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("table.csv", TABLE)
    with tarfile.open(fileobj=tarred, mode="w:gz") as tar:
        info = tarfile.TarInfo("table.csv")
        info.size = len(TABLE)
        tar.addfile(info, io.BytesIO(TABLE))
    name = put(ftp, b"archives", {b"a.zip": zipped.getvalue(), b"a.tar.gz": tarred.getvalue()})
    options = options_for(ftp)
    with fsspec.open(f"resolve+ftp://{name}/a.zip", **options) as file, zipfile.ZipFile(file) as archive:
        assert archive.read("table.csv") == TABLE
    with fsspec.open(f"resolve+ftp://{name}/a.tar.gz", **options) as file, tarfile.open(fileobj=file) as tar:
        member = tar.extractfile("table.csv")
        assert member is not None
        assert member.read() == TABLE
    with fsspec.open(f"zip://table.csv::resolve+ftp://{name}/a.zip", **{"resolve+ftp": options}) as file:
        assert file.read() == TABLE


def test_progress_events_exist_only_for_callback(
    ftp: MockFtp, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[resolver.Event] = []
    monkeypatch.setattr(resolver.adapters.fsspec.filesystem, "_report_progress", events.append)
    name = put(ftp, b"pub", {b"a.csv": TABLE})
    fs = make(FtpFileSystem, ftp.port)
    assert fs.cat_file(f"{name}/a.csv") == TABLE
    assert events == []
    fs.get_file(f"{name}/a.csv", str(tmp_path / "copy"), callback=fsspec.Callback())
    assert {type(event) for event in events} == {resolver.Progress}


def test_get_file_copies_complete_file_and_reports_progress(ftp: MockFtp, make: Make, tmp_path: Path) -> None:
    name = put(ftp, b"pub", {b"a b.csv": TABLE, b"c.csv": b"", b"d.txt": b"no"})
    fs = make(FtpFileSystem, ftp.port)
    callback = fsspec.Callback()
    fs.get_file(f"{name}/a b.csv", str(tmp_path / "new" / "copy"), callback=callback)
    assert (tmp_path / "new" / "copy").read_bytes() == TABLE
    assert (callback.size, callback.value) == (len(TABLE), len(TABLE))
    fs.get(f"{name}/*.csv", str(tmp_path), callback=callback)
    assert (tmp_path / "a%20b.csv").read_bytes() == TABLE
    assert (tmp_path / "c.csv").read_bytes() == b""
    target = io.BytesIO()
    fs.get_file(f"{name}/a b.csv", target)
    assert target.getvalue() == TABLE
    with pytest.raises(FileNotFoundError):
        fs.get_file(f"{name}/gone", str(tmp_path / "gone"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a%20b.csv", "c.csv", "new"]


WRITES: Mapping[str, Callable[[Any, str], object]] = {
    "open": lambda fs, name: fs.open(name, "wb"),
    "append": lambda fs, name: fs.open(name, "ab"),
    "touch": lambda fs, name: fs.touch(name),
    "mkdir": lambda fs, name: fs.mkdir(name),
    "makedirs": lambda fs, name: fs.makedirs(name),
    "rmdir": lambda fs, name: fs.rmdir(name),
    "rm": lambda fs, name: fs.rm(name),
    "rm_file": lambda fs, name: fs.rm_file(name),
    "mv": lambda fs, name: fs.mv(name, f"{name}2"),
    "copy": lambda fs, name: fs.copy(name, f"{name}2"),
    "pipe": lambda fs, name: fs.pipe(name, b"x"),
    "put": lambda fs, name: fs.put(__file__, name),
    "write_text": lambda fs, name: fs.write_text(name, "x"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
def test_write_operations_raise_read_only_error(
    write: Callable[[Any, str], object], ftp: MockFtp, make: Make
) -> None:
    name = put(ftp, b"pub", {b"file": TABLE})
    with pytest.raises(OSError, match="read-only") as caught:
        write(make(FtpFileSystem, ftp.port), f"{name}/file")
    assert caught.value.errno == errno.EROFS


def test_errors_are_os_errors_with_cause(ftp: MockFtp, make: Make) -> None:
    name = put(ftp, b"pub", {b"file": TABLE})
    fs = make(FtpFileSystem, ftp.port)
    with pytest.raises(FileNotFoundError) as missing:
        fs.open(f"{name}/gone")
    with pytest.raises(PermissionError, match="S04: port") as refused:
        make(FtpFileSystem, policy="untrusted").ls(name)
    with pytest.raises(IsADirectoryError):
        fs.open(name)
    with pytest.raises(FileNotFoundError, match="host"):
        fs.ls("/pub")
    assert isinstance(missing.value.__cause__, resolver.NotFound)
    assert isinstance(refused.value.__cause__, resolver.Refused)
    for error in (missing.value, refused.value):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), copy.errno, str(copy)) == (type(error), error.errno, str(error))
    assert (fs.exists(f"{name}/file"), fs.exists(f"{name}/gone"), fs.isdir(name)) == (True, False, True)


def test_unreachable_server_raises_instead_of_missing_file(make: Make) -> None:
    """If the server is unreachable, the client cannot know that the file is missing."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        fs = make(FtpFileSystem, port)
        for ask in (fs.exists, fs.isfile, fs.isdir, fs.ls, fs.cat_file, fs.find):
            with pytest.raises(OSError, match="refused"):
                ask(f"127.0.0.1:{port}/pub")
        with pytest.raises(OSError, match="refused"):
            fs.glob(f"127.0.0.1:{port}/pub/*")


def test_instances_are_shared_and_pickled(ftp: MockFtp) -> None:
    options = options_for(ftp)
    name = put(ftp, b"pub", {b"file": TABLE})
    fs = fsspec.filesystem("resolve+ftp", **options)
    assert fsspec.filesystem("resolve+ftp", **options) is fs
    assert fsspec.filesystem("resolve+ftp", **options, headers={"A": "b"}) is not fs
    copy = pickle.loads(pickle.dumps(fs))
    assert copy == fs
    with copy.open(f"{name}/file") as file:
        file.seek(10)
        with pickle.loads(pickle.dumps(file)) as other:
            assert other.read() == TABLE[10:]
    fs.close()
    assert fs.cat(f"{name}/file") == TABLE


def test_forked_child_uses_separate_connections(ftp: MockFtp) -> None:
    program = """
import os, sys, warnings, fsspec, resolver
warnings.simplefilter("ignore", ResourceWarning)  # for objects that the child drops without their thread
fs = fsspec.filesystem("resolve+ftp", policy=resolver.Policy(allow_port={int(sys.argv[1])}))
name = f"127.0.0.1:{sys.argv[1]}/pub/file"
first = fs.cat(name)
file = fs.open(name)
if (child := os.fork()) == 0:
    try:
        file.read(1)
    except RuntimeError:
        file.close()
        os._exit(0 if fs.cat(name) == first else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(fs.cat(name)))
"""
    put(ftp, b"pub", {b"file": TABLE})
    assert run_alone(program, ftp.port).split() == ["0", str(len(TABLE))]


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ({"credentials": {("ftp", "h", 21): resolver.Credentials(b"a", b"b")}}, "username"),
        ({"options": resolver.Options(headers=((b"A", b"b"),))}, "headers"),
        ({"on_event": print}, "callback"),
        ({"polcy": "untrusted"}, "polcy"),
        ({"password": "secret"}, "host"),
    ],
)
def test_options_that_cannot_be_compared_are_refused(option: dict[str, Any], word: str) -> None:
    """An option with a hidden secret is refused, because fsspec caches instances by the `repr` of options."""
    with pytest.raises(TypeError, match=word):
        FtpFileSystem(**option)


def test_ukey_and_checksum_change_with_content(ftp: MockFtp, make: Make) -> None:
    name = put(ftp, b"pub", {b"file": TABLE})
    fs = make(FtpFileSystem, ftp.port)
    fs.ls(name)
    before = fs.ukey(f"{name}/file"), fs.checksum(f"{name}/file")
    assert (fs.ukey(f"{name}/file"), fs.checksum(f"{name}/file")) == before
    put(ftp, b"pub", {b"file": TABLE + b"x"})
    assert fs.ukey(f"{name}/file") != before[0]
    assert fs.checksum(f"{name}/file") != before[1]
    assert fs.cat(f"{name}/file") == TABLE + b"x"  # the cached listing is not trusted


def test_large_directory_is_listed_in_one_request(ftp: MockFtp, make: Make) -> None:
    name = put(ftp, b"many", {b"%05d.csv" % number: b"x" for number in range(10_000)})
    fs = make(FtpFileSystem, ftp.port, options=resolver.Options(mlsd=True))
    assert len(fs.glob(f"{name}/*7.csv")) == 1_000
    assert fs.du(name) == 10_000
    assert ftp.commands.count(b"MLSD") == 1
    assert len(ftp.commands) < 30
    few = make(
        FtpFileSystem, ftp.port, limits=resolver.Limits(entries=9_999), options=resolver.Options(mlsd=True)
    )
    with pytest.raises(OSError, match="9999 entries"):
        few.ls(name)


LIE = [
    b"type=%s;size=%d; %s" % fact
    for fact in (
        (b"file", 3, b"../../etc/passwd"),
        (b"file", 3, b".."),
        (b"dir", 3, b"a/b"),
        (b"file", 3, b"twice"),
        (b"file", 4, b"twice"),
        (b"file", 10**30, b"huge"),
        (b"file", -1, b"\x1b[2J"),
        (b"dir", 0, b"%2e%2e"),
        (b"file", 3, b"~root"),
    )
]


def test_listing_with_unsafe_names_is_sanitized(
    ftp: MockFtp, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unsafe name stays inside its directory, and a copy is written inside the target (path traversal)."""
    name = put(ftp, b"lies", {b"twice": b"abc", b"~root": b"abc", b"huge": b"abc"})
    monkeypatch.setattr(fixtures.ftp.listings, "facts", lambda folder, *_: LIE)
    fs = make(FtpFileSystem, ftp.port, options=resolver.Options(mlsd=True))
    names = [each.removeprefix(f"{name}/") for each in fs.ls(name, detail=False)]
    assert names == ["twice", "huge", "%1B%5B2J", "%252e%252e", "%7Eroot"]
    assert {each["name"]: each["size"] for each in fs.ls(name)}[f"{name}/huge"] is None
    with fs.open(f"{name}/twice") as file:
        assert (file.size, file.read()) == (3, b"abc")
    fs.get(f"{name}/%7Eroot", f"{tmp_path}/")
    assert [each.name for each in tmp_path.iterdir()] == ["%7Eroot"]


def test_recursive_directory_is_bounded(ftp: MockFtp, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver.adapters.fsspec.listings, "DEEPEST", 10)
    name = put(ftp, b"loop", {})
    loop = ftp.root.items[b"loop"]
    assert isinstance(loop, Folder)
    loop.items[b"loop"] = loop
    with pytest.raises(OSError, match=r"\b10 nested directories"):
        make(FtpFileSystem, ftp.port, options=resolver.Options(mlsd=True)).find(name)


BURROW = {
    b"": Item("1", b"Top", members=(b"1/pub", b"0/about")),
    b"0/about": Item("0", b"About", b"about\n"),
    b"1/pub": Item("1", b"Pub", members=(b"0/pub/a.txt", b"9/pub/b.csv", b"1/pub/deeper", b"1/pub", b"1/up")),
    b"0/pub/a.txt": Item("0", b"A", b"text\n"),
    b"9/pub/b.csv": Item("9", b"B", TABLE),
    b"1/pub/deeper": Item("1", b"Deeper", members=(b"9/pub/deeper/c.csv", b"1/pub", b"1/up")),
    b"9/pub/deeper/c.csv": Item("9", b"C", TABLE),
    b"1/up": Item("1", b"Up", members=(b"1/pub", b"0/about")),
}


def test_gopher_menus_are_directories(make: Make) -> None:
    """A menu item that leads to the menu itself or to a parent menu is not a subdirectory."""
    with served(partial(fixtures.gopher.serve, tree=BURROW)) as server:
        fs = make(GopherFileSystem, server.port)
        host = f"127.0.0.1:{server.port}"
        files = {name.rpartition("/")[2].partition("%09")[0] for name in fs.find(f"{host}/11/pub")}
        assert files == {"a.txt", "b.csv", "c.csv"}
        assert len(server.requests) <= 4
        (found,) = fs.glob(f"{host}/99/pub/*.csv")
        assert fs.cat(found) == TABLE
        assert len(fs.glob(f"{host}/11/pub/**/*.csv")) == 2
        with pytest.raises(OSError, match="size unknown"):
            fs.du(f"{host}/11/pub")
        assert fs.ukey(found) == fs.ukey(found)


@pytest.mark.parametrize(
    ("kind", "serve", "directory", "document"),
    [
        (NntpFileSystem, fixtures.nntp.serve, "comp.misc", "1234"),
        (WaisFileSystem, fixtures.wais.serve, "demo?ferry", "quay"),
        (ProsperoFileSystem, fixtures.prospero.serve, "/example", "hello.txt"),
        (HttpFileSystem, fixtures.http.serve, "pub/", "big.iso"),
    ],
)
def test_other_schemes_list_and_read(
    kind: type[UrlFileSystem], serve: Callable[..., Any], directory: str, document: str, make: Make
) -> None:
    with served(serve) as server:
        fs = make(kind, server.port)
        name = f"127.0.0.1:{server.port}/{directory}"
        assert fs.isdir(name) or "?" in name
        found = [each for each in fs.ls(name, detail=False) if document in each]
        assert len(found) == 1
        assert fs.isfile(found[0])
        if kind is not HttpFileSystem:
            assert len(fs.cat_file(found[0])) > 10
            assert fs.cat_file(found[0], 2, 5) == fs.cat_file(found[0])[2:5]


def test_info_of_index_entry_without_size_asks_the_server(make: Make) -> None:
    page = fixtures.http.Page
    site = {
        "/pub/": page(b'<title>Index of /pub/</title><ul><li><a href="a.csv">a</a></ul>', "text/html"),
        "/pub/a.csv": page(TABLE),
    }
    with served(partial(fixtures.http.serve, site=site)) as server:
        fs = make(HttpFileSystem, server.port)
        (listed,) = fs.ls(f"127.0.0.1:{server.port}/pub")
        assert (listed["size"], fs.isfile(listed["name"]), len(server.requests)) == (None, True, 1)
        assert fs.info(listed["name"])["size"] == fs.size(listed["name"]) == len(TABLE)


# Reads of several objects: the results equal those of separate calls, and few connections are opened.


def ftp_with_files(server: MockFtp, make: Make, count: int = 12) -> tuple[UrlFileSystem, dict[str, bytes]]:
    contents = {f"f{number}": b"content of %d" % number for number in range(count)}
    folder = put(server, b"many", {name.encode(): octets for name, octets in contents.items()})
    return make(FtpFileSystem, server.port), {f"{folder}/{name}": each for name, each in contents.items()}


def test_cat_of_several_files_asks_each_question_once(ftp: MockFtp, make: Make) -> None:
    fs, contents = ftp_with_files(ftp, make)
    assert fs.cat(list(contents)) == contents
    for command in (b"RETR", b"SIZE", b"MDTM"):
        asked = [line for line in ftp.commands if line.startswith(command)]
        assert len(asked) == len(set(asked)) == len(contents)
    assert len(ftp.sessions) <= 4
    assert ftp.violations == []


def test_cat_of_urls_with_queries_sends_one_request_each(make: Make) -> None:
    with served(partial(fixtures.http.serve, site={"/page": fixtures.http.Page(b"text")})) as server:
        fs = make(HttpFileSystem, server.port)
        urls = [f"127.0.0.1:{server.port}/page?{number}" for number in range(3)]
        assert fs.cat(urls) == dict.fromkeys(urls, b"text")
        assert [request.method for request in server.requests] == ["GET"] * 3


def test_cat_ranges_of_several_files_resumes_at_each_start(ftp: MockFtp, make: Make) -> None:
    fs, contents = ftp_with_files(ftp, make)
    assert fs.cat_ranges(list(contents), 3, 9) == [each[3:9] for each in contents.values()]
    assert [line for line in ftp.commands if line.startswith(b"REST")] == [b"REST 3"] * len(contents)
    twice = [name for name in contents for _ in range(2)]
    expected = [part for each in contents.values() for part in (each[:4], each[2:6])]
    assert fs.cat_ranges(twice, [0, 2] * len(contents), [4, 6] * len(contents)) == expected


@pytest.mark.parametrize("on_error", ["raise", "omit", "return"])
def test_cat_of_several_files_reports_errors_as_fsspec_does(ftp: MockFtp, make: Make, on_error: str) -> None:
    fs, contents = ftp_with_files(ftp, make, 3)
    directory = next(iter(contents)).rpartition("/")[0]
    missing = f"{directory}/none"
    names = [*contents, missing, directory]
    if on_error == "raise":
        with pytest.raises(FileNotFoundError):
            fs.cat([*contents, missing], on_error=on_error)
        return
    found = fs.cat(names, on_error=on_error)
    assert isinstance(found, dict)
    if on_error == "return":
        assert isinstance(found.pop(missing), FileNotFoundError)
        assert isinstance(found.pop(directory), IsADirectoryError)
    assert found == contents


# asyncio: each operation is a coroutine, without another thread.


def test_asynchronous_file_system_reads_in_the_running_loop(ftp: MockFtp, make: Make) -> None:
    _, contents = ftp_with_files(ftp, make)
    directory = next(iter(contents)).rpartition("/")[0]
    policy = resolver.Policy(allow_port={ftp.port})
    fs = FtpFileSystem(asynchronous=True, policy=policy, skip_instance_cache=True)

    async def read() -> None:
        before = set(threading.enumerate())
        assert {each["name"] for each in await fs._ls(directory)} == set(contents)
        assert (await fs._info(f"{directory}/f1"))["size"] == len(contents[f"{directory}/f1"])
        assert await fs._cat_file(f"{directory}/f1", 3, -2) == contents[f"{directory}/f1"][3:-2]
        assert await fs._cat(list(contents)) == contents
        assert await fs._cat_ranges(list(contents), 3, 9) == [each[3:9] for each in contents.values()]
        assert [name async for name, _, _ in fs._walk(directory)] == [directory]
        with pytest.raises(FileNotFoundError):
            await fs._cat_file(f"{directory}/none")
        with pytest.raises(OSError, match="read-only"):
            await fs._pipe_file(f"{directory}/f1", b"x")
        assert set(threading.enumerate()) == before
        await fs._close()

    for _ in range(2):  # each run has a separate connection pool
        asyncio.run(read())


def test_cat_of_a_near_server_opens_few_connections() -> None:
    # The server runs in the same loop: with a thread of its own, the number depends on other processes.
    connections: list[asyncio.Task[None] | None] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntext")
        writer.close()
        await writer.wait_closed()

    async def read() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            policy = resolver.Policy(allow_port={port})
            fs = HttpFileSystem(asynchronous=True, policy=policy, skip_instance_cache=True)
            names = [f"127.0.0.1:{port}/{number}" for number in range(200)]
            assert len(await fs._cat(names)) == len(names)
            await fs._close()
            await asyncio.gather(*filter(None, connections))

    asyncio.run(read())
    assert len(connections) <= HttpFileSystem.connections // 2


def test_cancelled_cat_leaves_a_usable_file_system(ftp: MockFtp, make: Make) -> None:
    _, contents = ftp_with_files(ftp, make)
    policy = resolver.Policy(allow_port={ftp.port})
    fs = FtpFileSystem(asynchronous=True, policy=policy, skip_instance_cache=True)

    async def read() -> None:
        for turns in range(1, 40, 3):
            reading = asyncio.ensure_future(fs._cat_file(next(iter(contents))))
            for _ in range(turns):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait([reading])
        assert await fs._cat(list(contents)) == contents
        await fs._close()

    asyncio.run(read())


def test_batch_size_bounds_the_connections(ftp: MockFtp, make: Make) -> None:
    _, contents = ftp_with_files(ftp, make)
    one = make(FtpFileSystem, ftp.port, batch_size=1)
    assert one.cat(list(contents)) == contents
    assert len(ftp.sessions) == 1
    assert one.cat(list(contents), batch_size=-1) == contents
    assert 1 < len(ftp.sessions) <= len(contents)


@pytest.mark.parametrize(("start", "stop"), [(None, None), (3, 9), (-4, None), (2, -2), (90, 99), (4, 2)])
def test_cat_file_asks_for_size_and_date_once(
    ftp: MockFtp, make: Make, start: int | None, stop: int | None
) -> None:
    fs, contents = ftp_with_files(ftp, make, 1)
    ((name, content),) = contents.items()
    assert fs.cat_file(name, start, stop) == content[start:stop]
    for command in (b"SIZE", b"MDTM", b"RETR"):
        expected = 2 if (command, start) == (b"RETR", -4) or (command, stop) == (b"RETR", -2) else 1
        assert sum(line.startswith(command) for line in ftp.commands) <= expected


@pytest.mark.parametrize("option", ["block_size", "default_block_size"])
def test_block_size_and_cache_type_apply_to_open(ftp: MockFtp, option: str, make: Make) -> None:
    name = put(ftp, b"pub", {b"file": TABLE})
    fs = make(FtpFileSystem, ftp.port, cache_type="bytes", **{option: 1_000})
    with fs.open(f"{name}/file") as file:
        assert (file.blocksize, file.cache.name, file.cache.blocksize) == (1_000, "bytes", 1_000)
        assert file.read(5) == TABLE[:5]
    with fs.open(f"{name}/file", block_size=77, cache_type="none") as file:
        assert (file.blocksize, file.cache.name) == (77, "none")
        assert file.read() == TABLE


def test_info_has_facts_of_listing_and_modified_has_date(ftp: MockFtp, make: Make) -> None:
    name = put(ftp, b"pub", {b"file": TABLE})
    fs = make(FtpFileSystem, ftp.port, options=resolver.Options(mlsd=True))
    (listed,) = fs.ls(name)
    assert fs.info(f"{name}/file") == listed
    assert (listed["name"], listed["type"], listed["size"]) == (f"{name}/file", "file", len(TABLE))
    assert {"perm", "modify"} & set(listed)
    assert fs.modified(f"{name}/file") == listed["modified"]
    assert listed["mtime"] == listed["modified"].timestamp()
    with pytest.raises(NotImplementedError):
        fs.created(f"{name}/file")


def test_equals_sign_in_names_is_decoded(ftp: MockFtp, make: Make) -> None:
    """Pyarrow and dask read hive partitions from the names."""
    name = put(ftp, b"k=0", {b"50%3D b=1.csv": TABLE})
    fs = make(FtpFileSystem, ftp.port)
    file = f"{name}/50%253D%20b=1.csv"
    assert fs.find(f"127.0.0.1:{ftp.port}/k%3D0") == [file]
    assert fs.glob(f"{name}/*=1.csv") == [file]
    assert fs.cat_file(file) == TABLE
    assert HttpFileSystem._strip_protocol("http://h/k%3d0?a%3Db") == "h/k=0?a%3Db"
    assert WaisFileSystem._strip_protocol("wais://h/k%3D0") == "h/k%3D0"


def test_get_file_asks_for_size_and_date_once(ftp: MockFtp, make: Make, tmp_path: Path) -> None:
    name = put(ftp, b"pub", {b"file": TABLE})
    fs = make(FtpFileSystem, ftp.port)
    fs.get_file(f"{name}/file", str(tmp_path / "file"))
    for command in (b"SIZE", b"MDTM", b"RETR"):
        assert sum(line.startswith(command) for line in ftp.commands) == 1
    fs.get_file(name, str(tmp_path / "directory"))
    assert (tmp_path / "directory").is_dir()
    assert (tmp_path / "file").read_bytes() == TABLE


def test_cat_file_of_unknown_size_is_limited_in_memory(make: Make) -> None:
    body = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"400\r\n%b\r\n" % bytes(1_024) * 64

    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        with suppress(trio.BrokenResourceError):
            await stream.send_all(body)

    with served(partial(serve_connections, handle=answer)) as port:
        fs = make(HttpFileSystem, port, limits=resolver.Limits(body=10_000))
        assert fs.cat_file(f"127.0.0.1:{port}/endless", 2, 9) == bytes(7)
        with pytest.raises(OSError, match="10000 bytes") as caught:
            fs.cat_file(f"127.0.0.1:{port}/endless")
        assert isinstance(caught.value.__cause__, resolver.LimitExceeded)


# Storage options for other processes: JSON, pickle, and passwords in environment variables.

STORED: list[dict[str, Any]] = [
    {"policy": "untrusted", "timeout": 3.0, "headers": {"A": "b"}},
    {"policy": {"name": "cautious", "allow_port": [8021], "allow_password": True}},
    {"policy": resolver.Policy(name="cautious", allow_port={8021}, allow_address={"10.0.0.0/8"})},
    {"limits": resolver.Limits(body=9, total=2.0), "patience": resolver.RetryPolicy(tries=3)},
    {"options": resolver.Options(mlsd=True), "cache_type": "bytes", "block_size": 5},
    {"host": "h.example", "port": 8021, "username": "u", "password_env": "TEST_FTP_PASSWORD"},
]


@pytest.mark.parametrize("options", STORED)
@pytest.mark.parametrize(
    "copy",
    [
        lambda fs: pickle.loads(pickle.dumps(fs)),
        lambda fs: fsspec.AbstractFileSystem.from_json(fs.to_json()),
        lambda fs: fsspec.AbstractFileSystem.from_dict(fs.to_dict(include_password=False)),
    ],
    ids=["pickle", "json", "dict"],
)
def test_stored_options_give_the_same_file_system(
    options: dict[str, Any], copy: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_FTP_PASSWORD", "s3cret")
    fs = FtpFileSystem(**options)
    again = copy(fs)
    assert type(again) is FtpFileSystem
    for name in ("policy", "limits", "patience", "options", "headers", "timeout", "credentials"):
        assert again._settings.get(name) == fs._settings.get(name)
    assert (again._block_size, again._cache_type) == (fs._block_size, fs._cache_type)
    assert copy(again) == again
    assert "s3cret" not in fs.to_json() + repr(fs) + repr(pickle.dumps(fs))


def test_password_is_stored_only_on_request() -> None:
    fs = FtpFileSystem(host="h.example", username="u", password="s3cret")
    assert "s3cret" in fs.to_json()
    assert "s3cret" not in fs.to_json(include_password=False)


def test_password_env_without_variable_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_FTP_PASSWORD", raising=False)
    with pytest.raises(ValueError, match=r"password_env: .*TEST_FTP_PASSWORD"):
        FtpFileSystem(host="h.example", username="u", password_env="TEST_FTP_PASSWORD")
