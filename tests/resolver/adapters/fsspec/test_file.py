"""Random access to files of servers that disconnect, change the object, or send false values."""

from __future__ import annotations

import asyncio
import gc
import io
import threading
from collections.abc import Callable
from functools import partial
from typing import Literal, TypeVar

import pytest

import resolver
from fixtures.faulty import Fault, Kind, Profile
from resolver.adapters.fsspec import FtpFileSystem, HttpFileSystem, UrlFileSystem
from resolver.adapters.fsspec.file import UrlFile, WholeObject
from tests.hang import HANG
from tests.resolver.adapters.fsspec.conftest import Make, faulty, name_at

T = TypeVar("T")

CONTENT = b"".join(b"%07d\n" % number for number in range(250_000))
KINDS = {"ftp": FtpFileSystem, "http": HttpFileSystem}
both = pytest.mark.parametrize(("scheme", "kind"), KINDS.items(), ids=list(KINDS))


@both
@pytest.mark.parametrize("start", [None, 100])
def test_cat_file_resumes_after_each_disconnect(
    scheme: str, kind: type[UrlFileSystem], make: Make, start: int | None
) -> None:
    """After each disconnect that follows some bytes, the transfer resumes; no byte is transferred twice."""
    cuts = (300_000, 300_001, 1_200_000, 1_999_999)
    with faulty(scheme, CONTENT, Profile(cuts=cuts)) as server:
        fs = make(kind, server.port)
        assert fs.cat_file(name_at(server), start) == CONTENT[start:]
        assert server.connections > len(cuts)


@both
def test_read_without_resumption_is_an_error(scheme: str, kind: type[UrlFileSystem], make: Make) -> None:
    """If a truncated transfer cannot resume, the read raises an error and returns no truncated file."""
    with faulty(scheme, CONTENT, Profile(fault=Fault("reset", "body", 50))) as server:
        fs = make(kind, server.port)
        with fs.open(name_at(server)) as file, pytest.raises(OSError, match="broke") as caught:
            file.read()
    assert isinstance(caught.value.__cause__, resolver.ResolveError)


@both
def test_cat_file_of_changed_object_is_an_error(scheme: str, kind: type[UrlFileSystem], make: Make) -> None:
    with faulty(scheme, CONTENT, Profile(cuts=(300_000,), changes=True)) as server:
        fs = make(kind, server.port)
        with pytest.raises(OSError, match="object") as caught:
            fs.cat_file(name_at(server))
    assert isinstance(caught.value.__cause__, resolver.Changed)


@both
def test_cat_file_without_range_support_skips_bytes(
    scheme: str, kind: type[UrlFileSystem], make: Make
) -> None:
    """Without range support, the complete file is requested, and the bytes before the range are discarded."""
    with faulty(scheme, CONTENT, Profile(offsets="no")) as server:
        fs = make(kind, server.port)
        assert fs.cat_file(name_at(server), 1_500_000, 1_500_008) == CONTENT[1_500_000:1_500_008]


@both
@pytest.mark.parametrize("offsets", ["lies", "elsewhere"])
@pytest.mark.parametrize("lie", ["short", "long"])
def test_cat_ranges_of_lying_server_is_right_or_an_error(
    scheme: str, kind: type[UrlFileSystem], make: Make, offsets: Literal["lies", "elsewhere"], lie: Kind
) -> None:
    """If the server sends a false range start or size, the result is either correct or an error.

    One case is excluded, because a client cannot detect it: an HTTP server that announces the correct range,
    and sends bytes from another offset.
    """
    manners = [Profile(offsets=offsets), Profile(fault=Fault(lie, "body", 50))]
    for manner in manners[(scheme, offsets) == ("http", "lies") :]:
        with faulty(scheme, CONTENT, manner) as server:
            fs = make(kind, server.port)
            (found,) = fs.cat_ranges([name_at(server)], 1_500_000, len(CONTENT))
            assert found == CONTENT[1_500_000:] or isinstance(found.__cause__, resolver.ResolveError)


@both
def test_unclosed_file_is_collected_without_warnings(
    scheme: str, kind: type[UrlFileSystem], make: Make
) -> None:
    """The garbage collector may finalize a file and its response in any order, without a warning."""
    with faulty(scheme, CONTENT, Profile()) as server:
        fs = make(kind, server.port)
        for _ in range(5):
            file = fs.open(name_at(server), block_size=10_000)
            assert file.read(100) == CONTENT[:100]
            assert file.read() == CONTENT[100:]
            file.itself = file
            del file
            gc.collect()
        assert fs.cat_file(name_at(server)) == CONTENT


