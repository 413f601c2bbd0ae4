"""Resuming a partial file of an earlier run; all other files stay unchanged (S14)."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from resolver import LocalError, Validators
from resolver.files.directory import DirectoryHandle
from resolver.files.names import NameTaken
from resolver.files.part import Existing, Segment
from resolver.files.partial_file import PartialFile, finish_killed_run

SOURCE = "http://h.example/got"
HALF = b"half of it"
NOBODY = 65_534


async def begin(path: Path, source: str = SOURCE) -> None:
    """Leave the partial file of an interrupted run."""
    async with PartialFile(str(path), source=source) as sink:
        await sink.remember(Validators(size=20))
        sink.write(HALF)


async def go_on(path: Path, exists: Existing = "fail", *, adopt: bool = False) -> tuple[int, str | None]:
    """Finish the file in a second run; return the resume position and the reason why data was dropped."""
    async with PartialFile(str(path), source=SOURCE, exists=exists, adopt=adopt) as sink:
        position = sink.position
        await sink.remember(Validators(size=20))
        sink.write(b"+")
        await sink.commit()
    return position, sink.dropped


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return the metadata and content of each file in a directory."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.iterdir()):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
        facts = (status.st_ino, status.st_mode, status.st_uid, status.st_nlink, status.st_mtime_ns)
        found[path.name] = (*facts, content)
    return found


@pytest.fixture(name="attributes")
def _attributes(tmp_path: Path) -> None:
    (tmp_path / "probe").touch()
    try:
        os.setxattr(tmp_path / "probe", "user.probe", b"")
    except (OSError, AttributeError):
        pytest.skip("the file system has no attributes")
    os.unlink(tmp_path / "probe")


# Partial files of an earlier run.


async def test_part_of_interrupted_run_is_resumed(tmp_path: Path) -> None:
    await begin(tmp_path / "got")
    assert sorted(os.listdir(tmp_path)) == ["got.part", "got.part-state"]
    assert await go_on(tmp_path / "got") == (len(HALF), None)
    assert (tmp_path / "got").read_bytes() == HALF + b"+"
    assert os.listdir(tmp_path) == ["got"]
    assert [name for name in getattr(os, "listxattr", lambda _: [])(tmp_path / "got") if "part" in name] == []


@pytest.mark.parametrize("adopt", [False, True])
async def test_file_system_that_reports_no_links_resumes_and_names_part(
    adopt: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some FUSE file systems report 0 links for each file, so Linux refuses link(2) with ENOENT."""

    def without_links(status: os.stat_result) -> os.stat_result:
        return os.stat_result([*status[:3], 0, *status[4:]])

    def refuse(*arguments: object, **more: object) -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    stat_file, stat_descriptor = os.stat, os.fstat
    monkeypatch.setattr(os, "stat", lambda *names, **more: without_links(stat_file(*names, **more)))
    monkeypatch.setattr(os, "fstat", lambda fd: without_links(stat_descriptor(fd)))
    monkeypatch.setattr(os, "link", refuse)
    if adopt:
        (tmp_path / "got").write_bytes(HALF)
    else:
        await begin(tmp_path / "got")
    assert await go_on(tmp_path / "got", adopt=adopt) == (len(HALF), None)
    assert (tmp_path / "got").read_bytes() == HALF + b"+"
    assert os.listdir(tmp_path) == ["got"]


