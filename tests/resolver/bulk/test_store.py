"""The store of downloaded files: a directory or an fsspec location."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from resolver import LocalError
from resolver.bulk.store import RemoteStore, open_store
from resolver.files.atomic import OutputFiles


@pytest.fixture
def memory() -> Iterator[str]:
    yield "memory://bulk/out"
    MemoryFileSystem.store.clear()


def test_output_files_are_written_atomically(tmp_path: Path) -> None:
    for out in (str(tmp_path), tmp_path.as_uri()):
        store = open_store(out)
        assert isinstance(store, OutputFiles)
        assert store.read("a/b") is None
        store.write("a/b", b"1")
        store.write("a/b", b"2")
        assert store.read("a/b") == b"2"
        assert [each.name for each in (tmp_path / "a").iterdir()] == ["b"]
        (tmp_path / "a" / "b").unlink()


def test_output_files_write_removes_abandoned_temporary_files(tmp_path: Path) -> None:
    """A program that reads a directory of tables reads all files in it."""
    (tmp_path / "part-1.jsonl.6180886f9e601eb1").write_bytes(b"half a li")
    (tmp_path / "part-10.jsonl").write_bytes(b"another one")
    OutputFiles(str(tmp_path)).write("part-1.jsonl", b"1")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["part-1.jsonl", "part-10.jsonl"]


def test_output_files_report_obstacles(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no directory")
    store = OutputFiles(str(tmp_path))
    with pytest.raises(LocalError, match="a/b"):
        store.write("a/b", b"")
    with pytest.raises(LocalError, match="cannot read"):
        store.read("a/b")


def test_remote_store_reads_writes_and_sends(memory: str, tmp_path: Path) -> None:
    store = open_store(memory)
    assert isinstance(store, RemoteStore)
    assert store.read("a/b") is None
    store.write("a/b", b"1")
    assert store.read("a/b") == b"1"
    copy = tmp_path / "copy"
    assert not store.fetch("a/c", str(copy))
    (tmp_path / "x").write_bytes(b"x")
    store.send([])
    store.send([(str(tmp_path / "x"), "d/x")])
    assert store.fetch("d/x", str(copy))
    assert copy.read_bytes() == b"x"


def test_remote_store_fetch_ignores_exists(
    memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`exists` of many file systems also returns False if the check failed."""
    store = open_store(memory)
    assert isinstance(store, RemoteStore)
    store.write("a/b", b"1")
    monkeypatch.setattr(MemoryFileSystem, "exists", lambda *_: False)
    assert store.fetch("a/b", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == b"1"


@pytest.mark.parametrize("fault", [OSError("the network"), FileNotFoundError("of something else")])
def test_remote_store_fetch_failure_is_not_missing(
    fault: OSError, memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With half a ledger, or without it, all files would be requested again."""
    store = open_store(memory)
    assert isinstance(store, RemoteStore)
    store.write("a/b", b"1")

    def cut(self: MemoryFileSystem, there: str, here: str) -> None:
        Path(here).write_bytes(b"hal")
        raise fault

    monkeypatch.setattr(MemoryFileSystem, "get_file", cut)
    with pytest.raises(LocalError, match=str(fault)):
        store.fetch("a/b", str(tmp_path / "copy"))
    # another error counts as missing if no such name exists
    assert not store.fetch("a/c", str(tmp_path / "copy"))
    assert not (tmp_path / "copy").exists()


def test_remote_store_unreachable_is_a_local_error(
    memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(memory)
    assert isinstance(store, RemoteStore)

    def fail(*_: object) -> None:
        raise PermissionError("token")

    monkeypatch.setattr(MemoryFileSystem, "info", fail)
    with pytest.raises(LocalError, match="token"):
        store.fetch("a/c", str(tmp_path / "copy"))


@pytest.fixture
def strict(memory: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Require existing directories, as ftp and sftp do, while another process makes the same ones."""
    calls = list[str]()
    pipe_file, makedirs = MemoryFileSystem.pipe_file, MemoryFileSystem.makedirs

    def put_there(self: MemoryFileSystem, path: str, value: bytes) -> None:
        if not self.isdir(self._parent(path)):
            raise FileNotFoundError(path)
        pipe_file(self, path, value)

    def make(self: MemoryFileSystem, path: str, exist_ok: bool = False) -> None:
        calls.append(path)
        if len(calls) < 3:
            raise FileExistsError(path)
        makedirs(self, path, exist_ok=exist_ok)

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", put_there)
    monkeypatch.setattr(
        MemoryFileSystem,
        "put_file",
        lambda fs, here, there, **_: put_there(fs, there, Path(here).read_bytes()),
    )
    monkeypatch.setattr(MemoryFileSystem, "makedirs", make)
    yield memory
    MemoryFileSystem.pseudo_dirs[:] = [""]


def test_remote_store_makes_missing_directories(strict: str, tmp_path: Path) -> None:
    store = open_store(strict)
    assert isinstance(store, RemoteStore)
    store.write("a.json", b"1")
    (tmp_path / "x").write_bytes(b"x")
    store.send([(str(tmp_path / "x"), "d/e/x"), (str(tmp_path / "x"), "f/x")])
    assert [store.read(name) for name in ("a.json", "d/e/x", "f/x")] == [b"1", b"x", b"x"]


def test_remote_store_does_not_make_buckets(strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object store would make a bucket if a directory were created."""
    monkeypatch.setattr(MemoryFileSystem, "async_impl", True)
    store = open_store(strict)
    assert isinstance(store, RemoteStore)
    with pytest.raises(LocalError, match="FileNotFoundError"):
        store.write("a.json", b"1")


def test_store_of_error_does_not_show_password() -> None:
    with pytest.raises(LocalError, match=r"nothing://me:\*\*\*\*@there") as raised:
        open_store("nothing://me:secret@there")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("out", ["nothing://there", "memory:"])
def test_store_of_unknown_protocol_is_a_local_error(out: str) -> None:
    if out == "memory:":
        assert isinstance(open_store(out), OutputFiles)  # a directory of that name
        return
    with pytest.raises(LocalError, match="nothing://there"):
        open_store(out)
