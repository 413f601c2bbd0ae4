"""The recorder on a disk with faults: a record is complete, or the next run removes it."""

from __future__ import annotations

import errno
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from fixtures.http import Page, serve
from resolver import LocalError, Policy, Resolver
from resolver.files import archive, atomic, local
from resolver.warc import Recorder
from resolver.warc.records import DamagedSpan, read_records
from tests.resolver.warc.archives import Kept, Octets

BODY = b"the same payload\n" * 100


class FullDisk:
    """The module `os` for writes of an archive: the disk has room for `room` bytes.

    Attributes:
        can_shrink: Whether a file can be truncated.
    """

    def __init__(self) -> None:
        self.room, self.can_shrink = 1_000_000, True

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, fd: int, octets: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = os.write(fd, octets[: self.room])
        self.room -= written
        return written

    def ftruncate(self, fd: int, size: int) -> None:
        if not self.can_shrink:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.ftruncate(fd, size)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    disk = FullDisk()
    for module in (archive, atomic):
        monkeypatch.setattr(module, "os", disk)
    return disk


async def record(recorder: Recorder, path: Path) -> None:
    async with Resolver(recorder=recorder) as session:
        await session.fetch(path.as_uri())


def types_of(path: Path) -> list[str | None]:
    items = list(read_records(Octets(path.read_bytes()), Kept))
    return [None if isinstance(item, DamagedSpan) else item.head.type for item in items]


CAPTURE = ["resource", "metadata"]


@pytest.mark.parametrize("is_repaired", [False, True])
async def test_recorder_after_failed_rollback_appends_to_no_incomplete_record(
    is_repaired: bool, disk: FullDisk, tmp_path: Path
) -> None:
    source, out = tmp_path / "source", tmp_path / "a.warc"
    source.write_bytes(BODY)
    with Recorder(out) as recorder:
        disk.room, disk.can_shrink = 100, False
        with pytest.raises(LocalError):
            await record(recorder, source)
        assert types_of(out) == ["warcinfo", None]
        disk.room, disk.can_shrink = 1_000_000, is_repaired
        if is_repaired:
            await record(recorder, source)
        else:
            with pytest.raises(LocalError):
                await record(recorder, source)
    written = CAPTURE if is_repaired else [None]
    assert types_of(out) == ["warcinfo", *written]
    disk.can_shrink = True
    with Recorder(out) as recorder:
        assert recorder.cut == (0 if is_repaired else 100)
        await record(recorder, source)
    assert types_of(out) == ["warcinfo", *(CAPTURE if is_repaired else []), "warcinfo", *CAPTURE]