async def test_part_that_cannot_be_removed_fails_with_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory with the attribute `a` (chattr) permits the creation of a file, but not its removal."""

    def refuse(name: str, *, dir_fd: int | None = None) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    (tmp_path / "got.part").touch(0o644)
    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(LocalError, match="operation not permitted"):
        await go_on(tmp_path / "got")


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o000, 0o077])
async def test_part_is_not_group_writable_until_commit(umask: int, tmp_path: Path) -> None:
    """Otherwise, users with umask 002 could not resume any file: group-writable files are refused."""
    before = os.umask(umask)
    try:
        await begin(tmp_path / "got")
        for name in ("got.part", "got.part-state"):
            assert not (tmp_path / name).stat().st_mode & 0o022
        os.umask(0o022)  # the umask of the first run counts
        assert await go_on(tmp_path / "got") == (len(HALF), None)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "got").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("mode", [0o644, 0o664, 0o666, 0o600, 0o755])
@pytest.mark.parametrize("end", ["more", "nothing", "killed", "restarted"])
async def test_adopted_file_keeps_mode(mode: int, end: str, tmp_path: Path) -> None:
    path = tmp_path / "got"
    path.write_bytes(HALF)
    path.chmod(mode)
    if end == "killed":  # after the state was written and the mode was changed
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DirectoryHandle, "replace", _refuse_but_the_state)
            with pytest.raises(LocalError, match="operation not permitted"):
                await go_on(path, adopt=True)
    if end == "restarted":
        async with PartialFile(str(path), source=SOURCE, adopt=True) as sink:
            sink.restart()
            assert stat.S_IMODE(path.stat().st_mode) == mode
    if end == "nothing":
        async with PartialFile(str(path), source=SOURCE, adopt=True) as sink:
            assert not (tmp_path / "got.part").stat().st_mode & 0o022
    if end in ("more", "killed"):
        assert await go_on(path, adopt=True) == (len(HALF), None)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert os.listdir(tmp_path) == ["got"]


async def leave_adopted(path: Path) -> None:
    """Leave an existing file under the name of the partial file, as a run that is killed after the rename."""

    def refuse(*arguments: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DirectoryHandle, "rename", refuse)
        async with PartialFile(str(path), source=SOURCE, adopt=True):
            pass
    assert sorted(os.listdir(path.parent)) == ["got.part", "got.part-state"]


@pytest.mark.parametrize("adopt", [True, False])
@pytest.mark.parametrize("content", [HALF, b""])
async def test_existing_file_of_killed_run_stays_if_next_run_fails(
    content: bytes, adopt: bool, tmp_path: Path
) -> None:
    path = tmp_path / "got"
    path.write_bytes(content)
    inode = path.stat().st_ino
    await leave_adopted(path)
    with suppress(ConnectionError):
        async with PartialFile(str(path), source=SOURCE, adopt=adopt) as sink:
            assert sink.position == len(content)
            raise ConnectionError
    assert (path.read_bytes(), path.stat().st_ino) == (content, inode)
    assert os.listdir(tmp_path) == ["got"]


async def test_existing_file_with_more_bytes_is_never_removed(tmp_path: Path) -> None:
    """Without validators, other partial files are removed after an error."""
    (tmp_path / "got").write_bytes(HALF)
    async with PartialFile(str(tmp_path / "got"), source=SOURCE, adopt=True) as sink:
        sink.write(b"+")
    async with PartialFile(str(tmp_path / "got"), source=SOURCE) as sink:
        pass
    assert sorted(os.listdir(tmp_path)) == ["got.part", "got.part-state"]
    assert await go_on(tmp_path / "got") == (len(HALF) + 1, None)


@pytest.mark.parametrize("is_copied", [False, True])
async def test_existing_file_of_killed_run_stays_if_object_changed(is_copied: bool, tmp_path: Path) -> None:
    path, part = tmp_path / "got", tmp_path / "got.part"
    path.write_bytes(HALF)
    await leave_adopted(path)
    if is_copied:
        shutil.copy2(part, tmp_path / "copy")
        os.replace(tmp_path / "copy", part)
    async with PartialFile(str(path), source=SOURCE, adopt=True) as sink:
        if not is_copied:
            sink.restart()
        assert (path.read_bytes(), part.read_bytes()) == (HALF, b"")
    assert path.read_bytes() == HALF
    assert os.listdir(tmp_path) == ["got"]


@pytest.mark.parametrize("source", [SOURCE, SOURCE + "2"])
async def test_existing_file_of_killed_run_is_not_replaced(source: str, tmp_path: Path) -> None:
    async def restart() -> None:
        async with PartialFile(str(path), source=source) as sink:
            await sink.remember(Validators(size=20))
            sink.restart()

    path = tmp_path / "got"
    path.write_bytes(HALF)
    await leave_adopted(path)
    with pytest.raises(NameTaken):
        await restart()
    assert path.read_bytes() == HALF
    assert os.listdir(tmp_path) == ["got"]


def _refuse_but_the_state(self: DirectoryHandle, old: str, new: str) -> None:
    if new.endswith(".part"):
        raise PermissionError(1, "Operation not permitted")
    os.replace(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)


async def test_disk_error_of_state_after_rename_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status_of = DirectoryHandle.status_of

    def fail(self: DirectoryHandle, name: str) -> os.stat_result | None:
        if name.endswith(".part-state") and status_of(self, "got") is not None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return status_of(self, name)

    await begin(tmp_path / "got")
    with monkeypatch.context() as patch:
        patch.setattr(DirectoryHandle, "status_of", fail)
        assert await go_on(tmp_path / "got") == (len(HALF), None)
    assert (tmp_path / "got").read_bytes() == HALF + b"+"
    assert sorted(os.listdir(tmp_path)) == ["got", "got.part-state"]


@pytest.mark.parametrize("again", ["fail", "replace", "adopt", "kept"])
async def test_state_that_cannot_be_removed_is_removed_by_next_run(
    again: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep_state(self: DirectoryHandle, name: str) -> None:
        if not name.endswith(".part-state"):
            os.unlink(name, dir_fd=self.fd)

    path = tmp_path / "got"
    with monkeypatch.context() as patch:
        patch.setattr(DirectoryHandle, "forget", keep_state)
        await begin(path)
        assert await go_on(path) == (len(HALF), None)
    assert sorted(os.listdir(tmp_path)) == ["got", "got.part-state"]
    if again == "kept":
        finish_killed_run(str(path), f"{SOURCE}/other")
        assert sorted(os.listdir(tmp_path)) == ["got", "got.part-state"]
        finish_killed_run(str(path), SOURCE)
    else:
        async with PartialFile(
            str(path),
            source=SOURCE,
            exists="replace" if again == "replace" else "fail",
            adopt=again == "adopt",
        ) as sink:
            assert sink.finished == (again == "fail")
    assert os.listdir(tmp_path) == ["got"]
    assert path.read_bytes() == HALF + b"+"
    assert [name for name in getattr(os, "listxattr", lambda _: [])(path) if "part" in name] == []


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="extended attributes exist on Linux only")
async def test_existing_file_without_space_for_token_is_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the token, the next run would refuse the renamed file."""

    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "got").write_bytes(HALF)
    before = snapshot(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "setxattr", refuse)
        with pytest.raises(LocalError, match="no space left"):
            await go_on(tmp_path / "got", adopt=True)
    assert snapshot(tmp_path) == before
    assert await go_on(tmp_path / "got", adopt=True) == (len(HALF), None)


