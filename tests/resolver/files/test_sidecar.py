"""The sidecar of a saved file: it describes that file or is absent; foreign files stay (S14, S21)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from resolver import LocalError, Validators
from resolver.files.partial_file import PartialFile
from resolver.files.sidecar import FORMAT
from tests.resolver.files.test_part import SOURCE, snapshot

OURS = f'{{\n  "format": "{FORMAT}"\n}}\n'.encode()
OLD = f'{{\n  "format": "{FORMAT}",\n  "of": "another"\n}}\n'.encode()


async def save(path: Path, meta: bytes | None, *, replace: bool = True) -> None:
    exists = "replace" if replace else "fail"
    async with PartialFile(str(path), source=SOURCE, exists=exists, meta=meta is not None) as sink:  # type: ignore[arg-type]
        await sink.remember(Validators(size=4))
        sink.write(b"body")
        await sink.commit(None, meta)


@pytest.mark.parametrize("before", [None, OLD])
@pytest.mark.parametrize("left", [None, b"", OLD[:9], OLD])
async def test_sidecar_is_written_with_file(before: bytes | None, left: bytes | None, tmp_path: Path) -> None:
    """This also holds if a sidecar existed, or if a run was killed while it wrote one."""
    if before is not None:
        (tmp_path / "x.meta.json").write_bytes(before)
    if left is not None:
        (tmp_path / "x.meta.json.new").write_bytes(left)
    await save(tmp_path / "x", OURS)
    assert (tmp_path / "x.meta.json").read_bytes() == OURS
    assert sorted(os.listdir(tmp_path)) == ["x", "x.meta.json"]
    assert (tmp_path / "x.meta.json").stat().st_mode & 0o777 == 0o644 & ~current_umask()


def current_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


async def test_save_without_sidecar_removes_old_sidecar(tmp_path: Path) -> None:
    (tmp_path / "x.meta.json").write_bytes(OLD)
    (tmp_path / "x.meta.json.new").write_bytes(OLD)
    await save(tmp_path / "x", None, replace=False)
    assert os.listdir(tmp_path) == ["x"]


FOREIGN: dict[str, Callable[[Path], object]] = {
    "words": lambda path: path.write_bytes(b'{"name": "x"}'),
    "nothing": lambda path: path.write_bytes(b""),
    "link": lambda path: path.symlink_to("elsewhere"),
    "directory": lambda path: path.mkdir(),
    "pipe": lambda path: os.mkfifo(path),
}


@pytest.mark.parametrize("ending", ["", ".new"])
@pytest.mark.parametrize("kind", FOREIGN)
async def test_foreign_sidecar_is_refused_and_unchanged(kind: str, ending: str, tmp_path: Path) -> None:
    """The error is raised before any request; without a sidecar option, foreign files are ignored."""
    path = tmp_path / f"x.meta.json{ending}"
    FOREIGN[kind](path)
    if kind == "nothing" and ending:
        path.write_bytes(b"?")  # an empty .new file is left by a killed run
    (tmp_path / "elsewhere").write_bytes(OLD)
    before = snapshot(tmp_path)
    with pytest.raises(LocalError, match=r"\.meta\.json.*remove it"):
        async with PartialFile(str(tmp_path / "x"), source=SOURCE, meta=True):
            raise AssertionError("entered")
    assert snapshot(tmp_path) == before
    await save(tmp_path / "x", None)
    after = snapshot(tmp_path)
    del after["x"]
    assert after == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_sidecar_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.meta.json").write_bytes(OLD)
    os.chown(tmp_path / "x.meta.json", 65_534, 65_534)
    with pytest.raises(LocalError, match=r"\.meta\.json.*remove it"):
        await save(tmp_path / "x", OURS)


async def test_sidecar_is_written_if_file_system_assigns_another_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS with root_squash, and FAT mounted with the option uid=, give a new file another owner."""
    owner = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: owner)
    await save(tmp_path / "x", OURS, replace=False)
    assert (tmp_path / "x.meta.json").read_bytes() == OURS
    assert sorted(os.listdir(tmp_path)) == ["x", "x.meta.json"]


async def test_failed_commit_writes_no_sidecar(tmp_path: Path) -> None:
    async with PartialFile(str(tmp_path / "x"), source=SOURCE, meta=True) as sink:
        await sink.remember(Validators(size=4))
        (tmp_path / "x").write_bytes(b"of somebody who was faster")
        with pytest.raises(LocalError, match="already"):
            await sink.commit(None, OURS)
    assert not [name for name in os.listdir(tmp_path) if "meta" in name]


async def test_sidecar_name_taken_during_transfer_is_an_error(tmp_path: Path) -> None:
    """The error is reported, and the received data is kept."""
    async with PartialFile(str(tmp_path / "x"), source=SOURCE, meta=True) as sink:
        await sink.remember(Validators(size=4))
        (tmp_path / "x.meta.json").write_bytes(b"mine")
        with pytest.raises(LocalError, match=r"\.meta\.json.*remove it"):
            await sink.commit(None, OURS)
    assert (tmp_path / "x.meta.json").read_bytes() == b"mine"
    assert not (tmp_path / "x.meta.json.new").exists()
