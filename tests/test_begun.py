"""A forked program with loaded imports sees the same environment as one started by Python."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import termios
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.begun import CHECKOUT, SIGNALS, begin
from tests.hang import HANG


def tell() -> None:
    """Write all that a program can see of its start to the file named by the first argument."""
    streams: tuple[Any, ...] = (sys.stdin, sys.stdout, sys.stderr)
    told = {
        "words": sys.argv,
        "folder": os.getcwd(),
        "environment": {name: value for name, value in os.environ.items() if name != "LC_CTYPE"},
        "streams": [(each.isatty(), each.encoding, each.errors, each.line_buffering) for each in streams],
        "held back": [(type(each.buffer).__name__, each.write_through) for each in streams],
        "signals": {number: str(signal.getsignal(number)) for number in signal.valid_signals()},
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "leads": os.getsid(0) == os.getpgrp() == os.getpid(),
        "terminal": os.isatty(2) and os.tcgetpgrp(2) == os.getpid(),
        "open": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],
        "limits": [resource.getrlimit(limit) for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)],
        "umask": os.umask(0o022),
    }
    Path(sys.argv[1]).write_text(json.dumps(told))
    sys.exit(int(sys.argv[2]))


@contextmanager
def streams_of(kind: str) -> Iterator[tuple[int, int, int]]:
    if kind == "terminal":
        master, slave = os.openpty()
        yield (slave,) * 3
        os.close(master)
        os.close(slave)
    else:
        with open(os.devnull, "r+b") as nothing:
            yield (nothing.fileno(),) * 3


def started(
    words: Collection[str],
    folder: Path,
    environment: dict[str, str],
    streams: tuple[int, int, int],
    ignored: Collection[int],
) -> int:
    """Return the status of a Python started for it, as by a shell at a separate terminal."""

    def before() -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
        os.setsid()
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    program = [sys.executable, "-c", "from tests.test_begun import tell; tell()", *words]
    given, out, err = streams
    done = subprocess.run(
        program, cwd=folder, env=environment, preexec_fn=before, stdin=given, stdout=out, stderr=err
    )
    return done.returncode


@pytest.mark.parametrize("kind", ["terminal", "none"])
@pytest.mark.parametrize(
    ("ignored", "own"), [((), {}), ((signal.SIGINT, signal.SIGQUIT), {"PYTHONUNBUFFERED": "1"})]
)
async def test_forked_program_sees_what_a_started_one_sees(
    kind: str, ignored: tuple[int, ...], own: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT), "A": "\u202e of its own", **own}
    told = []
    with streams_of(kind) as streams, trio.fail_after(HANG):
        for number in ("1", "2"):
            words = [str(tmp_path / number), number]
            if number == "1":
                assert started(words, tmp_path / "folder", environment, streams, ignored) == 1
            else:
                process = begin(
                    *(words, "tests.test_begun:tell"),
                    folder=tmp_path / "folder",
                    environment=environment,
                    streams=streams,
                    ignored=ignored,
                )
                assert await process.wait() == 2
                process.close()
            told.append(json.loads((tmp_path / number).read_text()))
    assert told[0].pop("words") == ["-c", str(tmp_path / "1"), "1"]
    assert told[1].pop("words") == ["-c", str(tmp_path / "2"), "2"]
    assert told[0] == told[1]
    assert told[1]["leads"]
    assert told[1]["terminal"] == (kind == "terminal")


async def test_signal_ends_only_its_program(tmp_path: Path) -> None:
    """Both processes wait at their start: they read from a pipe without a writer."""
    reading, writing = os.pipe()
    streams = (reading, writing, 2)
    words = ["cat", "-i", "-", "--config", "none"]
    with trio.fail_after(HANG):
        one, other = (
            begin(words, folder=tmp_path, environment=os.environ, streams=streams) for _ in range(2)
        )
        one.send_signal(signal.SIGSTOP)
        await one.stopped()
        other.kill()
        assert await other.wait() == -signal.SIGKILL
        one.kill()
        assert await one.wait() == -signal.SIGKILL
        one.kill()  # without an effect
    for process in (one, other):
        process.close()
    os.close(reading)
    os.close(writing)