async def test_empty_part_is_restarted(tmp_path: Path) -> None:
    """A run was killed before it wrote the state; other processes may have opened the file at that time."""
    (tmp_path / "got.part").touch()
    (tmp_path / "got.part").chmod(0o666)
    other = os.open(tmp_path / "got.part", os.O_WRONLY)
    async with PartialFile(str(tmp_path / "got"), source=SOURCE) as sink:
        os.write(other, b"of another")
        assert sink.position == 0
        sink.write(b"ours")
        await sink.commit()
    os.close(other)
    assert (tmp_path / "got").read_bytes() == b"ours"
    assert os.listdir(tmp_path) == ["got"]


# Files that cannot be proven to be partial files of this user.


@dataclass(frozen=True)
class Place:
    """A directory with the partial file and the state of an interrupted run."""

    folder: Path

    @property
    def part(self) -> Path:
        return self.folder / "got.part"

    @property
    def state(self) -> Path:
        return self.folder / "got.part-state"

    def rewrite(self, **changed: object) -> None:
        self.state.write_text(json.dumps({**json.loads(self.state.read_text()), **changed}))

    def inode(self) -> int:
        return self.part.stat().st_ino


def _copied(place: Place) -> None:
    place.part.rename(place.folder / "old")
    shutil.copyfile(place.folder / "old", place.part)


def _forged(place: Place) -> None:
    """Simulate an attacker who controls names and contents only: a state that matches, without a token."""
    place.part.unlink()
    place.part.write_bytes(b"evil")
    place.rewrite(inode=place.inode(), token=None)


def _copied_and_named(place: Place) -> None:
    _copied(place)
    place.rewrite(inode=place.inode())


def _made(make: Callable[[Path], None], place: Place) -> None:
    place.part.unlink()
    make(place.part)


def _linked(path: Path) -> None:
    (path.parent / "second").hardlink_to(path)


def _moved(path: Path) -> None:
    path.rename(path.parent / "moved")
    path.symlink_to("moved")


