"""Output to slow readers, devices, pipes and directories, and the text form of facts."""

from __future__ import annotations

import hashlib
import os
import pty
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from protocols.contract import JsonValue
from protocols.errors import LocalError
from resolver.cli import main, output
from resolver.cli.facts import fact_lines
from resolver.cli.options import EXISTS
from resolver.cli.streams import write_all
from tests.fresh import environment
from tests.hang import HANG
from tests.resolver.cli.command import resolve
from tests.resolver.cli.contract import ABOUT

LARGE = bytes(range(256)) * 4_096


@pytest.fixture(name="pipe")
def _pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    try:
        yield reader, writer
    finally:
        for fd in (reader, writer):
            with suppress(OSError):  # a test may have closed the descriptor
                os.close(fd)


@contextmanager
def closing_descriptor(fd: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(fd)


@contextmanager
def open_writer(fd: int) -> Iterator[output.DescriptorWriter]:
    result = output.DescriptorWriter(fd)
    try:
        yield result
    finally:
        result.close()


@pytest.fixture(name="hops")
def _hops(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of bytes that each call of a worker thread writes."""
    calls: list[int] = []

    def counted(fd: int, octets: memoryview) -> None:
        calls.append(len(octets))
        write_all(fd, octets)

    monkeypatch.setattr(output, "write_all", counted)
    return calls


def test_descriptor_writer_with_room_writes_without_thread(
    pipe: tuple[int, int], tmp_path: Path, hops: list[int]
) -> None:
    """The descriptor stays in blocking mode: other processes share it."""
    reader, writer = pipe
    file = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    nothing = os.open(os.devnull, os.O_WRONLY)

    async def put() -> None:
        for fd in (writer, file, nothing):
            with open_writer(fd) as out:
                await out.write(b"first ")
                await out.write(b"second")
            assert os.get_blocking(fd)

    trio.run(put)
    assert os.read(reader, 100) == (tmp_path / "file").read_bytes() == b"first second"
    os.close(file)
    os.close(nothing)
    assert hops == []


def test_large_body_is_written_without_thread(folder: Path, hops: list[int]) -> None:
    (folder / "large").write_bytes(LARGE)
    assert resolve("cat", (folder / "large").as_uri()).out == LARGE
    assert resolve("-q", "-O", os.devnull, (folder / "large").as_uri()).status == 0
    assert hops == []


def test_descriptor_writer_to_slow_reader_is_complete(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    received = bytearray()

    async def read() -> None:
        while octets := await trio.to_thread.run_sync(os.read, reader, 5_000):
            received.extend(octets)

    async def put() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            with open_writer(writer) as out:
                for start in range(0, len(LARGE), 100_000):
                    await out.write(LARGE[start : start + 100_000])
            os.close(writer)

    trio.run(put)
    assert bytes(received) == LARGE


@pytest.mark.parametrize("read_first", [0, 10_000], ids=["full", "a little was read"])
def test_descriptor_writer_cancel_does_not_wait_for_reader(
    read_first: int, pipe: tuple[int, int], hops: list[int]
) -> None:
    """The cancellation works while the pipe is full, and while a thread waits for room for the rest."""
    reader, writer = pipe

    async def put() -> None:
        with trio.fail_after(HANG):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(out.write, LARGE)
                await trio.testing.wait_all_tasks_blocked()
                if read_first:
                    assert len(os.read(reader, read_first)) == read_first
                while read_first and not hops:
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()

    with open_writer(writer) as out:
        trio.run(put)
    assert len(hops) == bool(read_first)


@pytest.mark.parametrize("read_first", [0, 10_000], ids=["full", "a little was read"])
def test_descriptor_writer_to_closed_pipe_raises_broken_pipe(read_first: int, pipe: tuple[int, int]) -> None:
    reader, writer = pipe

    async def put() -> None:
        with trio.fail_after(HANG):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_write, out)
                await trio.testing.wait_all_tasks_blocked()
                if read_first:
                    os.read(reader, read_first)
                    await trio.testing.wait_all_tasks_blocked()
                os.close(reader)

    async def _write(out: output.DescriptorWriter) -> None:
        with pytest.raises(BrokenPipeError):
            await out.write(LARGE)

    with open_writer(writer) as out:
        trio.run(put)


def test_write_all_to_nonblocking_pipe_is_complete(pipe: tuple[int, int]) -> None:
    """A program that shares the descriptor may set it to non-blocking mode."""
    reader, writer = pipe
    os.set_blocking(writer, False)

    def write() -> None:
        with closing_descriptor(writer):
            write_all(writer, LARGE)

    thread = threading.Thread(target=write)
    thread.start()
    received = bytearray()
    while octets := os.read(reader, 4_096):
        received.extend(octets)
    thread.join()
    assert bytes(received) == LARGE


# `-O` with a device, a pipe, standard output, or a directory.


@contextmanager
def read_in_thread(path: Path, octets: bytearray) -> Iterator[None]:
    """Read a pipe to its end in a thread."""

    def read() -> None:
        with open(path, "rb") as file:
            octets.extend(file.read())

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.parametrize("exists", EXISTS)
def test_get_to_device_writes_and_keeps_device(exists: str, at: dict[str, str], folder: Path) -> None:
    """`--exists` does not apply to a device, and no other file is created."""
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
def test_get_to_fifo_writes_and_keeps_fifo(exists: str, at: dict[str, str], folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    octets = bytearray()
    with read_in_thread(folder / "pipe", octets):
        done = resolve("get", "--exists", exists, "-d", ".", "-O", "pipe", f"{at['http']}/about.txt")
    assert (done.status, octets.decode()) == (0, ABOUT)
    assert done.messages.endswith(f"-> ./pipe ({len(ABOUT)} bytes)\n")
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)
    assert os.listdir(folder) == ["pipe"]


def test_get_to_dev_fd_pipe_writes_body(at: dict[str, str], folder: Path) -> None:
    """A shell passes `-O >(wc -c)` as such a path."""
    reader, writer = os.pipe()
    try:
        assert resolve("-q", "-O", f"/dev/fd/{writer}", f"{at['http']}/about.txt").status == 0
        assert os.read(reader, 100).decode() == ABOUT
    finally:
        os.close(reader)
        os.close(writer)


def test_failed_get_closes_fifo(at: dict[str, str], folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    octets = bytearray()
    with read_in_thread(folder / "pipe", octets):
        done = resolve("get", "--json", "-t", "1", "-O", "pipe", f"{at['closed']}/x")
    assert (done.status, bytes(octets)) == (4, b"")
    assert [(record["status"], record["path"]) for record in done.records] == [("failed", None)]


def test_get_to_full_device_exits_with_status_3(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-O", "/dev/full", f"{at['http']}/about.txt")
    assert done.status == 3
    assert all(word in done.messages for word in ("'/dev/full'", "no space left"))


def test_get_to_closed_fifo_exits_with_status_3(at: dict[str, str], folder: Path) -> None:
    """The broken pipe is a local file error, not the end of standard output."""
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
    assert "'pipe': broken pipe" in done.messages


def test_get_does_not_write_to_fifo_named_by_url(at: dict[str, str], folder: Path) -> None:
    """A device is used only if the user named it."""
    os.mkfifo(folder / "about.txt")
    for exists in EXISTS:
        done = resolve("get", "--exists", exists, f"{at['http']}/about.txt")
        assert done.status == (0 if exists in ("skip", "rename") else 3)
        assert stat.S_ISFIFO(os.lstat(folder / "about.txt").st_mode)


@pytest.mark.parametrize("words", ["cat", "get -O -"])
def test_local_file_as_its_own_output_fails(words: str, tmp_path: Path) -> None:
    """The size limit of the shell ends the copy, which would otherwise fill the disk."""
    (tmp_path / "file").write_bytes(b"text\n")
    os.link(tmp_path / "file", tmp_path / "link")
    program = [sys.executable, "-B", "-m", "resolver", *words.split(), (tmp_path / "link").as_uri()]
    script = 'ulimit -f 64; output=$1; shift; exec "$@" >>"$output"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", tmp_path / "file", *program, "--config", "none"],
        cwd=Path(__file__).parents[3],
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == LocalError.exit_code
    assert b"it is also standard output" in done.stderr
    assert (tmp_path / "file").read_bytes() == b"text\n"


def test_archived_file_is_written_to_its_own_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes come from the archive, so standard output may be the file of the URL."""
    file, url = tmp_path / "file", (tmp_path / "file").as_uri()
    file.write_bytes(b"text\n")
    assert resolve("get", "-q", "-O", "copy", "--warc", "a.warc", url, folder=tmp_path).status == 0
    with file.open("w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert main(["cat", "--config", "none", "--from-warc", str(tmp_path / "a.warc"), url]) == 0
    assert file.read_bytes() == b"text\n"


def test_get_to_named_terminal_escapes_control_characters(at: dict[str, str], folder: Path) -> None:
    (folder / "text").write_bytes(b"a\x1b[31mb\n")
    reader, terminal = pty.openpty()
    try:
        assert resolve("-q", "-O", os.ttyname(terminal), (folder / "text").as_uri()).status == 0
        assert b"a\\x1b[31mb" in os.read(reader, 100)
    finally:
        os.close(reader)
        os.close(terminal)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_get_to_dev_stdout_appends_bodies(name: str, at: dict[str, str], folder: Path) -> None:
    """Earlier content of the file behind standard output stays."""
    url = f"{at['http']}/about.txt"
    assert resolve("-O", name, url, url).out.decode() == ABOUT * 2
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("words", "place"), [(["-O", "D/"], "D"), (["-o", "D/E/", "-d", "F"], "F/D/E"), (["-O", "./"], ".")]
)
def test_output_name_with_slash_is_directory(
    words: list[str], place: str, at: dict[str, str], folder: Path
) -> None:
    done = resolve("get", *words, f"{at['http']}/about.txt", f"{at['http']}/about.txt")
    assert done.status == 0
    assert {path.name for path in (folder / place).iterdir()} == {"about.txt", "about.2.txt"}


@pytest.mark.parametrize("exists", EXISTS)
@pytest.mark.parametrize("beside", [(), ("-d", "up")], ids=["here", "with -d"])
def test_get_to_existing_directory_is_refused(
    beside: tuple[str, ...], exists: str, at: dict[str, str], folder: Path
) -> None:
    """`--exists` does not apply to a directory.

    curl and wget refuse it, too. The message suggests `-O there/`, which saves the file inside.
    """
    place = (folder / "up" if beside else folder) / "there"
    place.mkdir(parents=True)
    done = resolve("get", "--exists", exists, *beside, "-O", "there", f"{at['http']}/about.txt")
    assert done.status == 3
    named = "up/there" if beside else "there"
    assert all(word in done.messages for word in (f"'{named}'", "directory", "-O there/"))
    assert os.listdir(place) == []
    assert os.listdir(place.parent) == ["there"]
    done = resolve("get", "--exists", exists, *beside, "-O", "there/", f"{at['http']}/about.txt")
    assert (done.status, os.listdir(place)) == (0, ["about.txt"])


# Facts as lines of text, without Python literals for any value of a scheme.

WORDS = st.text("abc", min_size=1, max_size=3)
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=10,
)


def test_fact_lines_format_every_type() -> None:
    facts: dict[str, JsonValue] = {
        "size": 3,
        "rate": 0.5,
        "title": None,
        "whole": True,
        "hidden": False,
        "types": ["TEXT", "GIF"],
        "others": [],
        "admin": {"name": "Ann", "facts": {"Site": "Quay"}, "ttl": None},
        "views": [{"view": "Text/plain", "about": 7}, {"view": "image/gif"}],
        "references": {},
    }
    assert list(fact_lines(facts)) == [
        "size: 3",
        "rate: 0.5",
        "title: -",
        "whole: yes",
        "hidden: no",
        "types: TEXT",
        "types: GIF",
        "others: -",
        "admin.name: Ann",
        "admin.facts.Site: Quay",
        "admin.ttl: -",
        "views.1.view: Text/plain",
        "views.1.about: 7",
        "views.2.view: image/gif",
        "references: -",
    ]
    assert list(fact_lines({"path": ["a b", ""]}, repr)) == ["path: 'a b'", "path: ''"]


@given(st.dictionaries(WORDS, VALUES))
def test_fact_lines_contain_no_python_literals(facts: dict[str, JsonValue]) -> None:
    for line in fact_lines(facts):
        assert not set(line) & set("{}[]'\""), line
        assert not line.endswith((" None", " True", " False"))
