"""What a URL names as a file: read, sought in, and given to those that take files."""

from __future__ import annotations

import csv
import gc
import io
import random
import tarfile
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import fixtures.ftp
import fixtures.http
from fixtures.gopher import GopherServer
from fixtures.http import HttpServer, Page
from fixtures.http import serve as serve_http
from resolver import Changed, NotFound, Refused, blocking
from resolver.blocking.portal import MOST, portal
from tests.elsewhere import served
from tests.resolver.blocking.conftest import allowing
from tests.resolver.blocking.test_calls import tasks, url_of

LARGE = random.Random(2).randbytes(4 * MOST)


def archive() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as made:
        made.writestr("large", LARGE)
        made.writestr("small", b"in the end")
    return written.getvalue()


ZIP = archive()


def tagged(etag: str) -> Page:
    return Page(ZIP, headers=(("ETag", etag),), parts=True)


@pytest.fixture
def site() -> dict[str, Page]:
    return {"/a.zip": tagged('"1"'), "/a.csv": Page(b"a,b\r\n1,2\r\n"), "/empty": Page(b"")}


@pytest.fixture
def server(site: dict[str, Page]) -> Iterator[HttpServer]:
    with served(partial(serve_http, site=site)) as running:
        yield running


def url_at(server: HttpServer, path: str) -> str:
    return f"http://127.0.0.1:{server.port}{path}"


def test_a_file_is_read_to_its_end(server: HttpServer) -> None:
    before = portal().run(tasks)
    policy = allowing(server)
    with blocking.open(url_at(server, "/a.zip"), policy=policy) as file:
        assert isinstance(file, io.BufferedReader)
        assert file.read() == ZIP
        assert (file.read(), file.read(1), file.tell()) == (b"", b"", len(ZIP))
        assert file.name == url_at(server, "/a.zip")
    assert portal().run(tasks) == before
    with pytest.raises(ValueError, match="closed"):
        file.read()
    with blocking.open(url_at(server, "/empty"), policy=policy) as file:
        assert file.read() == b""
    with blocking.open(url_at(server, "/a.csv"), policy=policy) as file:
        assert list(csv.reader(io.TextIOWrapper(file, "utf-8"))) == [["a", "b"], ["1", "2"]]


def test_it_is_sought_in_as_any_file(server: HttpServer) -> None:
    """The same as with the octets in memory, for the same steps; by ranges, and not from the beginning."""
    chance = random.Random(3)
    beside = io.BytesIO(ZIP)
    session = blocking.Resolver(policy=allowing(server))
    with session, session.open(url_at(server, "/a.zip")) as file:
        assert file.seekable()
        for _ in range(60):
            match chance.randrange(4):
                case 0:
                    where = chance.randrange(len(ZIP) + 10)
                    assert file.seek(where) == beside.seek(where)
                case 1:
                    back = chance.randrange(len(ZIP))
                    assert file.seek(-back, io.SEEK_END) == beside.seek(-back, io.SEEK_END)
                case 2:
                    onwards = chance.randrange(10_000)
                    assert file.seek(onwards, io.SEEK_CUR) == beside.seek(onwards, io.SEEK_CUR)
                case 3:
                    count = chance.choice([0, 1, 100, MOST + 5, 2 * MOST])
                    assert file.read(count) == beside.read(count)
            assert file.tell() == beside.tell()
        for refused in (partial(file.seek, -1), partial(file.seek, -len(ZIP) - 1, io.SEEK_END)):
            with pytest.raises(ValueError, match="negative"):
                refused()


def test_an_archive_is_read_by_its_directory(server: HttpServer) -> None:
    with blocking.open(url_at(server, "/a.zip"), policy=allowing(server)) as file, zipfile.ZipFile(file) as a:
        assert a.read("small") == b"in the end"
    ranges = [value for request in server.requests for name, value in request.headers if name == "range"]
    assert ranges, "it was not sought in"
    with blocking.open(url_at(server, "/a.zip"), policy=allowing(server)) as file, zipfile.ZipFile(file) as a:
        assert a.testzip() is None


def test_ftp_begins_in_the_middle(ftp: fixtures.ftp.MockFtp) -> None:
    url = f"ftp://127.0.0.1:{ftp.port}/pub/large.bin"
    whole = blocking.fetch(url, policy=allowing(ftp)).content
    with blocking.open(url, policy=allowing(ftp)) as file:
        assert file.seekable()
        file.seek(-100, io.SEEK_END)
        assert file.read() == whole[-100:]
        file.seek(0)
        assert file.read(10) == whole[:10]


def test_a_directory_of_files_by_a_stream(gopher: GopherServer, tmp_path: Path) -> None:
    """What cannot be sought in can be read from its beginning."""
    with blocking.open(url_of(gopher), policy=allowing(gopher)) as file:
        assert not file.seekable()
        with pytest.raises(io.UnsupportedOperation):
            file.seek(0)
        assert file.readline() == b"A text of two lines.\r\n"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as made:
        made.addfile(tarfile.TarInfo("a"))
    (tmp_path / "a.tar").write_bytes(packed.getvalue())
    with blocking.open((tmp_path / "a.tar").as_uri()) as file, tarfile.open(fileobj=file) as opened:
        assert opened.getnames() == ["a"]


def test_another_object_under_the_same_name(server: HttpServer, site: dict[str, Page]) -> None:
    with blocking.open(url_at(server, "/a.zip"), policy=allowing(server)) as file:
        file.read(10)
        site["/a.zip"] = tagged('"2"')
        file.seek(-10, io.SEEK_END)
        with pytest.raises(Changed):
            file.read()


def test_what_there_is_not_is_told_when_it_is_opened(server: HttpServer) -> None:
    before = portal().run(tasks)
    with pytest.raises(NotFound):
        blocking.open(url_at(server, "/none"), policy=allowing(server))
    with pytest.raises(Refused):
        blocking.open("telnet://h.example/")
    assert portal().run(tasks) == before


def test_one_that_nobody_closed(server: HttpServer) -> None:
    before = portal().run(tasks)
    file = blocking.open(url_at(server, "/a.zip"), policy=allowing(server))
    assert file.read(1) == b"P"
    del file
    gc.collect()
    while portal().run(tasks) > before:
        pass