#: Changes to the two files between two runs, after which the next run must not resume.
TAMPERED: dict[str, Callable[[Place], object]] = {
    "another file of the same octets": _copied,
    "another file with its number in the state": _copied_and_named,
    "a stranger's pair": _forged,
    "a state of another device": lambda place: place.rewrite(device=1, token="0"),
    "a state of another file": lambda place: place.rewrite(inode=1, token="0"),
    "a state with another token": lambda place: place.rewrite(token="0" * 32),
    "a part that the group may write to": lambda place: place.part.chmod(0o664),
    "a part that all may write to": lambda place: place.part.chmod(0o646),
    "a part with two names": lambda place: _linked(place.part),
    "a part that is a link": lambda place: _moved(place.part),
    "a state that the group may write to": lambda place: place.state.chmod(0o620),
    "a state that all may write to": lambda place: place.state.chmod(0o602),
    "a state with two names": lambda place: _linked(place.state),
    "a state that is a link": lambda place: _moved(place.state),
    "a state in other words": lambda place: place.state.write_text(f'{{"url": "{SOURCE}"}}'),
    "a folder": partial(_made, Path.mkdir),
    "a pipe": partial(_made, os.mkfifo),
}


@pytest.mark.usefixtures("attributes")
@pytest.mark.parametrize("exists", ["fail", "replace"])
@pytest.mark.parametrize("tamper", TAMPERED.values(), ids=TAMPERED)
async def test_tampered_part_is_refused_and_unchanged(
    tamper: Callable[[Place], object], exists: Existing, tmp_path: Path
) -> None:
    await begin(tmp_path / "got")
    tamper(Place(tmp_path))
    before = snapshot(tmp_path)
    with pytest.raises(LocalError, match=r"got\.part(-state)?' .*remove it"):
        async with PartialFile(str(tmp_path / "got"), source=SOURCE, exists=exists):
            raise AssertionError("entered")
    assert snapshot(tmp_path) == before


@pytest.mark.usefixtures("attributes")
@pytest.mark.parametrize("left", [None, 0, 60])
async def test_part_whose_state_is_lost_is_restarted(left: int | None, tmp_path: Path) -> None:
    """A loss of power may leave an empty state file, because the state is not synced."""
    await begin(tmp_path / "got")
    state = Place(tmp_path).state
    state.unlink() if left is None else os.truncate(state, left)
    resumed_from, dropped = await go_on(tmp_path / "got")
    assert (resumed_from, "state" in str(dropped)) == (0, True)
    assert (tmp_path / "got").read_bytes() == b"+"
    assert os.listdir(tmp_path) == ["got"]


@pytest.mark.usefixtures("attributes")
@pytest.mark.parametrize("to", ["got", "elsewhere/got"])
async def test_copied_part_with_mark_is_restarted(to: str, tmp_path: Path) -> None:
    """This may be a restored backup that is older than its state."""
    await begin(tmp_path / "got")
    target = tmp_path / to
    target.parent.mkdir(exist_ok=True)
    part = tmp_path / "got.part"
    part.rename(tmp_path / "old")
    shutil.copy2(tmp_path / "old", f"{target}.part")
    if target.parent != tmp_path:
        shutil.copy2(tmp_path / "got.part-state", f"{target}.part-state")
    resumed_from, dropped = await go_on(target)
    assert (resumed_from, "copy" in str(dropped)) == (0, True)
    assert target.read_bytes() == b"+"
    assert (tmp_path / "old").read_bytes() == HALF


@pytest.mark.usefixtures("attributes")
async def test_reused_inode_is_not_complete(tmp_path: Path) -> None:
    """A run was killed after it finished; the file was removed, and its inode number was reused."""
    await begin(tmp_path / "other")
    place = Place(tmp_path)
    (tmp_path / "got").write_bytes(b"another")
    (tmp_path / "other.part-state").rename(place.state)
    place.rewrite(complete=True, inode=(tmp_path / "got").stat().st_ino)
    with pytest.raises(LocalError, match="already"):
        await go_on(tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == b"another"


# Files of other users, in a shared directory.


def _gives_away(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)


@pytest.fixture(name="somebody", params=["chown", "pretended"])
def _somebody(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Path], None]]:
    """Yield a function that makes a file another user's, by chown or by a changed effective user id."""
    if request.param == "chown":
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        yield _gives_away
    else:
        us = os.geteuid()
        yield lambda path: monkeypatch.setattr(os, "geteuid", lambda: us + 1)


