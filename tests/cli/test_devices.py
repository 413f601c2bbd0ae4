"""`-O` of what takes all that is written to it: a device, a pipe, standard output; and of a directory."""

from __future__ import annotations

import hashlib
import os
import pty
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from resolver.cli.options import EXISTS
from tests.cli.command import resolve
from tests.cli.contract import ABOUT


@contextmanager
def reading(path: Path, came: bytearray) -> Iterator[None]:
    """Somebody who reads a pipe to its end."""

    def read() -> None:
        with open(path, "rb") as file:
            came.extend(file.read())

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.parametrize("exists", EXISTS)
def test_a_device_is_written_into(exists: str, at: dict[str, str], folder: Path) -> None:
    """Whatever is to be done about files that are there: a device is none. Nothing is put beside it."""
    before = os.stat("/dev/null")
    (folder / "link").symlink_to("/dev/null")
    for name in ("/dev/null", "link"):
        done = resolve("get", "--json", "--exists", exists, "-O", name, f"{at['http']}/about.txt")
        (record,) = done.records
        assert (done.status, record["status"], record["path"]) == (0, "done", name)
        assert (record["bytes"], record["digest"]) == (
            len(ABOUT),
            f"sha256:{hashlib.sha256(ABOUT.encode()).hexdigest()}",
        )
    after = os.stat("/dev/null")
    assert (after.st_ino, after.st_rdev, after.st_mode) == (before.st_ino, before.st_rdev, before.st_mode)
    assert os.listdir(folder) == ["link"]
    assert not [name for name in os.listdir("/dev") if ".part" in name]


@pytest.mark.parametrize("exists", EXISTS)
def test_a_pipe_is_written_into(exists: str, at: dict[str, str], folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    came = bytearray()
    with reading(folder / "pipe", came):
        done = resolve("get", "--exists", exists, "-d", ".", "-O", "pipe", f"{at['http']}/about.txt")
    assert (done.status, came.decode()) == (0, ABOUT)
    assert done.told.endswith(f"-> ./pipe ({len(ABOUT)} octets)\n")
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)
    assert os.listdir(folder) == ["pipe"]


def test_a_pipe_that_a_shell_made(at: dict[str, str], folder: Path) -> None:
    """`-O >(wc -c)`."""
    reader, writer = os.pipe()
    try:
        assert resolve("-q", "-O", f"/dev/fd/{writer}", f"{at['http']}/about.txt").status == 0
        assert os.read(reader, 100).decode() == ABOUT
    finally:
        os.close(reader)
        os.close(writer)


def test_what_failed_ends_a_pipe_too(at: dict[str, str], folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    came = bytearray()
    with reading(folder / "pipe", came):
        done = resolve("get", "--json", "-t", "1", "-O", "pipe", f"{at['closed']}/x")
    assert (done.status, bytes(came)) == (4, b"")
    assert [(record["status"], record["path"]) for record in done.records] == [("failed", None)]


def test_a_device_that_takes_no_more(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-O", "/dev/full", f"{at['http']}/about.txt")
    assert done.status == 3
    assert all(word in done.told for word in ("'/dev/full'", "no space left"))


def test_a_reader_that_leaves(at: dict[str, str], folder: Path) -> None:
    """It is a file of this machine that cannot be written, and not the end of standard output."""
    os.mkfifo(folder / "pipe")
    large = folder.parent / f"{folder.name}.large"
    large.write_bytes(bytes(1_000_000))

    def leave() -> None:
        with open(folder / "pipe", "rb") as file:
            file.read(1)

    thread = threading.Thread(target=leave)
    thread.start()
    done = resolve("get", "-O", "pipe", large.as_uri())
    thread.join()
    assert done.status == 3
    assert "'pipe': broken pipe" in done.told


def test_a_name_of_the_url_is_no_device(at: dict[str, str], folder: Path) -> None:
    """Nobody named it."""
    os.mkfifo(folder / "about.txt")
    for exists in EXISTS:
        done = resolve("get", "--exists", exists, f"{at['http']}/about.txt")
        assert done.status == (0 if exists in ("skip", "rename") else 3)
        assert stat.S_ISFIFO(os.lstat(folder / "about.txt").st_mode)


def test_control_characters_are_shown_on_a_terminal_that_was_named(at: dict[str, str], folder: Path) -> None:
    (folder / "text").write_bytes(b"a\x1b[31mb\n")
    reader, terminal = pty.openpty()
    try:
        assert resolve("-q", "-O", os.ttyname(terminal), (folder / "text").as_uri()).status == 0
        assert b"a\\x1b[31mb" in os.read(reader, 100)
    finally:
        os.close(reader)
        os.close(terminal)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_by_another_name(name: str, at: dict[str, str], folder: Path) -> None:
    """What a file holds to which standard output goes stays in front."""
    url = f"{at['http']}/about.txt"
    assert resolve("-O", name, url, url).out.decode() == ABOUT * 2
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("words", "place"), [(["-O", "D/"], "D"), (["-o", "D/E/", "-d", "F"], "F/D/E"), (["-O", "./"], ".")]
)
def test_a_name_that_ends_in_a_slash_is_a_directory(
    words: list[str], place: str, at: dict[str, str], folder: Path
) -> None:
    done = resolve("get", *words, f"{at['http']}/about.txt", f"{at['http']}/about.txt")
    assert done.status == 0
    assert {path.name for path in (folder / place).iterdir()} == {"about.txt", "about.2.txt"}


@pytest.mark.parametrize("exists", EXISTS)
@pytest.mark.parametrize("beside", [(), ("-d", "up")], ids=["here", "with -d"])
def test_a_directory_is_not_saved_as(
    beside: tuple[str, ...], exists: str, at: dict[str, str], folder: Path
) -> None:
    """Whatever is to be done about files that are there; curl and wget refuse it, too. It says how to save
    inside, and that is what then happens."""
    place = (folder / "up" if beside else folder) / "there"
    place.mkdir(parents=True)
    done = resolve("get", "--exists", exists, *beside, "-O", "there", f"{at['http']}/about.txt")
    assert done.status == 3
    named = "up/there" if beside else "there"
    assert all(word in done.told for word in (f"'{named}'", "directory", "-O there/"))
    assert os.listdir(place) == []
    assert os.listdir(place.parent) == ["there"]
    done = resolve("get", "--exists", exists, *beside, "-O", "there/", f"{at['http']}/about.txt")
    assert (done.status, os.listdir(place)) == (0, ["about.txt"])