def in_threads(*operations: Callable[[], T]) -> list[T]:
    """Return the results of the operations, each in a separate thread; a thread that hangs fails the test."""
    found: list[T] = []
    threads = [
        threading.Thread(target=lambda operation=operation: found.append(operation()), daemon=True)
        for operation in operations
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
        assert not thread.is_alive()
    return found


@both
@pytest.mark.parametrize("cache", ["readahead", "background", "bytes"])
def test_file_read_by_threads_returns_each_segment_once(
    scheme: str, kind: type[UrlFileSystem], cache: str, make: Make
) -> None:
    with faulty(scheme, CONTENT, Profile()) as server:
        fs = make(kind, server.port)
        with fs.open(name_at(server), block_size=50_000, cache_type=cache) as file:
            read = partial(file.read, 20_000)
            pieces = in_threads(*(lambda: list(iter(read, b"")) for _ in range(6)))
    found = sorted(piece for each in pieces for piece in each)
    assert b"".join(found) == CONTENT


class Stalled(WholeObject):
    """An object in memory whose first read waits for the event `go`."""

    def __init__(self, octets: bytes) -> None:
        super().__init__(octets)
        self.reading, self.go = threading.Event(), threading.Event()

    async def read(self, start: int | None, stop: int | None) -> bytes:
        self.reading.set()
        assert await asyncio.to_thread(self.go.wait, HANG)
        return await super().read(start, stop)


def test_file_seek_in_threads_applies_to_own_read() -> None:
    octets = Stalled(CONTENT)
    file = UrlFile(HttpFileSystem(), "h/x", octets, None, "none", None)
    sought = threading.Barrier(2)

    def read_first() -> bytes:
        return file.read(8)

    def seek_and_read(start: int) -> bytes:
        assert octets.reading.wait(HANG)
        file.seek(start)
        sought.wait(HANG)
        octets.go.set()
        return file.read(8)

    found = in_threads(read_first, partial(seek_and_read, 800), partial(seek_and_read, 8_000))
    assert sorted(found) == [CONTENT[at : at + 8] for at in (0, 800, 8_000)]


def test_file_position_is_shared_by_threads() -> None:
    file = UrlFile(HttpFileSystem(), "h/x", WholeObject(CONTENT), None, "none", None)
    file.seek(800)
    in_threads(lambda: file.seek(8))
    assert file.read(8) == CONTENT[8:16]
    assert in_threads(lambda: file.read(8)) == [CONTENT[16:24]]


@both
def test_duckdb_reads_parquet_in_several_threads(scheme: str, kind: type[UrlFileSystem], make: Make) -> None:
    import duckdb
    import pyarrow
    import pyarrow.parquet

    numbers = list(range(60_000))
    table = io.BytesIO()
    columns = {"n": numbers, "x": [(each * 7_919) % 60_013 / 3 for each in numbers]}
    pyarrow.parquet.write_table(pyarrow.table(columns), table, row_group_size=5_000)
    with faulty(scheme, table.getvalue(), Profile()) as server, duckdb.connect() as connection:
        connection.register_filesystem(make(kind, server.port))
        place = f"resolve+{scheme}://{name_at(server)}"
        query = f"select count(*), sum(n), sum((x * 3)::bigint) from read_parquet('{place}')"
        (found,) = connection.execute(query).fetchall()
    assert found == (60_000, sum(numbers), sum((each * 7_919) % 60_013 for each in numbers))


@both
def test_sequential_reads_use_one_connection(scheme: str, kind: type[UrlFileSystem], make: Make) -> None:
    with faulty(scheme, CONTENT, Profile()) as server:
        fs = make(kind, server.port)
        with fs.open(name_at(server), block_size=100_000, cache_type="none") as file:
            pieces = [file.read(100_000) for _ in range(21)]
        assert b"".join(pieces) == CONTENT
        before = server.connections
        starts = [0, 1_999_000, 10, 20]
        found = fs.cat_ranges([name_at(server)] * 4, starts, [start + 8 for start in starts])
        assert found == [CONTENT[start : start + 8] for start in starts]
        assert before <= 2
        assert server.connections - before <= 3
