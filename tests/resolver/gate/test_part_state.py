"""The state beside a growing file: written whole, read back, and nonsense is none."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from protocols.contract import Validators
from resolver.gate.part_state import PartState, read_state, write_state

WHEN = datetime(1994, 11, 6, 8, 49, 37, 500_000, tzinfo=UTC)
GOOD = {"url": "ftp://h.example/a", "size": 5, "modified": 1.5, "etag": None, "complete": None}


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.mark.parametrize(
    "state",
    [
        PartState("ftp://h.example/a", Validators()),
        PartState("http://h.example/\udcff\u2028", Validators(size=1 << 60, modified=WHEN, etag='"\xe9"')),
        PartState("x" * 65_536, Validators(size=0), complete=1 << 63),
    ],
)
def test_it_is_read_as_it_was_written(state: PartState, directory: int, tmp_path: Path) -> None:
    write_state("state", directory, PartState("of an earlier run", Validators(size=9)))
    write_state("state", directory, state)
    assert read_state("state", directory) == state
    assert os.listdir(tmp_path) == ["state"]


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        *(
            json.dumps(record).encode()
            for record in (
                {},
                {**GOOD, "url": 1},
                {**GOOD, "size": "5"},
                {**GOOD, "modified": 1e300},
                {**GOOD, "modified": "1994"},
                {**GOOD, "etag": 1},
                {name: value for name, value in GOOD.items() if name != "complete"},
            )
        ),
    ],
)
def test_nonsense_is_none(octets: bytes, directory: int, tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(octets)
    assert read_state("state", directory) is None


def test_what_is_missing_or_no_file_is_none(directory: int, tmp_path: Path) -> None:
    (tmp_path / "good").write_text(json.dumps(GOOD))
    (tmp_path / "link").symlink_to("good")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing", "link", "folder", "pipe"):
        assert read_state(name, directory) is None
    assert read_state("good", directory) is not None


def test_what_cannot_be_written_leaves_the_old_state(directory: int, tmp_path: Path) -> None:
    old = PartState("ftp://h.example/a", Validators(size=1))
    write_state("state", directory, old)
    (tmp_path / "state.new").mkdir()
    with pytest.raises(FileExistsError):
        write_state("state", directory, PartState("ftp://h.example/b", Validators()))
    assert read_state("state", directory) == old
