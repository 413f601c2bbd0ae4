"""Partial files (S14): complete or absent, never over an existing file, never through a link."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from resolver import LocalError, Validators
from resolver.files.directory import DirectoryHandle
from resolver.files.names import read_validators
from resolver.files.part import Existing
from resolver.files.partial_file import PartialFile

WHEN = datetime(1994, 12, 20, 12, 0, 0, tzinfo=UTC)


async def write(
    path: Path, octets: bytes, *, exists: Existing = "fail", meanwhile: Callable[[], object] = bool
) -> None:
    """Write and commit a file; `meanwhile` is called before the data is written."""
    async with PartialFile(str(path), exists=exists) as sink:
        meanwhile()
        sink.write(octets)
        await sink.commit(WHEN)


async def test_commit_names_complete_file(tmp_path: Path) -> None:
    async with PartialFile(str(tmp_path / "got")) as sink:
        sink.write(b"one ")
        sink.write(memoryview(b"two"))
        assert sink.position == 7
        assert os.listdir(tmp_path) == ["got.part"]
        assert await sink.digest("sha256") == hashlib.sha256(b"one two").hexdigest()
        assert sink.position == 7
        await sink.commit(WHEN)
        assert os.listdir(tmp_path) == ["got"]
    found = (tmp_path / "got").stat()
    assert (tmp_path / "got").read_bytes() == b"one two"
    assert found.st_mtime == WHEN.timestamp()
    assert found.st_nlink == 1
    assert not found.st_mode & 0o111


@pytest.mark.parametrize("seconds", [253_402_300_800, -62_135_596_801, 9 * 10**18])
def test_time_that_datetime_does_not_support_is_unknown(
    seconds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    status = os.stat(tmp_path / "file")
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", lambda _: os.stat_result((*status[:8], seconds, status[9])))
        validators = read_validators("file")
    assert validators == Validators(3)


async def test_commit_accepts_missing_and_extreme_times(tmp_path: Path) -> None:
    for number, modified in enumerate((None, datetime(9999, 12, 31, tzinfo=UTC), datetime(1, 1, 1))):
        async with PartialFile(str(tmp_path / str(number))) as sink:
            await sink.commit(modified)
    assert len(os.listdir(tmp_path)) == 3


@pytest.mark.parametrize("end", ["error", "cancel", "nothing"])
async def test_uncommitted_file_is_removed(tmp_path: Path, end: str) -> None:
    with trio.CancelScope() as scope:
        try:
            async with PartialFile(str(tmp_path / "got")) as sink:
                sink.write(b"half")
                if end == "error":
                    raise RuntimeError("of the caller")
                if end == "cancel":
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
        except RuntimeError:
            assert end == "error"
    assert os.listdir(tmp_path) == []


async def test_keep_leaves_part(tmp_path: Path) -> None:
    async with PartialFile(str(tmp_path / "got")) as sink:
        sink.write(b"half")
        sink.keep()
    assert (tmp_path / "got.part").read_bytes() == b"half"


async def test_existing_name_is_refused_before_transfer(tmp_path: Path) -> None:
    for make in (lambda path: path.write_text("mine"), Path.mkdir, lambda path: path.symlink_to("nowhere")):
        path = tmp_path / "got"
        make(path)
        before = os.lstat(path)
        with pytest.raises(LocalError, match=r"got' .*already.*unchanged$"):
            async with PartialFile(str(path)):
                raise AssertionError("entered")
        assert os.path.samestat(os.lstat(path), before)
        assert os.listdir(tmp_path) == ["got"]
        path.rmdir() if path.is_dir() else path.unlink()


async def test_commit_does_not_overwrite_new_file(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="already"):
        await write(tmp_path / "got", b"theirs", meanwhile=lambda: (tmp_path / "got").write_text("mine"))
    assert (tmp_path / "got").read_text() == "mine"
    assert os.listdir(tmp_path) == ["got"]


async def test_file_finished_by_another_transfer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other transfer finishes between the check of the name and the creation of NAME.part."""
    create = DirectoryHandle.create

    def finish_first(self: DirectoryHandle, name: str, mode: int = 0o666) -> int:
        (tmp_path / "got").write_bytes(b"theirs")
        return create(self, name, mode)

    monkeypatch.setattr(DirectoryHandle, "create", finish_first)
    with pytest.raises(LocalError, match="already"):
        await write(tmp_path / "got", b"ours")
    assert os.listdir(tmp_path) == ["got"]
    assert (tmp_path / "got").read_bytes() == b"theirs"


