"""The commit of a file (S14): small files in memory, sync in groups, allocation and write-back."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from resolver import LocalError, Resolver, Validators
from resolver.files import commit as durable
from resolver.files import commit as group_commit
from resolver.files.commit import GroupCommit, PendingFile, Sync
from resolver.files.directory import DirectoryHandle
from resolver.files.part import PartFile
from resolver.files.partial_file import PartialFile
from tests.resolver.files.test_partial_file import WHEN

SOURCE = "http://h.example/it"
KNOWN = Validators(size=8, etag='"one"')
MOST = 8


def held(path: Path, commits: GroupCommit | None = None, *, adopt: bool = False) -> PartialFile:
    return PartialFile(str(path), source=SOURCE, adopt=adopt, max_buffered=MOST, commits=commits)


async def save(path: Path, octets: bytes, commits: GroupCommit | None = None) -> None:
    async with held(path, commits) as sink:
        await sink.remember(Validators(size=len(octets)))
        sink.write(octets)
        await sink.commit(WHEN)


def nothing(self: DirectoryHandle) -> int | None:
    return None


def unnamed(self: DirectoryHandle, fd: int, name: str) -> bool:
    return False


@pytest.fixture(params=["as it is", "no file without a name", "no name for it"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test with `O_TMPFILE` and `linkat`, without `O_TMPFILE`, and without `linkat`."""
    if request.param == "no file without a name":
        monkeypatch.setattr(DirectoryHandle, "create_nameless", nothing)
    elif request.param == "no name for it":
        monkeypatch.setattr(DirectoryHandle, "give_name", unnamed)


