"""Interruptions by a signal, a closed output pipe, or a kill: the received bytes are kept."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import random
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
import trio

from fixtures.faulty import Fault, FaultyServer, Profile, serve
from resolver import Policy, Resolver, Saved
from tests.faults.command import BUFFERING, CHECKOUT, json_lines_of, options_for, resolve, size_of, until
from tests.faults.killed import LARGE, SMALL
from tests.faults.killed_with_ledger import CONTENT
from tests.hang import NEVER
from tests.sampled import FULL, sampled

INTERRUPTION_CONTENT = random.Random(6).randbytes(1_000_000)
HALF = len(INTERRUPTION_CONTENT) // 2
STUCK = Profile(fault=Fault("silence", "body", 50))
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
STOPPED = {130: "interrupted", 143: "terminated"}

#: Capacity of a pipe in bytes.
_PIPE = 65_536

#: Options without which a limit, not the test, could end a command.
PATIENT = ["--idle-timeout", str(NEVER), "--connect-timeout", str(NEVER)]


async def finish(server: FaultyServer, folder: Path) -> Saved:
    """Save again without a fault, and check that only the complete file is left."""
    server.profile = Profile()
    async with Resolver(policy=Policy(allow_port=frozenset({server.port}))) as session:
        saved = await session.save(server.url(), str(folder / "object.bin"))
    assert (folder / "object.bin").read_bytes() == server.content
    assert os.listdir(folder) == ["object.bin"]
    return saved


@pytest.mark.parametrize(
    ("scheme", "number"), [("ftp", signal.SIGINT), ("http", signal.SIGTERM), ("gopher", signal.SIGINT)]
)
async def test_signal_ends_get_and_keeps_partial_file(
    scheme: str, number: signal.Signals, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, scheme, INTERRUPTION_CONTENT, STUCK)
    part = tmp_path / "object.bin.part"
    async with resolve(tmp_path, "get", *PATIENT, *options_for(server), server.url()) as running:
        await until(lambda: size_of(part) == HALF)
        running.process.send_signal(number)
        assert await running.status() == STATUS[number]
    assert b"Traceback" not in running.err
    told = running.err.decode().splitlines()[-1]
    assert told.startswith(f"resolve: {STOPPED[STATUS[number]]}: {HALF} ")
    assert ("'object.bin.part'" in told, "offsets" in told) == (True, scheme == "gopher")
    assert sorted(os.listdir(tmp_path)) == ["object.bin.part", "object.bin.part-state"]
    assert part.read_bytes() == INTERRUPTION_CONTENT[:HALF]
    # gopher has no offsets: the partial file is kept, but the next run starts from the beginning
    resumed_from = 0 if scheme == "gopher" else HALF
    assert (await finish(server, tmp_path)).resumed_from == resumed_from


async def test_signal_to_get_of_many_reports_kept_bytes_in_one_line(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    """The complete files are reported too, because they would stop a repeat of the same command."""
    server = await serve(nursery, "http", INTERRUPTION_CONTENT, STUCK)
    urls = [server.url(), server.url(), server.url()]
    parts = [tmp_path / f"object{number}.bin.part" for number in ("", ".2", ".3")]
    async with resolve(tmp_path, "get", "-j", "3", *PATIENT, *options_for(server), *urls) as running:
        await until(lambda: all(size_of(part) == HALF for part in parts))
        running.process.send_signal(signal.SIGINT)
        assert await running.status() == 130
    told = running.err.decode().splitlines()
    (kept,) = [line for line in told if "kept" in line]
    assert kept.startswith(f"resolve: interrupted: {3 * HALF} ")
    assert all(word in kept for word in (" 3 files", "NAME.part", "--exists skip"))
    server.profile = Profile()
    async with resolve(tmp_path, "get", *options_for(server), "--exists", "skip", *urls) as running:
        assert await running.status() == 0
    assert running.err.decode().count(f" at byte {HALF})") == 3
    assert sorted(os.listdir(tmp_path)) == ["object.2.bin", "object.3.bin", "object.bin"]


@pytest.mark.parametrize(("words", "told"), [([], True), (["-q"], False)])
async def test_signal_before_first_byte_keeps_no_file(
    words: list[str], told: bool, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, "http", INTERRUPTION_CONTENT, Profile(fault=Fault("silence", "greeting")))
    async with resolve(tmp_path, "get", *words, *PATIENT, *options_for(server), server.url()) as running:
        await until(lambda: server.connections == 1)
        running.process.send_signal(signal.SIGINT)
        assert await running.status() == 130
    said = "resolve: interrupted: no partial files are kept\n" if told else ""
    assert running.err.decode() == said
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("words", [[], ["-q"]])
async def test_failed_get_reports_kept_bytes(words: list[str], nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, "http", INTERRUPTION_CONTENT, Profile(fault=Fault("close", "body", 50)))
    async with resolve(tmp_path, "get", *words, "-t", "1", *options_for(server), server.url()) as running:
        assert await running.status() == 10
    lines = running.err.decode().splitlines()
    kept = f"{server.url()}: {HALF} bytes are kept in 'object.bin.part'; the same command resumes it"
    assert (len(lines), lines[1:]) == ((1, []) if words else (2, [f"resolve: {kept}"]))


SLOW = sampled(product(STATUS, BUFFERING), lambda row: row[0])


@pytest.mark.parametrize(("number", "buffering"), SLOW)
async def test_signal_ends_cat_with_full_pipe(
    number: signal.Signals, buffering: str, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """No process reads the pipe: a thread blocks in write(2) and cannot be canceled."""
    server = await serve(nursery, "http", INTERRUPTION_CONTENT)
    words = ["cat", *PATIENT, *options_for(server), server.url()]
    with unread_pipe() as (writer, is_full):
        async with resolve(tmp_path, *words, stdout=writer, buffering=buffering) as running:
            await until(is_full)
            running.process.send_signal(number)
            assert await running.status() == STATUS[number]
    assert b"rror" not in running.err.replace(b"warning", b"")


LINES = [("ls", "--json"), ("ls",), ("info", "--json", "-i", "list"), ("explain", "-i", "list")]
UNREAD = sampled(product(LINES, STATUS, BUFFERING), lambda row: row[0])


@pytest.mark.parametrize(("verb", "number", "buffering"), UNREAD)
async def test_signal_ends_listing_with_full_pipe(
    verb: tuple[str, ...], number: signal.Signals, buffering: str, tmp_path: Path
) -> None:
    served = tmp_path / "served"
    served.mkdir()
    for index in range(500):
        (served / f"{index:0200d}").touch()
    (tmp_path / "list").write_text(f"{served.as_uri()}/{0:0200d}\n" * 500)
    words = [*verb, f"{served.as_uri()}/"]
    with unread_pipe() as (writer, is_full):
        async with resolve(tmp_path, *words, stdout=writer, buffering=buffering) as running:
            await until(is_full)
            running.process.send_signal(number)
            assert await running.status() == STATUS[number]
    assert running.err == b""


@contextmanager
def unread_pipe() -> Iterator[tuple[int, Callable[[], bool]]]:
    """Yield the write end of an unread pipe, and a function that tells whether the pipe is over half full."""
    reader, writer = os.pipe()
    waiting = b"\0" * 4
    try:
        yield (
            writer,
            lambda: (
                int.from_bytes(fcntl.ioctl(reader, termios.FIONREAD, waiting), sys.byteorder) > _PIPE // 2
            ),
        )
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize(("scheme", "verb"), [("ftp", ("cat",)), ("gopher", ("get", "-O", "-"))])
async def test_closed_pipe_ends_command_silently(
    scheme: str, verb: tuple[str, ...], nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, scheme, INTERRUPTION_CONTENT)
    async with resolve(
        tmp_path, *verb, "-q", *options_for(server), server.url(), stdout=subprocess.PIPE
    ) as running:
        assert running.process.stdout is not None
        head = await running.process.stdout.receive_some(10)
        await running.process.stdout.aclose()
        assert await running.status() == 141
    assert head == INTERRUPTION_CONTENT[:10]
    assert running.err == b""
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", STATUS, ids=lambda number: signal.Signals(number).name)
async def test_signal_at_password_prompt_restores_terminal(
    number: signal.Signals, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """The prompt for the password turns off echo; then the signal arrives."""
    server = await serve(nursery, "ftp", INTERRUPTION_CONTENT)
    master, slave = pty.openpty()

    def own_the_terminal() -> None:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    try:
        async with resolve(
            tmp_path, "get", *options_for(server), server.url("somebody@"), before=own_the_terminal
        ) as running:
            await until(lambda: not _echoes(slave))
            running.process.send_signal(number)
            assert await running.status() == STATUS[number]
        assert _echoes(slave)
    finally:
        os.close(master)
        os.close(slave)


def _echoes(terminal: int) -> bool:
    flags: int = termios.tcgetattr(terminal)[3]
    return bool(flags & termios.ECHO)


@pytest.mark.parametrize("scheme", ["ftp", "http"])
async def test_get_killed_at_random_moments_resumes(
    scheme: str, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """After 20 killed runs, one more run completes the file. No other file is left."""
    server = await serve(nursery, scheme, INTERRUPTION_CONTENT, Profile(pause=0.002))
    (tmp_path / "content").write_bytes(INTERRUPTION_CONTENT)
    folder = tmp_path / "folder"
    folder.mkdir()
    command = [sys.executable, "-m", "tests.faults.killed_at_random", "20"]
    found = await trio.run_process(
        [*command, "get", "-q", *options_for(server), server.url()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_stdout=True,
    )
    left = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(left) == 20
    assert any("object.bin.part" in names for names in left)
    await finish(server, folder)


async def test_get_killed_at_half_resumes(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, "ftp", INTERRUPTION_CONTENT, STUCK)
    async with resolve(tmp_path, "get", *options_for(server), server.url()) as running:
        await until(lambda: size_of(tmp_path / "object.bin.part") == HALF)
        running.process.kill()
    assert (await finish(server, tmp_path)).resumed_from == HALF


async def test_save_killed_before_every_step_finishes(tmp_path: Path) -> None:
    """A process is killed before each call that changes a file or a name, and the next one finishes.

    See `killed`. With this umask the final file is group-writable, and only the final file: this case has the
    most steps. By default every eighth step is tried.
    """
    every = ["1", "0"] if FULL else ["8", "0"]
    results = await json_lines_of("tests.faults.killed", str(tmp_path), "002", *every)
    assert {result["exists"] for result in results} == {"fail", "replace", "resume", "rename"}
    assert {result["size"] for result in results} == {len(LARGE), len(SMALL)}
    assert len(results) > 40 // int(every[0])
    for result in results:
        assert result["after"] == "right", result
        assert result["left"] == [], result
        assert result["mode"] == 0o664, result
    sidecars = [result["sidecar"] for result in results if result["sidecar"] is not None]
    assert {then for then, _ in sidecars} == {True, None}
    assert {after for _, after in sidecars} == {True}


@pytest.mark.parametrize("scheme", ["ftp", "gopher"])
async def test_full_disk_exits_with_3(scheme: str, nursery: trio.Nursery, tmp_path: Path) -> None:
    """A file size limit replaces the full disk, because it causes the same kind of failure."""
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    server = await serve(nursery, scheme, INTERRUPTION_CONTENT)
    async with resolve(tmp_path, "get", "-q", *options_for(server), server.url(), before=limit) as running:
        assert await running.status() == 3
    assert server.connections == 1
    kept = ["object.bin.part", "object.bin.part-state"] if scheme != "gopher" else []
    assert sorted(os.listdir(tmp_path)) == kept
    assert (await finish(server, tmp_path)).resumed_from == (300_000 if kept else 0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no file system can be mounted here")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


async def test_small_disk_reports_enospc(nursery: trio.Nursery, small_disk: Path) -> None:
    server = await serve(nursery, "http", INTERRUPTION_CONTENT)
    async with resolve(small_disk, "get", *options_for(server), server.url()) as running:
        assert await running.status() == 3
    assert os.strerror(errno.ENOSPC).lower().encode() in running.err
    assert "object.bin" not in os.listdir(small_disk)


# A list with a ledger, killed at any moment: complete files are fetched once.


async def test_list_killed_before_every_step_fetches_files_once(tmp_path: Path) -> None:
    """A file with its final name that is not yet recorded as done is skipped by the next run.

    The next run sends no request for it. See `killed_with_ledger`.
    """
    every = ["1", "0"] if FULL else ["29", "0"]
    moments = await json_lines_of("tests.faults.killed_with_ledger", str(tmp_path), *every)
    assert {moment["exists"] for moment in moments} == {"fail", "replace", "tree"}
    for moment in moments:
        assert moment["status"] == [0, "0"], moment
        assert moment["fetched_twice"] == moment["wrong"] == moment["left"] == [], moment
        assert moment["rows"] == [[name, "done"] for name in CONTENT], moment
