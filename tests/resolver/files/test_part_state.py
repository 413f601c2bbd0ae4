"""The state file of a partial file (atomic write, validation, owner) and the identity mark (S14)."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from resolver import LocalError, Validators
from resolver.files.directory import DirectoryHandle
from resolver.files.part_state import (
    FileIdentity,
    PartState,
    forget_state,
    is_guarded,
    is_own,
    put_mark,
    read_state,
    remove_mark,
    write_state,
)

WHEN = datetime(1994, 11, 6, 8, 49, 37, 500_000, tzinfo=UTC)
MARK = FileIdentity(64_769, 12, "0123456789abcdef")
GOOD = {
    "format": "url-resolver part state 1",
    "url": "ftp://h.example/a",
    "size": 5,
    "modified": 1.5,
    "etag": None,
    "device": 64_769,
    "inode": 12,
    "token": None,
    "withheld": 0o022,
    "complete": False,
}


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[DirectoryHandle]:
    held = DirectoryHandle(str(tmp_path), make=False)
    held.hold()
    yield held
    held.close()


def put(path: Path, octets: bytes) -> None:
    path.write_bytes(octets)
    path.chmod(0o600)


@pytest.mark.parametrize(
    "state",
    [
        PartState("ftp://h.example/a", Validators(), MARK),
        PartState(
            "http://h.example/\udcff\u2028",
            Validators(size=1 << 60, modified=WHEN, etag='"\xe9"'),
            MARK,
            0o002,
        ),
        PartState("x" * 65_536, Validators(size=0), FileIdentity(1 << 63, 1 << 63, None), complete=True),
    ],
)
@pytest.mark.parametrize("umask", [0o022, 0o000])
def test_state_round_trip(state: PartState, umask: int, directory: DirectoryHandle, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        assert write_state("state", directory, PartState("of an earlier run", Validators(size=9), MARK))
        assert write_state("state", directory, state)
    finally:
        os.umask(before)
    assert read_state("state", directory) == state
    assert os.listdir(tmp_path) == ["state"]
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o600
    forget_state("state", directory)
    assert os.listdir(tmp_path) == []


def _good(**changed: object) -> bytes:
    return json.dumps({**GOOD, **changed}).encode()


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"{",
        _good()[:60],
        _good()[:-1],
        _good()[:60] + b"[" * 100_000,
        _good(format="url-resolver part state 3"),
        _good(url=1),
        _good(size="5"),
        _good(modified=1e300),
        _good(modified="1994"),
        _good(etag=1),
        _good(device=None),
        _good(inode="12"),
        _good(token=1),
        _good(withheld=None),
        _good(complete=1),
        json.dumps({name: value for name, value in GOOD.items() if name != "complete"}).encode(),
    ],
)
def test_read_state_invalid_content_is_none(
    octets: bytes, directory: DirectoryHandle, tmp_path: Path
) -> None:
    """The content starts like a valid state: a killed run or a later version wrote it."""
    put(tmp_path / "state", octets)
    put(tmp_path / "state.new", octets)
    assert read_state("state", directory) is None
    assert write_state("state", directory, PartState("ftp://h.example/b", Validators(), MARK))
    assert os.listdir(tmp_path) == ["state"]


def test_read_state_missing_file_is_none(directory: DirectoryHandle, tmp_path: Path) -> None:
    assert read_state("missing", directory) is None
    put(tmp_path / "good", _good())
    assert read_state("good", directory) is not None


def _made(place: Path, how: str) -> None:
    """Make a file that is not a state file of this program, or that other users can change."""
    put(place.parent / "good", _good())
    match how:
        case "link":
            place.symlink_to("good")
        case "hard link":
            place.hardlink_to(place.parent / "good")
        case "folder":
            place.mkdir()
        case "pipe":
            os.mkfifo(place, 0o600)
        case _:
            put(place, {"json": b'{"my": "own"}', "list": b"[]", "octets": b"\xff\xfe"}.get(how, _good()))
            place.chmod({"group": 0o620, "others": 0o602}.get(how, 0o600))


@pytest.mark.parametrize("name", ["state", "state.new"])
@pytest.mark.parametrize(
    "how", ["json", "list", "octets", "link", "hard link", "folder", "pipe", "group", "others"]
)
def test_foreign_state_file_is_refused_and_unchanged(
    how: str, name: str, directory: DirectoryHandle, tmp_path: Path
) -> None:
    _made(tmp_path / name, how)
    before = (tmp_path / name).lstat()
    for act in (
        lambda: read_state("state", directory),
        lambda: write_state("state", directory, PartState("ftp://h.example/b", Validators(), MARK)),
        lambda: forget_state("state", directory),
    ):
        with pytest.raises(LocalError, match=f"/{name}' .*remove it"):
            act()
    assert (tmp_path / name).lstat() == before
    assert sorted(os.listdir(tmp_path)) == sorted(["good", name])


def test_write_state_without_modes_writes_nothing(
    directory: DirectoryHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems show mode 0777 for every file, so a state there could not be trusted later."""
    create = DirectoryHandle.create
    monkeypatch.setattr(DirectoryHandle, "create", lambda self, name, mode: _opened(create(self, name, mode)))
    assert not write_state("state", directory, PartState("ftp://h.example/a", Validators(), MARK))
    assert os.listdir(tmp_path) == []