async def test_exists_replace_replaces_link_itself(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("keep me")
    (tmp_path / "got").symlink_to("target")
    await write(tmp_path / "got", b"new", exists="replace")
    await write(tmp_path / "fresh", b"new", exists="replace")
    assert not (tmp_path / "got").is_symlink()
    assert (tmp_path / "got").read_bytes() == b"new"
    assert (tmp_path / "target").read_text() == "keep me"
    assert sorted(os.listdir(tmp_path)) == ["fresh", "got", "target"]


async def test_existing_part_is_refused_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("keep me")
    part = tmp_path / "got.part"
    for make in (partial(part.write_text, "half"), partial(part.symlink_to, "victim")):
        make()
        with pytest.raises(LocalError, match=r"got\.part' .*remove"):
            async with PartialFile(str(tmp_path / "got"), exists="replace"):
                raise AssertionError("entered")
        part.unlink()  # the existing part was not removed
    assert (tmp_path / "victim").read_text() == "keep me"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
async def test_special_file_is_never_replaced(tmp_path: Path, make: Callable[[str], object]) -> None:
    """A user who may write to /dev would lose /dev/null."""
    there = tmp_path / "there"
    make(str(there))
    before = there.lstat()
    for adopt in (False, True):
        with pytest.raises(LocalError, match="regular file"):
            async with PartialFile(str(there), exists="replace", adopt=adopt):
                raise AssertionError("entered")
    with pytest.raises(LocalError, match="regular file"):
        await write(
            tmp_path / "late", b"new", exists="replace", meanwhile=lambda: make(str(tmp_path / "late"))
        )
    assert there.lstat().st_ino == before.st_ino
    assert sorted(os.listdir(tmp_path)) == ["late", "there"]


async def test_commit_of_replaced_part_is_refused(tmp_path: Path) -> None:
    part = tmp_path / "got.part"

    def replace() -> None:
        part.unlink()
        part.write_text("theirs")

    for meanwhile in (part.unlink, replace):
        with pytest.raises(LocalError, match=r"got\.part' .*replaced"):
            await write(tmp_path / "got", b"ours", meanwhile=meanwhile)
        assert "got" not in os.listdir(tmp_path)
    assert part.read_text() == "theirs"  # the foreign file is not removed


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EACCES])
async def test_commit_without_hard_links_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def no_link(*arguments: object, **more: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", no_link)
    await write(tmp_path / "got", b"whole")
    assert (tmp_path / "got").read_bytes() == b"whole"
    other = tmp_path / "other"
    with pytest.raises(LocalError, match="already"):
        await write(other, b"theirs", meanwhile=lambda: other.write_text("mine"))
    assert (tmp_path / "other").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["got", "other"]


async def test_failed_rename_without_hard_links_leaves_no_empty_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.replace

    def refuse_link(*arguments: object, **more: object) -> None:
        raise OSError(errno.EPERM, "no hard links")

    def refuse_final_name(old: str, new: str, **more: int) -> None:
        if new == "got":
            raise OSError(errno.EIO, "input/output error")
        real(old, new, **more)

    monkeypatch.setattr(os, "link", refuse_link)
    monkeypatch.setattr(os, "replace", refuse_final_name)
    with pytest.raises(LocalError, match="input/output error"):
        await write(tmp_path / "got", b"whole")
    assert "got" not in os.listdir(tmp_path)


@pytest.mark.parametrize("octets", [b"", b"whole"])
async def test_rename_that_never_replaces_is_error_with_cause(
    octets: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems report EEXIST for a rename to an existing name."""
    real = os.replace

    def refuse(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        if new in os.listdir(tmp_path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), old, None, new)
        real(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "replace", refuse)
    (tmp_path / "got").write_bytes(b"before")
    with pytest.raises(LocalError, match=r"file exists \(the file system cannot replace a file: choose"):
        await write(tmp_path / "got", octets, exists="replace")
    assert (tmp_path / "got").read_bytes() == b"before"


async def test_commit_follows_renamed_directory(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    async with PartialFile(str(tmp_path / "place" / "got")) as sink:
        os.rename(tmp_path / "place", tmp_path / "moved")
        (tmp_path / "place").symlink_to("/nonexistent")
        sink.write(b"x")
        await sink.commit()
    assert (tmp_path / "moved" / "got").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("missing/got", r"no such file or directory \(.*create"),
        ("file/got", r"not a directory \("),
        ("x" * 300, r"file name too long \(.*shorter"),
        ("", "[^:]*directory$"),
        ("..", "[^:]*directory$"),
    ],
)
async def test_create_failure_suggests_a_fix(tmp_path: Path, path: str, words: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalError) as raised:
        async with PartialFile(f"{tmp_path}/{path}"):
            raise AssertionError("entered")
    assert re.search(f"{re.escape(repr(f'{tmp_path}/{path}'))}: {words}", raised.value.message)


async def test_removed_directory_is_a_local_error(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(LocalError, match="no such file or directory"):
        await write(place / "got", b"x", meanwhile=lambda: shutil.rmtree(place))


async def test_interrupted_file_of_removed_directory_has_no_bytes_for_later_run(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with trio.CancelScope() as scope:
        async with PartialFile(str(place / "got"), source="ftp://h/got") as sink:
            await sink.remember(Validators(size=9))
            sink.write(b"half")
            shutil.rmtree(place)
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert sink.partial_size == 0


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        ("write", errno.ENOSPC, "no space left on device ("),
        ("write", errno.EDQUOT, "quota"),
        ("fsync", errno.ENOSPC, "no space left on device ("),
        ("fsync", errno.EDQUOT, "quota"),
        ("fsync", errno.EIO, "input/output error"),
        ("link", errno.EROFS, "read-only file system ("),
    ],
)
async def test_disk_errors_are_local_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int, words: str
) -> None:
    def refuse(*arguments: object, **more: object) -> None:
        raise OSError(code, os.strerror(code))

    with pytest.raises(LocalError) as raised:
        await write(tmp_path / "got", b"x", meanwhile=lambda: monkeypatch.setattr(os, call, refuse))
    assert words in raised.value.message
    assert f"cannot write '{tmp_path}/got'" in raised.value.message
    assert isinstance(raised.value.__cause__, OSError)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS])
async def test_file_system_without_fsync_saves_file(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr(os, "fdatasync", refuse, raising=False)
    async with PartialFile(str(tmp_path / "got"), meta=True) as sink:
        await sink.begin_segments(Validators(size=1, etag='"1"'), ())
        with sink.segment(0, 1) as segment:
            segment.write(b"x")
        await sink.sync_ranges(((0, 1),))
        sink.end_segments(1)
        await sink.commit(WHEN, b'{\n  "format": "url-resolver meta 1"}')
    assert sorted(os.listdir(tmp_path)) == ["got", "got.meta.json"]


async def test_commit_does_not_block_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop must run another task before fsync returns."""
    other_task_ran = trio.Event()
    real = os.fsync

    def slow(fd: int) -> None:
        trio.from_thread.run(other_task_ran.wait)
        real(fd)

    monkeypatch.setattr(os, "fsync", slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(write, tmp_path / "got", b"x")
        await trio.testing.wait_all_tasks_blocked()
        other_task_ran.set()
    assert stat.S_ISREG((tmp_path / "got").stat().st_mode)
