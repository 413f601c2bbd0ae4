"""Reserved file descriptors: files, pipes and connections do not use the last ones of the process."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocols.errors import LocalError, NotConfigured
from resolver.files.directory import DirectoryHandle
from resolver.files.faults import (
    SPARE,
    exhaustion_fault,
    is_scarce,
    max_descriptors,
    spare_descriptor,
    writing_fault,
)
from resolver.network.connecting import ConnectAttempts
from resolver.network.stream import SplicePipe


@pytest.fixture(name="scarce")
def _scarce() -> Iterator[None]:
    """Leave only the reserved file descriptors free."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.dup(0) for _ in range(4 * SPARE)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 1 + SPARE, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for fd in held:
        os.close(fd)


def test_spare_descriptor_of_last_closes_it_and_raises(scarce: None) -> None:
    fd = os.dup(0)
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        spare_descriptor(fd)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(fd)


def test_max_descriptors_without_a_limit_is_a_number() -> None:
    assert max_descriptors() > SPARE


def test_is_scarce_checks_cause() -> None:
    scarce, full = (writing_fault(OSError(code, ""), "x") for code in (errno.EMFILE, errno.ENOSPC))
    scarce.__cause__, full.__cause__ = OSError(errno.EMFILE, ""), OSError(errno.ENOSPC, "")
    assert [is_scarce(error) for error in (scarce, full, LocalError("x"), None)] == [
        True,
        False,
        False,
        False,
    ]


async def test_connect_without_descriptors_is_a_local_error(scarce: None) -> None:
    for addresses in (["127.0.0.1"], ["127.0.0.1", "127.0.0.2"]):
        with pytest.raises(LocalError, match="too many open files") as raised:
            await ConnectAttempts("here").connect(addresses, 9)
        assert is_scarce(raised.value)


def test_files_and_pipes_without_descriptors_are_refused(scarce: None, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        SplicePipe()
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        DirectoryHandle(str(tmp_path), make=False).hold()
    with open(tmp_path / "late", "w") as late:  # a plain open() is not limited to unreserved descriptors
        assert late.fileno() > 0


def test_exhaustion_fault_of_group_is_a_local_error() -> None:
    """A nursery raises a group, and a run without descriptors ends with a message instead of a traceback."""
    error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    found = exhaustion_fault(BaseExceptionGroup("", [ExceptionGroup("", [error])]))
    assert isinstance(found, LocalError)
    assert "ended early: too many open files (" in found.message


def test_exhaustion_fault_of_missing_thread_is_a_local_error() -> None:
    """The message of the `RuntimeError` is the one of `threading.Thread.start`."""
    found = exhaustion_fault(ExceptionGroup("", [RuntimeError("can't start new thread")]))
    assert isinstance(found, LocalError)
    assert "ulimit -u" in found.message


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))])
def test_exhaustion_fault_without_memory_is_a_local_error(error: Exception) -> None:
    found = exhaustion_fault(ExceptionGroup("", [error]))
    assert isinstance(found, LocalError)
    assert "cannot allocate memory (see ulimit -v" in found.message


def test_exhaustion_fault_without_standard_module_names_module() -> None:
    """Some builds of Python lack `_sqlite3`, which a ledger and a tree need."""
    error = ModuleNotFoundError("No module named '_sqlite3'", name="_sqlite3")
    found = exhaustion_fault(ExceptionGroup("", [error]))
    assert isinstance(found, NotConfigured)
    assert "lacks the module _sqlite3 (" in found.message


def test_exhaustion_fault_of_removed_current_directory_is_a_local_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.rmdir(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        os.path.abspath("name")
    found = exhaustion_fault(ExceptionGroup("", [caught.value]))
    assert isinstance(found, LocalError)
    assert "the current directory was removed" in found.message


@pytest.mark.parametrize(
    "error",
    [
        ValueError(),
        ModuleNotFoundError("No module named 'spam'", name="spam"),
        RuntimeError(),
        OSError(errno.EBADF, os.strerror(errno.EBADF)),
        FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "name"),
        ExceptionGroup("", [OSError(errno.EMFILE, ""), ValueError()]),
    ],
    ids=[
        "no system error",
        "missing library",
        "no missing thread",
        "defect of the program",
        "missing file",
        "group with a defect",
    ],
)
def test_exhaustion_fault_of_defect_is_none(error: Exception) -> None:
    assert exhaustion_fault(error) is None
