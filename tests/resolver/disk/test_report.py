"""A file that a run writes at its end is there whole, or as it was before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resolver import LocalError
from resolver.files.atomic import check_place, write_whole


def test_it_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    for octets in (b"one", b"two"):
        check_place(str(path))
        write_whole(str(path), octets)
        assert path.read_bytes() == octets
        assert os.listdir(tmp_path) == ["page.html"]


def test_a_link_keeps_leading_to_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("page.html")
    write_whole(str(tmp_path / "link"), b"one")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "page.html").read_bytes() == b"one"


def test_what_cannot_be_written_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        ("gone/page.html", "directory .*gone'$"),
        ("dir", "regular file"),
        ("file/page", "not a directory"),
    ],
)
def test_a_place_that_has_none_is_told_at_once(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(LocalError, match=words):
        check_place(str(tmp_path / name))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_is_not_ours_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir(mode=0o500)
    with pytest.raises(LocalError, match=r"page\.html': .*dir'$"):
        check_place(str(tmp_path / "dir" / "page.html"))
