"""The owner and mode of configuration files, short-lived secret files, and atomic replacement."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resolver import LocalError, NotConfigured
from resolver.cli.config import load
from resolver.cli.secrets import read_netrc
from resolver.cli.values import UsageError
from resolver.files.atomic import (
    MISSING,
    LedgerFile,
    check_writable,
    open_own,
    sync_file,
    update_own,
    write_temporary,
    write_whole,
)


def read(path: Path, *, secret: bool, most: int = 10) -> tuple[bytes, bool]:
    with open_own(str(path), "note", most, secret=secret) as file:
        return file.octets, file.private


@pytest.mark.parametrize(
    ("mode", "secret", "found"),
    [
        (0o600, False, True),
        (0o400, True, True),
        (0o644, False, False),
        (0o640, False, False),
        (0o664, False, "(mode 0664): chmod go-w"),
        (0o602, False, "chmod go-w"),
        (0o640, True, "chmod 600"),
        (0o604, True, "chmod 600"),
        (0o620, True, "(mode 0620): chmod 600"),
    ],
)
def test_open_own_checks_mode(tmp_path: Path, mode: int, secret: bool, found: bool | str) -> None:
    (tmp_path / "note").write_bytes(b"words")
    (tmp_path / "note").chmod(mode)
    if isinstance(found, bool):
        assert read(tmp_path / "note", secret=secret) == (b"words", found)
    else:
        with pytest.raises(NotConfigured) as caught:
            read(tmp_path / "note", secret=secret)
        assert found in caught.value.message
        assert "words" not in caught.value.message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_open_own_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "note").write_bytes(b"words")
    (tmp_path / "note").chmod(0o600)
    os.chown(tmp_path / "note", 65534, 65534)
    with pytest.raises(NotConfigured, match="another user's"):
        read(tmp_path / "note", secret=False)


def test_open_own_missing_large_or_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MISSING):
        read(tmp_path / "note", secret=True)
    (tmp_path / "note").write_bytes(b"12345678901")
    with pytest.raises(MISSING):
        read(tmp_path / "note" / "below", secret=True)
    with pytest.raises(NotConfigured, match="at most 10 "):
        read(tmp_path / "note", secret=False)
    with pytest.raises(NotConfigured, match="regular file"):
        read(tmp_path, secret=False)


def test_config_and_netrc_refuse_a_pipe_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for reader in (load, read_netrc):
        with pytest.raises(UsageError, match="regular file"):
            reader(str(tmp_path / "pipe"))


def test_write_temporary_removes_old_files(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    old, young = (write_temporary(str(folder), ".x", "test file", b"1", 60.0) for _ in range(2))
    for path, age in ((old, 100), (young, 50)):
        moment = os.stat(path).st_mtime - age
        os.utime(path, (moment, moment))
    (folder / "other").touch()
    os.utime(folder / "other", (1, 1))
    new = write_temporary(str(folder), ".x", "test file", b"2", 60.0)
    left = {str(folder / "other"), young, new}
    assert {str(each) for each in folder.iterdir()} == left
    assert (Path(new).read_bytes(), os.stat(new).st_mode & 0o777) == (b"2", 0o600)
    assert os.stat(folder).st_mode & 0o777 == 0o700


# `write_whole`: a reader sees the previous file or the complete new file.


def test_write_whole_replaces_file(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    for octets in (b"one", b"two"):
        check_writable(str(path))
        write_whole(str(path), octets)
        assert path.read_bytes() == octets
        assert os.listdir(tmp_path) == ["page.html"]


def test_write_whole_follows_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("page.html")
    write_whole(str(tmp_path / "link"), b"one")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "page.html").read_bytes() == b"one"


def test_sync_file_without_fdatasync_syncs_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MacOS lacks fdatasync(2)."""
    synced: list[int] = []
    monkeypatch.delattr(os, "fdatasync", raising=False)
    monkeypatch.setattr(os, "fsync", synced.append)
    sync_file(7, data_only=True)
    assert synced == [7]


def test_write_whole_failure_keeps_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(b"before")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LocalError, match="no space left on device"):
        write_whole(str(path), b"after")
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["page.html"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gone/page.html", "directory .*gone' does not exist$"),
        ("dir", "regular file"),
        ("file/page", "not a directory"),
    ],
)
def test_check_writable_reports_invalid_path(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(LocalError, match=words):
        check_writable(str(tmp_path / name))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_check_writable_reports_unwritable_directory(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir(mode=0o500)
    with pytest.raises(LocalError, match=r"page\.html': .*dir' is not writable$"):
        check_writable(str(tmp_path / "dir" / "page.html"))


@pytest.mark.parametrize("kind", ["ledger", "cookies"])
def test_private_file_without_permissions_is_removed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAT gives each file the permissions of the mount, so chmod has no effect."""

    def fat_mode(status: os.stat_result) -> os.stat_result:
        return os.stat_result([status.st_mode | 0o077, *status[1:]])

    def open_file() -> None:
        if kind == "ledger":
            LedgerFile(str(tmp_path / kind)).acquire()
        else:
            update_own(str(tmp_path / kind), kind, 100, lambda octets: octets)

    stat_descriptor = os.fstat
    monkeypatch.setattr(os, "fstat", lambda fd: fat_mode(stat_descriptor(fd)))
    with pytest.raises(LocalError, match="does not store permissions: name a file on another"):
        open_file()
    assert os.listdir(tmp_path) == []
    (tmp_path / kind).write_bytes(b"old")
    with pytest.raises(LocalError, match="chmod 600"):
        open_file()
    assert (tmp_path / kind).read_bytes() == b"old"


def test_ledger_file_close_error_is_ignored(tmp_path: Path) -> None:
    """SQLite writes the ledger through other descriptors, so this error loses no data."""
    file = LedgerFile(str(tmp_path / "ledger"))
    file.acquire()
    os.close(file._fd)
    file.close()
    file.acquire()
    file.close()