@pytest.fixture(params=[0o022, 0o002, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.parametrize("octets", [b"", b"one", b"12345678", b"123456789"])
@pytest.mark.usefixtures("system")
async def test_commit_sets_mode_time_and_one_link(octets: bytes, umask: int, tmp_path: Path) -> None:
    await save(tmp_path / "got", octets)
    found = (tmp_path / "got").stat()
    assert (tmp_path / "got").read_bytes() == octets
    assert (found.st_nlink, stat.S_IMODE(found.st_mode)) == (1, 0o666 & ~umask)
    assert found.st_mtime == WHEN.timestamp()
    assert os.listdir(tmp_path) == ["got"]
    assert not any(os.listxattr(tmp_path / "got"))


async def test_held_file_is_not_on_disk_before_commit(tmp_path: Path) -> None:
    async with held(tmp_path / "got") as sink:
        await sink.remember(Validators(size=7))
        sink.write(b"one ")
        sink.write(memoryview(b"two"))
        assert (sink.position, sink.tail(3), sink.tail(0), sink.ranges) == (7, b"two", b"", ((0, 7),))
        assert os.listdir(tmp_path) == []
        sink.restart()
        assert sink.position == 0
        sink.write(b"three")
        await sink.commit()
    assert (tmp_path / "got").read_bytes() == b"three"


async def test_announced_large_file_is_not_held(tmp_path: Path) -> None:
    async with held(tmp_path / "got") as sink:
        await sink.remember(Validators(size=MOST + 1))
        assert sorted(os.listdir(tmp_path)) == ["got.part", "got.part-state"]
        sink.write(b"123456789")
        await sink.commit()
    assert os.listdir(tmp_path) == ["got"]


async def test_held_file_over_limit_moves_to_part(tmp_path: Path) -> None:
    async with held(tmp_path / "got") as sink:
        await sink.remember(Validators(etag='"one"'))
        sink.write(b"12345678")
        assert os.listdir(tmp_path) == []
        sink.write(b"9")
        assert sorted(os.listdir(tmp_path)) == ["got.part", "got.part-state"]
        assert (tmp_path / "got.part").read_bytes() == b"123456789"
        await sink.commit()
    assert (tmp_path / "got").read_bytes() == b"123456789"
    assert os.listdir(tmp_path) == ["got"]


async def test_held_file_interrupted_becomes_part(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with held(tmp_path / "got") as sink:
            await sink.remember(KNOWN)
            sink.write(b"half")
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert sink.partial_size == 4
    assert (tmp_path / "got.part").read_bytes() == b"half"
    async with held(tmp_path / "got") as sink:
        assert (sink.is_buffered, sink.position, sink.known) == (False, 4, KNOWN)
        sink.discard()
    assert os.listdir(tmp_path) == []


async def test_held_file_without_validators_is_dropped(tmp_path: Path) -> None:
    async with held(tmp_path / "got") as sink:
        sink.write(b"half")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["got", "got.part", "got.part-state", "got.part-state.new"])
async def test_held_file_with_existing_name_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"theirs")
    with pytest.raises(LocalError, match=r"exists"):
        async with held(tmp_path / "got"):
            raise AssertionError("entered")
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == b"theirs"


@pytest.mark.parametrize("adopt", [False, True])
@pytest.mark.usefixtures("system")
async def test_concurrent_commits_first_wins(adopt: bool, tmp_path: Path) -> None:
    async with held(tmp_path / "got", adopt=adopt) as ours:
        await ours.remember(KNOWN)
        ours.write(b"ours")
        await save(tmp_path / "got", b"theirs")
        with pytest.raises(LocalError, match=r"got' .*already.*unchanged$"):
            await ours.commit()
    assert (tmp_path / "got").read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["got"]


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.usefixtures("system")
async def test_exists_replace_keeps_old_file_until_commit(when: str, tmp_path: Path) -> None:
    path = tmp_path / "got"
    os.symlink("nowhere", path) if when == "before" else None
    async with PartialFile(str(path), exists="replace", source=SOURCE, max_buffered=MOST) as sink:
        assert sink.is_buffered
        sink.write(b"ours")
        await save(path, b"theirs") if when == "meanwhile" else None
        assert len(os.listdir(tmp_path)) == 1
        await sink.commit(WHEN)
    assert (path.is_symlink(), path.read_bytes(), os.listdir(tmp_path)) == (False, b"ours", ["got"])


async def test_held_commit_with_active_part_is_refused(tmp_path: Path) -> None:
    async with held(tmp_path / "got") as ours:
        ours.write(b"ours")
        async with PartialFile(str(tmp_path / "got"), source=SOURCE) as theirs:
            await theirs.remember(KNOWN)
            theirs.write(b"thei")
            with pytest.raises(LocalError, match=r"got\.part' .*transfer"):
                await ours.commit()
            ours.discard()
            theirs.write(b"rs")
            await theirs.commit()
    assert (tmp_path / "got").read_bytes() == b"theirs"


async def test_held_commit_removes_part_of_dead_run(tmp_path: Path) -> None:
    async with held(tmp_path / "got") as ours:
        await ours.remember(KNOWN)
        ours.write(b"ours")
        async with PartialFile(str(tmp_path / "got"), source=SOURCE) as dead:
            await dead.remember(KNOWN)
            dead.write(b"dead and long")
            dead.keep()
        await ours.commit()
    assert (tmp_path / "got").read_bytes() == b"ours"
    assert os.listdir(tmp_path) == ["got"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_held_file_in_unwritable_directory_is_refused(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o555)
    with pytest.raises(LocalError, match=r": permission denied \(.*directory"):
        async with held(tmp_path / "got"):
            raise AssertionError("entered")
    os.chmod(tmp_path, 0o755)


class Disk:
    """A replacement for `sync_files` that records each group and the names that exist at that time."""

    def __init__(self, place: Path, *failing: bytes) -> None:
        self._place = place
        self._failing = failing
        self.groups: list[int] = []
        self.named: list[list[str]] = []

    def sync_files(self, fds: Sequence[int]) -> dict[int, OSError]:
        self.groups.append(len(fds))
        self.named.append(sorted(os.listdir(self._place)))
        error = OSError(errno.EIO, os.strerror(errno.EIO))
        return {fd: error for fd in fds if os.pread(fd, MOST, 0) in self._failing}


async def save_concurrently(place: Path, commits: GroupCommit, *octets: bytes) -> list[str]:
    """Save the files concurrently and return the messages of the errors."""
    said: list[str] = []

    async def one(each: bytes) -> None:
        try:
            await save(place / each.decode(), each, commits)
        except LocalError as error:
            said.append(error.message)

    async with trio.open_nursery() as nursery:
        for each in octets:
            nursery.start_soon(one, each)
    return said


@pytest.mark.parametrize(
    ("sync", "groups"), [("group", [4]), ("always", [1, 1, 1, 1]), ("never", [])], ids=str
)
async def test_group_commit_syncs_files_together(
    sync: Sync, groups: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group is synced before any file has its name, and includes files that are not held in memory."""
    disk, names = Disk(tmp_path), [f"file{number}" for number in range(4)]
    monkeypatch.setattr(group_commit, "sync_files", disk.sync_files)
    assert await save_concurrently(tmp_path, GroupCommit(sync), *map(str.encode, names)) == []
    assert disk.groups == groups
    assert sync != "group" or disk.named == [[]]
    assert sorted(os.listdir(tmp_path)) == names


def test_group_is_synced_by_descriptor_that_was_opened_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of a part may already be reported when the other files of its group are opened."""
    synced: list[bytes] = []

    def sync_file_system(fd: int) -> bool:
        synced.append(os.pread(fd, MOST, 0))
        return True

    def make_part(name: str) -> PartFile:
        return PartFile(str(tmp_path / name), exists="fail", source=SOURCE, adopt=False, make_directory=False)

    monkeypatch.setattr(durable, "_sync_file_system", lambda: sync_file_system)
    small, opened = (
        [make_part(name) for name in ("one", "two")],
        [make_part(name) for name in ("three", "four")],
    )
    for part in opened:
        part.open()
        os.write(part.fd, part.name.encode())
    assert all(part.can_buffer() for part in small)
    files = [PendingFile(part, WHEN, None, None, octets=part.name.encode()) for part in small]
    durable._perform([*files, *(PendingFile(part, WHEN, None, None) for part in reversed(opened))], "group")
    for file in files:
        file.close()
    assert synced == [b"three"]
    assert sorted(os.listdir(tmp_path)) == ["four", "one", "three", "two"]


def test_resolver_unknown_sync_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"sync.* 'sometimes'"):
        Resolver(sync="sometimes")  # type: ignore[arg-type]


async def test_group_commit_error_affects_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "sync_files", Disk(tmp_path, b"bad").sync_files)
    said = await save_concurrently(tmp_path, GroupCommit(), b"good", b"bad", b"better")
    assert said == [f"cannot write {str(tmp_path / 'bad')!r}: {os.strerror(errno.EIO).lower()}"]
    assert {"better", "good"} <= set(os.listdir(tmp_path)) <= {"better", "good", "bad.part", "bad.part-state"}


@pytest.mark.parametrize(("sync", "count"), [("group", 0), ("always", 2)])
async def test_sync_always_syncs_directory(
    sync: Sync, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    monkeypatch.setattr(DirectoryHandle, "sync", lambda self: synced.append(sorted(os.listdir(tmp_path))))
    commits = GroupCommit(sync)
    await save(tmp_path / "small", b"1", commits)
    await save(tmp_path / "too large", b"123456789", commits)
    assert synced == [["small"], ["small", "too large"]][:count]


async def test_commit_ready_runs_after_sync_before_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, inodes, written = Disk(tmp_path), list[int](), list[list[int]]()
    monkeypatch.setattr(group_commit, "sync_files", disk.sync_files)

    def write() -> None:
        assert os.listdir(tmp_path) == []
        written.append(sorted(inodes))

    def note(inode: int) -> Callable[[], None]:
        assert (disk.groups, written) == ([2], [])
        inodes.append(inode)
        return write

    async def save(name: str) -> None:
        async with held(tmp_path / name, commits) as sink:
            sink.write(b"octets")
            await sink.commit(ready=note)

    commits = GroupCommit()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(save, "one")
        nursery.start_soon(save, "two")
    assert written == [sorted((tmp_path / name).stat().st_ino for name in ("one", "two"))]


@pytest.mark.parametrize("fails", ["note", "write"])
async def test_commit_failed_record_leaves_no_final_name(fails: str, tmp_path: Path) -> None:
    def write() -> None:
        raise LocalError("cannot write the ledger")

    def note(inode: int) -> Callable[[], None]:
        if fails == "note":
            write()
        return write

    async with held(tmp_path / "got") as sink:
        sink.write(b"octets")
        with pytest.raises(LocalError, match="cannot write the ledger"):
            await sink.commit(ready=note)
    assert os.listdir(tmp_path) == []


async def test_write_back_submits_each_range_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte range is submitted once, in order."""
    monkeypatch.setattr("resolver.files.partial_file._WRITEBACK_INTERVAL", 0)
    begun: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, begin, count, how: begun.append((begin, count)))
    async with PartialFile(str(tmp_path / "got")) as sink:
        sink.write(b"held before")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sink.write_back, 1_000)
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(3):
                sink.write(b"octets")
                while not begun or sum(begun[-1]) != sink.position:
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    begins, counts = zip(*begun, strict=True)
    assert (begins[0], all(counts)) == (len(b"held before"), True)
    ends = [begin + count for begin, count in begun]
    assert list(begins[1:]) == ends[:-1]


@pytest.mark.parametrize("has_it", [True, False], ids=["", "no fallocate"])
async def test_allocate_is_contiguous_and_bounded(
    has_it: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ranges are contiguous, at most `_MAX_PREALLOCATED` bytes ahead and end at the announced size."""
    given: list[tuple[int, int]] = []

    def give(fd: int, mode: int, begin: int, count: int) -> int:
        given.append((begin, count))
        return -1  # 1: an error, without effect

    monkeypatch.setattr(durable, "_fallocate", lambda: give if has_it else None)
    monkeypatch.setattr("resolver.files.partial_file._MAX_PREALLOCATED", 100)
    async with PartialFile(str(tmp_path / "got")) as sink:
        sink.write(b"held before")
        for position in range(11, 1_012, 20):
            sink._allocate(position, 1_011)
            assert not given or min(50, 1_011 - position) <= sum(given[-1]) - position <= 100
    assert [begin for begin, _ in given] == ([11, *(sum(one) for one in given[:-1])] if has_it else [])
    assert not given or sum(given[-1]) == 1_011


async def test_allocation_of_missing_data_is_released(tmp_path: Path) -> None:
    """The size of the file always equals the number of bytes received."""
    async with PartialFile(str(tmp_path / "got"), source=SOURCE) as sink:
        await sink.remember(KNOWN)
        sink.write(b"octets")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sink.write_back, 10_000_000)
            while sink.allocated == 0:
                await trio.lowlevel.checkpoint()
            assert os.fstat(sink.fileno()).st_size == sink.position == 6
            taken = os.fstat(sink.fileno()).st_blocks
            nursery.cancel_scope.cancel()
        if taken * 512 < 10_000_000:
            pytest.skip("a file system that gives no place beforehand")
        assert os.fstat(sink.fileno()).st_blocks * 512 < 1_000_000
        sink.keep()
    assert (tmp_path / "got.part").read_bytes() == b"octets"


def files(place: Path, count: int) -> list[int]:
    return [os.open(place / str(number), os.O_CREAT | os.O_RDWR) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "syncs_all", "each"),
    [(1, True, 1), (5, True, 0), (5, False, 5), (5, None, 5)],
    ids=["one", "several", "several in vain", "no call for several"],
)
def test_bring_uses_one_syncfs_for_several_files(
    count: int, syncs_all: bool | None, each: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If `syncfs` fails, `fsync` on each file finds the files with an error."""
    calls: list[tuple[str, int]] = []

    def sync_all(fd: int) -> bool:
        calls.append(("all", fd))
        return bool(syncs_all)

    def sync(fd: int) -> None:
        calls.append(("one", fd))
        if fd == fds[-1] and count > 1:
            raise OSError(errno.EIO, "broken")

    chosen: Callable[[int], bool] | None = None if syncs_all is None else sync_all
    monkeypatch.setattr(durable, "_sync_file_system", partial(lambda found: found, chosen))
    monkeypatch.setattr(os, "fsync", sync)
    fds = files(tmp_path, count)
    failed = durable.sync_files(fds)
    assert [kind for kind, _ in calls].count("one") == each
    assert set(failed) == ({fds[-1]} if each == count > 1 else set())
    for fd in fds:
        os.close(fd)


@pytest.mark.parametrize("has_error", [False, True])
def test_sync_files_on_fuse_syncs_each_file(
    has_error: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux reports a successful syncfs(2) on FUSE without an effect."""
    synced: list[int] = []

    def read_id(fd: int) -> SimpleNamespace:
        if has_error:
            raise OSError(errno.ENOSYS, "no statfs")
        return SimpleNamespace(f_fsid=0)

    monkeypatch.setattr(os, "statvfs", read_id)
    monkeypatch.setattr(os, "fsync", synced.append)
    fds = files(tmp_path, 5)
    assert durable.sync_files(fds) == {}
    assert synced == fds
    for fd in fds:
        os.close(fd)


def test_bring_syncs_real_files(tmp_path: Path) -> None:
    fds = files(tmp_path, 5)
    assert durable.sync_files(fds) == durable.sync_files(fds[:1]) == {}
    for fd in fds:
        os.close(fd)
    durable._sync_file_system.cache_clear()


@pytest.mark.parametrize("sync", ["group", "always"])
async def test_commit_without_free_thread_is_a_local_error(
    sync: Sync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both files fail, and a later commit of the same session succeeds."""
    commits = GroupCommit(sync)

    def refuse(*arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr("trio.to_thread.run_sync", refuse)
        said = await save_concurrently(tmp_path, commits, b"one", b"two")
    assert len(said) == 2
    assert all(os.strerror(errno.EAGAIN).lower() in each for each in said)
    assert {"one", "two"}.isdisjoint(os.listdir(tmp_path))
    await save(tmp_path / "three", b"three", commits)
    assert "three" in os.listdir(tmp_path)


@pytest.mark.parametrize("octets", [b"12345678", b"123456789"])
@pytest.mark.parametrize("sync", ["group", "always", "never"])
async def test_error_of_close_is_reported_before_file_has_its_name(
    sync: Sync, octets: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS reports an exceeded quota at a close; the received data may be lost."""
    copies: set[int] = set()
    duplicate, close = os.dup, os.close

    def remember(fd: int) -> int:
        copies.add(copy := duplicate(fd))
        return copy

    def fail(fd: int) -> None:
        close(fd)
        if fd in copies:
            copies.remove(fd)
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "dup", remember)
    monkeypatch.setattr(os, "close", fail)
    with pytest.raises(LocalError, match="quota"):
        await save(tmp_path / "got", octets, GroupCommit(sync))
    assert "got" not in os.listdir(tmp_path)


async def test_part_after_failed_sync_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed fsync, Linux may drop the data, so a later run must not resume the file."""
    monkeypatch.setattr(group_commit, "sync_files", Disk(tmp_path, b"12345678").sync_files)
    with pytest.raises(LocalError):
        await save(tmp_path / "got", b"123456789")
    assert os.listdir(tmp_path) == []