@pytest.mark.parametrize("name", ["got.part", "got.part-state", "got.part-state.new"])
@pytest.mark.parametrize("exists", ["fail", "replace"])
async def test_part_files_of_another_user_are_refused(
    name: str, exists: Existing, somebody: Callable[[Path], None], tmp_path: Path
) -> None:
    """Otherwise, the finished file would belong to the other user and might contain their data."""
    await begin(tmp_path / "got")
    if name.endswith(".new"):
        shutil.copy2(tmp_path / "got.part-state", tmp_path / name)
    somebody(tmp_path / name)
    before = snapshot(tmp_path)
    with pytest.raises(LocalError, match=r"\.part.*remove it"):
        await go_on(tmp_path / "got", exists)
    assert snapshot(tmp_path) == before


async def test_empty_part_of_another_user_is_refused(
    somebody: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "got.part").touch()
    somebody(tmp_path / "got.part")
    before = snapshot(tmp_path)
    with pytest.raises(LocalError, match=r"got\.part' .*remove it"):
        await go_on(tmp_path / "got")
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("how", ["another user's", "two names"])
async def test_adopting_shared_file_is_refused(
    how: str, somebody: Callable[[Path], None], tmp_path: Path
) -> None:
    """With --exists resume, the data would change another file too, or would belong to another user."""
    (tmp_path / "got").write_bytes(HALF)
    if how == "two names":
        (tmp_path / "second").hardlink_to(tmp_path / "got")
    else:
        somebody(tmp_path / "got")
    before = snapshot(tmp_path)
    with pytest.raises(LocalError) as caught:
        await go_on(tmp_path / "got", adopt=True)
    assert caught.value.setting == "exists replace"
    assert snapshot(tmp_path) == before


async def test_group_writable_part_is_not_kept(tmp_path: Path) -> None:
    """The mode was changed during the transfer, so no later run could trust the partial file."""
    async with PartialFile(str(tmp_path / "got"), source=SOURCE) as sink:
        (tmp_path / "got.part").chmod(0o666)
        await sink.remember(Validators(size=20))
        sink.write(HALF)
    assert os.listdir(tmp_path) == []


# The user's files that have such names.


@pytest.mark.parametrize("name", ["got.part-state", "got.part-state.new"])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("exists", ["fail", "replace"])
async def test_user_file_with_state_name_is_refused_and_unchanged(
    name: str, when: str, exists: Existing, tmp_path: Path
) -> None:
    own = tmp_path / name
    if when == "before":
        own.write_text("mine")

    async def run() -> None:
        async with PartialFile(str(tmp_path / "got"), source=SOURCE, exists=exists) as sink:
            assert when == "meanwhile", "entered"
            await sink.remember(Validators(size=20))
            sink.write(HALF)
            own.unlink(missing_ok=True)
            own.write_text("mine")
            await sink.commit()

    with pytest.raises(LocalError, match=f"{name}' .*remove it"):
        await run()
    assert own.read_text() == "mine"
    assert "got" not in os.listdir(tmp_path)


async def test_part_that_cannot_be_locked_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> bool:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("resolver.files.part.lock", fail)
    with pytest.raises(LocalError, match=r"(?i)no locks available"):
        await begin(tmp_path / "got")
    assert os.listdir(tmp_path) == []


async def test_part_whose_mode_is_unknown_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fstat = os.fstat

    def fail(fd: int) -> os.stat_result:
        if stat.S_ISREG((found := fstat(fd)).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return found

    monkeypatch.setattr(os, "fstat", fail)
    with pytest.raises(LocalError, match="input/output error"):
        await begin(tmp_path / "got")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == []


def test_segment_close_error_is_a_local_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system may report a write error when the file is closed."""

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    fd = os.open(tmp_path / "got.part", os.O_RDWR | os.O_CREAT)
    segment = Segment(fd, "got", 0, 10)
    segment.write(b"octets")
    monkeypatch.setattr("os.close", fail)
    with pytest.raises(LocalError, match="cannot write"):
        segment.__exit__(None, None, None)
    monkeypatch.undo()
    assert segment.position == 6
    os.close(fd)