async def test_recorder_after_rollback_refers_to_no_removed_record(disk: FullDisk, tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "a.warc"
    source.write_bytes(BODY)
    with Recorder(out) as recorder:
        disk.room = 100
        with pytest.raises(LocalError):
            await record(recorder, source)
        disk.room = 1_000_000
        await record(recorder, source)
        await record(recorder, source)
    assert types_of(out) == ["warcinfo", *CAPTURE, "revisit", "metadata"]


async def test_recorder_removes_temporary_indexes_of_killed_runs(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "a.warc"
    source.write_bytes(BODY)
    with Recorder(out) as recorder:
        await record(recorder, source)
    index = (tmp_path / "a.cdxj").read_bytes()
    leftovers = {f"a.warc.{number:016x}": index[: number * len(index)] for number in range(2)}
    foreign = {
        "a.warc.00000000000000ff": b"the file of another program\n",
        "a.warc.00000000000000fe": index[:-20],
        "a.warc.gz.0000000000000000": index,
        "a.warc.0000": index,
        "a.warc.000000000000000A": index,
    }
    for name, octets in (leftovers | foreign).items():
        (tmp_path / name).write_bytes(octets)
    (tmp_path / "a.warc.00000000000000fd").symlink_to(out)
    Recorder(out).close()
    names = set(os.listdir(tmp_path))
    assert names == {"source", "a.warc", "a.cdxj", "a.warc.00000000000000fd", *foreign}


@pytest.mark.parametrize("names", [("a.warc", "a.warc.gz"), ("a.warc.gz", "a.warc")])
async def test_recorder_beside_archive_with_same_index_is_refused(
    names: tuple[str, str], tmp_path: Path
) -> None:
    source, (first, second) = tmp_path / "source", names
    source.write_bytes(BODY)
    with Recorder(tmp_path / first) as recorder:
        await record(recorder, source)
    index = (tmp_path / "a.cdxj").read_bytes()
    with pytest.raises(LocalError, match=re.escape(first)):
        Recorder(tmp_path / second)
    assert (tmp_path / "a.cdxj").read_bytes() == index
    assert not (tmp_path / second).exists()


@pytest.mark.parametrize("name", [b"a\nb.warc", b"\xff.warc.gz", b"\x1b[2J.warc"])
async def test_recorder_with_unprintable_name_writes_complete_records(name: bytes, tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / os.fsdecode(name)
    source.write_bytes(BODY)
    with Recorder(out, command="resolve get http://h/\udcff") as recorder:
        await record(recorder, source)
    assert types_of(out) == ["warcinfo", *CAPTURE]


@pytest.mark.parametrize(("size", "is_read"), [(100, True), (3_000_000, True), (3_000_000, False)])
async def test_recorder_of_body_until_close_marks_only_incomplete_body(
    size: int, is_read: bool, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """Without a length, only the end of the protocol exchange shows that the body is complete."""
    page, out = Page(b"a" * size, framing="close"), tmp_path / "a.warc"
    server = await serve(nursery, {"/a": page})
    policy = Policy(allow_port=frozenset({server.port}))
    with Recorder(out) as recorder:
        async with Resolver(recorder=recorder, policy=policy) as session:
            if is_read:
                assert (await session.save(server.url("/a"), tmp_path / "b")).bytes == size
            else:
                async with session.stream(server.url("/a")) as reply:
                    await reply.body.take(1)
    items = [
        each for each in read_records(Octets(out.read_bytes()), Kept) if not isinstance(each, DamagedSpan)
    ]
    (response,) = [each for each in items if each.head.type == "response"]
    assert response.head.get_first("WARC-Truncated") == (None if is_read else "unspecified")
    body = bytes(response.reader.block).partition(b"\r\n\r\n")[2]
    assert body == page.content if is_read else page.content.startswith(body)


async def test_recorder_raises_read_error_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> list[bytes]:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(local, "_sorted_names", fail)
    with Recorder(tmp_path / "a.warc") as recorder:
        async with Resolver(recorder=recorder) as session:
            with pytest.raises(LocalError):
                await session.fetch(f"{tmp_path.as_uri()}/")


def test_recorder_in_forked_process_is_refused(tmp_path: Path) -> None:
    """Records of a child would be in the same file, so the offsets in the parent's index would be wrong."""
    (tmp_path / "a").write_bytes(BODY)
    with Recorder(tmp_path / "x.warc") as recorder:
        if (child := os.fork()) == 0:
            with suppress(RuntimeError), recorder:
                trio.run(record, recorder, tmp_path / "a")
                os._exit(1)
            os._exit((tmp_path / "x.cdxj").exists())
        assert os.waitpid(child, 0)[1] == 0
        trio.run(record, recorder, tmp_path / "a")
    offset = json.loads((tmp_path / "x.cdxj").read_text().split(" ", 2)[2])["offset"]
    assert (tmp_path / "x.warc").read_bytes()[int(offset) :].startswith(b"WARC/1.1")


def test_recorder_that_is_closed_is_refused(tmp_path: Path) -> None:
    """The next file of the program has the descriptor of the archive: it must stay empty and open."""
    (tmp_path / "a").write_bytes(BODY)
    with Recorder(tmp_path / "x.warc") as recorder:
        trio.run(record, recorder, tmp_path / "a")
        recorder.close()
        with (tmp_path / "other").open("w") as other:
            with pytest.raises(RuntimeError, match="closed"):
                trio.run(record, recorder, tmp_path / "a")
            recorder.close()
            assert os.fstat(other.fileno()).st_size == 0
