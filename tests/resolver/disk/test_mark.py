"""A file that we began is known again, and no other is taken for it (S14)."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from resolver.files.part_state import FileIdentity, is_guarded, is_own, put_mark, wipe


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
    """A file system without attributes."""

    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    for name in ("setxattr", "getxattr", "removexattr"):
        monkeypatch.setattr(os, name, refuse, raising=False)


def test_it_is_known_again(tmp_path: Path) -> None:
    mark = marked(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"more")
    os.rename(tmp_path / "a", tmp_path / "b")
    with opened(tmp_path / "b") as fd:
        assert mark.is_on(fd)
        assert not mark.is_copied_to(fd)
        assert put_mark(fd) != mark or mark.token is None


def test_another_file_is_not(tmp_path: Path) -> None:
    mark = marked(tmp_path / "a")
    marked(tmp_path / "b")
    with opened(tmp_path / "b") as fd:
        assert not mark.is_on(fd)
        assert not mark.is_copied_to(fd)


@pytest.mark.usefixtures("attributes")
def test_a_copy_is_told_from_it(tmp_path: Path) -> None:
    mark = marked(tmp_path / "a")
    shutil.copy2(tmp_path / "a", tmp_path / "whole")
    shutil.copy(tmp_path / "a", tmp_path / "octets")
    with opened(tmp_path / "whole") as fd:
        assert (mark.is_on(fd), mark.is_copied_to(fd)) == (False, True)
    with opened(tmp_path / "octets") as fd:
        assert (mark.is_on(fd), mark.is_copied_to(fd)) == (False, False)


@pytest.mark.usefixtures("attributes")
def test_the_number_alone_proves_nothing(tmp_path: Path) -> None:
    """File systems give the numbers of removed files to new ones; whoever may look knows them."""
    mark = marked(tmp_path / "a")
    with opened(tmp_path / "a") as fd:
        assert not replace(mark, token=None).is_on(fd)
        assert not replace(mark, token="0" * 32).is_on(fd)
        assert mark.is_on(fd)  # looking changed nothing
        wipe(fd)
        assert not mark.is_on(fd)
        assert not replace(mark, token=None).is_on(fd)  # here it would have got one
        wipe(fd)  # and again: nothing happens


@pytest.mark.usefixtures("bare")
def test_a_file_system_without_attributes_will_do(tmp_path: Path) -> None:
    mark = marked(tmp_path / "a")
    assert mark.token is None
    with opened(tmp_path / "a") as fd:
        wipe(fd)
        assert mark.is_on(fd)
        assert not mark.is_copied_to(fd)
        assert not replace(mark, token="0" * 32).is_on(fd)
        assert not replace(mark, device=mark.device + 1).is_on(fd)
        assert not replace(mark, inode=mark.inode + 1).is_on(fd)


@pytest.mark.parametrize(
    ("mode", "own", "guarded"),
    [(0o600, True, True), (0o644, True, True), (0o664, True, False), (0o646, True, False)],
)
def test_whose_it_is(
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


def test_what_is_no_file_is_not_ones_own(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert [is_own(path.lstat()) for path in (tmp_path, *tmp_path.iterdir())] == [False] * 3