def _opened(fd: int) -> int:
    os.fchmod(fd, 0o777)
    return fd


def test_write_state_failure_keeps_old_state(
    directory: DirectoryHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = PartState("ftp://h.example/a", Validators(size=1), MARK)
    write_state("state", directory, old)

    def full(*arguments: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space"):
            write_state("state", directory, PartState("ftp://h.example/b", Validators(), MARK))
    assert read_state("state", directory) == old
    assert os.listdir(tmp_path) == ["state"]


# The identity mark: it identifies the file of an earlier run, and no other file (S14).


@contextmanager
def opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield fd
    finally:
        os.close(fd)


def marked(path: Path) -> FileIdentity:
    with opened(path) as fd:
        return put_mark(fd)


@pytest.fixture(name="attributes")
def _attributes(tmp_path: Path) -> None:
    if marked(tmp_path / "probe").token is None:
        pytest.skip("the file system has no attributes")


@pytest.fixture(name="bare")
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a file system without extended attributes."""

    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    for name in ("setxattr", "getxattr", "removexattr"):
        monkeypatch.setattr(os, name, refuse, raising=False)


def test_mark_identifies_renamed_file(tmp_path: Path) -> None:
    mark = marked(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"more")
    os.rename(tmp_path / "a", tmp_path / "b")
    with opened(tmp_path / "b") as fd:
        assert mark.is_on(fd)
        assert not mark.is_copied_to(fd)
        assert put_mark(fd) != mark or mark.token is None


def test_mark_differs_for_another_file(tmp_path: Path) -> None:
    mark = marked(tmp_path / "a")
    marked(tmp_path / "b")
    with opened(tmp_path / "b") as fd:
        assert not mark.is_on(fd)
        assert not mark.is_copied_to(fd)


@pytest.mark.usefixtures("attributes")
def test_mark_detects_copy(tmp_path: Path) -> None:
    mark = marked(tmp_path / "a")
    shutil.copy2(tmp_path / "a", tmp_path / "whole")
    shutil.copy(tmp_path / "a", tmp_path / "octets")
    with opened(tmp_path / "whole") as fd:
        assert (mark.is_on(fd), mark.is_copied_to(fd)) == (False, True)
    with opened(tmp_path / "octets") as fd:
        assert (mark.is_on(fd), mark.is_copied_to(fd)) == (False, False)


@pytest.mark.usefixtures("attributes")
def test_mark_without_matching_token_is_refused(tmp_path: Path) -> None:
    """File systems reuse the inode numbers of removed files, and other users can read the numbers."""
    mark = marked(tmp_path / "a")
    with opened(tmp_path / "a") as fd:
        assert not mark._replace(token=None).is_on(fd)
        assert not mark._replace(token="0" * 32).is_on(fd)
        assert mark.is_on(fd)  # is_on() changes nothing
        remove_mark(fd)
        assert not mark.is_on(fd)
        assert not mark._replace(token=None).is_on(fd)  # the call puts a token to probe, and removes it
        remove_mark(fd)  # a second call has no effect


@pytest.mark.usefixtures("bare")
def test_mark_without_attributes_uses_inode(tmp_path: Path) -> None:
    mark = marked(tmp_path / "a")
    assert mark.token is None
    with opened(tmp_path / "a") as fd:
        remove_mark(fd)
        assert mark.is_on(fd)
        assert not mark.is_copied_to(fd)
        assert not mark._replace(token="0" * 32).is_on(fd)
        assert not mark._replace(device=mark.device + 1).is_on(fd)
        assert not mark._replace(inode=mark.inode + 1).is_on(fd)


@pytest.mark.parametrize(
    ("mode", "own", "guarded"),
    [(0o600, True, True), (0o644, True, True), (0o664, True, False), (0o646, True, False)],
)
def test_is_own_and_is_guarded_check_owner_mode_and_links(
    mode: int, own: bool, guarded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.touch()
    path.chmod(mode)
    assert (is_own(path.lstat()), is_guarded(path.lstat())) == (own, guarded)
    somebody = os.geteuid() + 1
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: somebody)
        assert (is_own(path.lstat()), is_guarded(path.lstat())) == (False, False)
    (tmp_path / "b").hardlink_to(path)
    assert (is_own(path.lstat()), is_guarded(path.lstat())) == (False, False)


def test_is_own_is_false_for_special_files(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert [is_own(path.lstat()) for path in (tmp_path, *tmp_path.iterdir())] == [False] * 3
