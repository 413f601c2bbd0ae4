"""Removal of directories that were made for a file, if the file is not saved."""

from __future__ import annotations

import errno
import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from resolver import LocalError, Validators
from resolver.files.directory import DirectoryHandle, OutputDirectory
from resolver.files.faults import DirectoryGone
from resolver.files.names import make_directory
from resolver.files.partial_file import PartialFile

#: Whether the file is opened anywhere, or below a directory and without symbolic links.
WAYS = pytest.mark.parametrize("is_below", [False, True], ids=["anywhere", "below"])


def file_of(top: Path, name: str, *, is_below: bool, holds: int = 0) -> PartialFile:
    below = f"{top}/" if is_below else None
    return PartialFile(str(top / name), make_directory=True, below=below, max_buffered=holds)


def below(top: Path) -> list[str]:
    """Return the relative paths of all entries in the tree."""
    return sorted(str(path.relative_to(top)) for path in top.rglob("*"))


@WAYS
@pytest.mark.parametrize("holds", [0, 100])
async def test_made_directory_without_file_is_removed(holds: int, is_below: bool, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    async with file_of(tmp_path, "there/host/ab/name", is_below=is_below, holds=holds):
        assert (tmp_path / "there/host/ab").is_dir()
    assert below(tmp_path) == ["there"]


@WAYS
async def test_made_directory_with_file_stays(is_below: bool, tmp_path: Path) -> None:
    async with file_of(tmp_path, "host/ab/name", is_below=is_below) as sink:
        await sink.commit()
    assert (tmp_path / "host/ab/name").exists()


async def test_made_directory_with_part_stays(tmp_path: Path) -> None:
    async with file_of(tmp_path, "host/ab/name", is_below=False) as sink:
        await sink.remember(Validators(size=20))
        sink.write(b"half of it")
    assert (tmp_path / "host/ab/name.part").exists()


@WAYS
async def test_made_directory_is_removed_by_last_user(is_below: bool, tmp_path: Path) -> None:
    async with AsyncExitStack() as first:
        await first.enter_async_context(file_of(tmp_path, "host/ab/one", is_below=is_below))
        async with file_of(tmp_path, "host/ab/two", is_below=is_below):
            await first.aclose()
            assert (tmp_path / "host/ab").is_dir()
        assert below(tmp_path) == []


@WAYS
async def test_made_directory_stays_if_another_file_is_saved(is_below: bool, tmp_path: Path) -> None:
    one, two = (file_of(tmp_path, f"host/ab/{name}", is_below=is_below, holds=100) for name in ("one", "two"))
    async with one, two as sink:
        sink.write(b"two")
        await sink.commit()
    assert (tmp_path / "host/ab/two").read_bytes() == b"two"


@WAYS
@pytest.mark.parametrize("is_large", [False, True])
async def test_removed_directory_is_made_again(is_large: bool, is_below: bool, tmp_path: Path) -> None:
    """The other process may remove it because nothing is written to it yet."""
    async with file_of(tmp_path, "host/ab/name", is_below=is_below, holds=100) as sink:
        os.rmdir(tmp_path / "host/ab")
        os.rmdir(tmp_path / "host")
        if is_large:
            sink.create_part()
        sink.write(b"all of it")
        await sink.commit()
    assert (tmp_path / "host/ab/name").read_bytes() == b"all of it"


@WAYS
def test_directory_removed_before_open_is_made_again(
    is_below: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is removed between `mkdir` and `open`, three times."""
    mkdir, taken = os.mkdir, list[object]()

    def lost(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        mkdir(path, mode, dir_fd=dir_fd)
        if len(taken) < 3:
            taken.append(path)
            os.rmdir(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", lost)
    below = f"{tmp_path}/" if is_below else None
    directory = DirectoryHandle(str(tmp_path / "host/ab"), make=True, below=below)
    directory.hold()
    directory.close()
    assert len(taken) == 3
    assert (tmp_path / "host/ab").is_dir()


async def test_directory_made_by_user_call_stays(tmp_path: Path) -> None:
    async with file_of(tmp_path, "host/ab/name", is_below=True):
        make_directory(str(tmp_path / "host/ab"), f"{tmp_path}/")
    assert (tmp_path / "host/ab").is_dir()


async def test_replaced_directory_is_not_removed(tmp_path: Path) -> None:
    async with file_of(tmp_path, "host/name", is_below=False, holds=100):
        (tmp_path / "host").rename(tmp_path / "other")
        (tmp_path / "host").mkdir()
    assert below(tmp_path) == ["host", "other"]


async def test_directory_made_through_link_is_removed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(LocalError, match="symbolic link"):
        async with file_of(tmp_path, "link/host/name", is_below=True):
            pass
    assert below(tmp_path) == ["elsewhere", "link"]


async def test_file_as_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "host").touch()
    with pytest.raises(LocalError, match="host"):
        async with file_of(tmp_path, "host/ab/name", is_below=False):
            pass


def test_output_directory_check_ignores_error_of_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system without memory does not mean that the directory was removed."""
    directory = OutputDirectory(str(tmp_path))
    directory.check()

    def fail(fd: int) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    with monkeypatch.context() as patch:
        patch.setattr("os.fstat", fail)
        directory.check()
    tmp_path.rmdir()
    with pytest.raises(DirectoryGone):
        directory.check()
    directory.close()


def test_rename_keeps_old_name_if_it_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old").write_bytes(b"text")
    unlink = os.unlink

    def fail(name: str, **more: int) -> None:
        if name == "old":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        unlink(name, **more)

    directory = DirectoryHandle(str(tmp_path), make=False)
    directory.hold()
    monkeypatch.setattr(os, "unlink", fail)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        directory.rename("old", "new")
    directory.close()
    assert os.listdir(tmp_path) == ["old"]
