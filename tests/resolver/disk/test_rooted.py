"""Below one directory (S12, `file_root`): links and dots lead out of it nowhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resolver import NotConfigured, NotFound, Refused
from resolver.files.local import MOST_LINKS, FileRoot, OpenedFile, open_local


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """root/ with files and links; secret and root-two beside it; by-link is another name of root."""
    root = tmp_path / "root"
    (root / "inner" / "deep").mkdir(parents=True)
    (root / "file").write_text("file")
    (root / "inner" / "deep" / "file").write_text("deep")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "root-two").mkdir()
    (tmp_path / "root-two" / "file").write_text("two")
    (tmp_path / "by-link").symlink_to("root")
    links = {
        "inner/to-file": "../file",
        "inner/absolute": str(root / "file"),
        "inner/by-other-name": str(tmp_path / "by-link" / "file"),
        "to-deep": "inner/deep",
        "to-dots": "inner/../inner/./deep//file",
        "out": "../secret",
        "out-absolute": str(tmp_path / "secret"),
        "out-to-directory": "..",
        "out-and-back": "../root/file",
        "out-deep": "inner/deep/../../../secret",
        "out-system": "/etc/passwd",
        "neighbour": "../root-two/file",
        "to-out": "out",
        "self": "self",
        "one": "two",
        "two": "one",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    return root


def opened(path: str, root: Path) -> OpenedFile:
    segments = tuple(os.fsencode(path).split(b"/")[1:])
    return open_local(segments, root=FileRoot(str(root)), special=False, idle=5)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("file", b"file"),
        ("./file", b"file"),
        ("inner//deep/file", b"deep"),
        ("inner/deep/../deep/file", b"deep"),
        ("inner/..//file", b"file"),
        ("inner/to-file", b"file"),
        ("inner/absolute", b"file"),
        ("to-deep/file", b"deep"),
        ("to-deep/../to-file", b"file"),  # the parent of what the link leads to, as the system has it
        ("to-dots", b"deep"),
    ],
)
async def test_what_stays_inside_is_opened(tree: Path, path: str, content: bytes) -> None:
    file = opened(f"{tree}/{path}", tree)
    assert await file.read() == content
    file.close()


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../secret",
        "../root/file",
        "inner/../../root/file",
        "out",
        "out-absolute",
        "out-to-directory",
        "out-to-directory/root/file",
        "out-and-back",
        "out-deep",
        "out-system",
        "neighbour",
        "to-out",
        "out/missing",
        "out-to-directory/missing",  # what is missing outside is not told apart from what is there
    ],
)
def test_what_leads_out_is_refused(tree: Path, path: str) -> None:
    with pytest.raises(Refused) as raised:
        opened(f"{tree}/{path}", tree)
    assert raised.value.rule == "S12"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/", "/missing", "{parent}", "{parent}/root-two/file", "{root}-two"]
)
def test_a_path_that_begins_elsewhere_is_refused(tree: Path, path: str) -> None:
    with pytest.raises(Refused):
        opened(path.format(parent=tree.parent, root=tree), tree)


@pytest.mark.parametrize("path", ["missing", "inner/missing", "file/below", "self", "one", "inner/to-file/"])
def test_what_is_missing_inside_is_not_found(tree: Path, path: str) -> None:
    with pytest.raises(NotFound):
        opened(f"{tree}/{path}", tree)


@pytest.mark.parametrize("last", ["", "/", "/.", "/inner/.."])
async def test_the_root_itself_is_inside(tree: Path, last: str) -> None:
    file = opened(f"{tree}{last}", tree)
    assert b"file" in await file.names()
    file.close()


async def test_a_root_has_two_names_when_it_was_given_by_a_link(tree: Path) -> None:
    by_link = tree.parent / "by-link"
    for path in (tree / "file", by_link / "file", by_link / "inner" / "by-other-name"):
        file = opened(str(path), by_link)
        assert await file.read() == b"file"
        file.close()
    with pytest.raises(Refused):
        opened(str(by_link / "out"), by_link)


def test_what_a_listing_shows_of_links_ends_at_the_root(tree: Path) -> None:
    directory = opened(str(tree), tree)
    shown = {name: directory.status_of(os.fsencode(name)).kind.value for name in os.listdir(tree)}
    directory.close()
    assert {name for name, kind in shown.items() if kind == "unknown"} == {
        "out", "out-absolute", "out-to-directory", "out-and-back", "out-deep", "out-system", "neighbour",
        "to-out", "self", "one", "two",
    }  # fmt: skip
    assert shown["to-deep"] == "directory"
    assert shown["to-dots"] == "document"


@pytest.mark.parametrize(("links", "found"), [(MOST_LINKS, True), (MOST_LINKS + 1, False)])
async def test_so_many_links_are_followed_and_no_more(tmp_path: Path, links: int, found: bool) -> None:
    (tmp_path / "0").write_text("end")
    for number in range(links):
        (tmp_path / f"{number + 1}").symlink_to(f"{number}")
    if not found:
        with pytest.raises(NotFound, match="too many levels"):
            opened(f"{tmp_path}/{links}", tmp_path)
        return
    file = opened(f"{tmp_path}/{links}", tmp_path)
    assert await file.read() == b"end"
    file.close()


def test_a_directory_that_becomes_a_link_under_way_is_not_followed(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def switch(name: bytes, flags: int, *arguments: int, dir_fd: int | None = None) -> int:
        if name == b"inner":
            os.rename(tree / "inner", tree / "moved")
            (tree / "inner").symlink_to("/etc")
        return real(name, flags, *arguments, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", switch)
    with pytest.raises(NotFound):
        opened(f"{tree}/inner/passwd", tree)


async def test_a_directory_that_is_moved_under_way_does_not_move_the_root(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`..` goes back to the directory that was walked through, wherever it is now."""
    real = os.stat

    def move(name: bytes, **how: object) -> os.stat_result:
        if name == b"to-file" and (tree / "inner").exists():
            os.rename(tree / "inner", tree.parent / "moved")
        return real(name, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", move)
    file = opened(f"{tree}/inner/to-file", tree)
    assert await file.read() == b"file"
    file.close()


def test_a_root_that_is_not_there_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match="--file-root"):
        opened(f"{tmp_path}/none/file", tmp_path / "none")
