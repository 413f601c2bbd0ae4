"""Programs that begin with what they import loaded: processes forked from one that has it.

Most of what a short command costs is to import trio. Where tests start many a command, and it is not the
start that they are about, one process has all that loaded, `python -m tests.begun`, and forks for each of
them: what it forks has streams, environment, folder, session and signals of its own, as a Python that was
started for it (`tests/test_begun.py`), and nothing of another one.

A request is one packet: JSON, and descriptors for the three streams and for what is told of the process. Who
keeps it tells there: its pidfd first, then a line whenever it stops, and its status once it has ended.
"""

from __future__ import annotations

import atexit
import fcntl
import importlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import trio

from tests.fresh import environment as environment_of_none
from tests.hang import HANG

CHECKOUT = Path(__file__).parents[1]

#: What most commands import, and what those do that serve an agent or a browser, or have a cluster.
COMMANDS = (
    *("resolver.cli.retrieval_run", "resolver.cli.progress", "resolver.transfer.saving", "rich.console"),
    *("protocols.http.dialogue", "protocols.ftp.dialogue", "protocols.gopher.dialogue"),
)
AGENTS = ("resolver.cli.mcp", "resolver.adapters.mcp")
CLUSTERS = (
    *("distributed", "distributed.http.scheduler", "cryptography.x509"),
    *("resolver.cli.cluster", "resolver.cli.bulk", "resolver.bulk"),
)
WINDOWS = ("resolver.cli.serve", "resolver.cli.serve", "resolver.web.server")

#: Signals that tests send, and that a shell or nohup may have ignored.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)

_LARGEST = 1 << 20  # octets of a request


class Begun:
    """A process: of `trio.Process` what tests need, and what a stop of it is told by. Whoever gave it pipes
    puts their ends here."""

    def __init__(self, pid: int, pidfd: int, told: socket.socket) -> None:
        self.pid = pid
        self.stdout: trio.lowlevel.FdStream | None = None
        self.stderr: trio.lowlevel.FdStream | None = None
        self._pidfd = pidfd
        self._told = told
        self._heard = b""
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        """Nothing, where it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def stopped(self) -> None:
        """Until it stops once more."""
        assert await self._line() == "stopped"

    async def wait(self) -> int:
        """Until it has ended. Its exit status, or the signal that ended it, below 0."""
        while self.returncode is None:
            if (line := await self._line()) != "stopped":
                self.returncode = int(line)
        return self.returncode

    def close(self) -> None:
        self._told.close()
        os.close(self._pidfd)

    async def _line(self) -> str:
        while b"\n" not in self._heard:
            await trio.lowlevel.wait_readable(self._told)
            octets = self._told.recv(1_000)
            assert octets, "its keeper is gone"
            self._heard += octets
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()


def begin(
    words: Collection[str],
    program: str = "resolver.cli:run",
    *,
    folder: Path,
    environment: Mapping[str, str],
    streams: tuple[int, int, int],
    ignored: Collection[int] = (),
    loaded: tuple[str, ...] = COMMANDS,
    alone: bool = False,
) -> Begun:
    """A process of its own session that calls `program` with those `words`. If one of its streams is a
    terminal that no session has, it is the session's. What is loaded may be other modules; where it is
    `alone`, warnings are errors, and nothing of the test run's own is there."""
    asked = {
        **{"words": list(words), "folder": str(folder), "environment": dict(environment)},
        **{"ignored": list(ignored), "program": program},
    }
    told, tells = socket.socketpair()
    with tells:
        socket.send_fds(_having(loaded, alone), [json.dumps(asked).encode()], [*streams, tells.fileno()])
    octets, (pidfd,), _, _ = socket.recv_fds(told, 100, 1)
    told.setblocking(False)
    return Begun(int(octets), pidfd, told)


async def run_alone(
    words: Collection[str], *, folder: Path, environment: Mapping[str, str]
) -> tuple[int, bytes, bytes]:
    """One that reads nothing, from its beginning to its end: status, standard output, standard error."""
    (read, out), (heard, err) = os.pipe(), os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    streams = (nothing, out, err)
    process = begin(words, folder=folder, environment=environment, streams=streams, alone=True)
    for descriptor in streams:
        os.close(descriptor)
    said: dict[int, bytes] = {}

    async def hear(descriptor: int) -> None:
        async with trio.lowlevel.FdStream(descriptor) as stream:
            said[descriptor] = b"".join([octets async for octets in stream])

    try:
        with trio.fail_after(HANG):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hear, read)
                nursery.start_soon(hear, heard)
            return await process.wait(), said[read], said[heard]
    finally:
        process.kill()
        process.close()


class Program:
    """One that is spoken to by pipes, as by those of `subprocess.Popen`; `stdin` may be something else."""

    def __init__(
        self,
        words: Collection[str],
        program: str = "resolver.cli:run",
        *,
        loaded: tuple[str, ...],
        environment: Mapping[str, str],
        folder: Path = CHECKOUT,
        stdin: int | None = None,
    ) -> None:
        (given, typed), (read, out), (heard, err) = os.pipe(), os.pipe(), os.pipe()
        self.stdin = os.fdopen(typed, "wb")
        self.stdout, self.stderr = os.fdopen(read, "rb"), os.fdopen(heard, "rb")
        self._begun = begin(
            words,
            program,
            folder=folder,
            environment=environment,
            streams=(given if stdin is None else stdin, out, err),
            loaded=loaded,
            alone=True,
        )
        for descriptor in (given, out, err):
            os.close(descriptor)
        self.pid, self.kill, self.terminate = self._begun.pid, self._begun.kill, self._begun.terminate

    def wait(self) -> int:
        """Its exit status, once it has ended."""

        async def end() -> int:
            with trio.fail_after(HANG):
                return await self._begun.wait()

        return trio.run(end)

    def ended(self) -> tuple[int, str, str]:
        """That, and what else it has said on both streams, as much as pipes have room for: it has ended, and
        whoever has them of it. Nothing is typed at it any more."""
        self.stdin.close()

        async def end() -> tuple[int, str, str]:
            with trio.fail_after(HANG):
                status = await self._begun.wait()
                out, err = [
                    await trio.to_thread.run_sync(stream.read, abandon_on_cancel=True)
                    for stream in (self.stdout, self.stderr)
                ]
            return status, out.decode(), err.decode()

        return trio.run(end)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.kill()
        with suppress(BrokenPipeError):
            self.stdin.close()
        self.stdout.close()
        self.stderr.close()
        self.wait()
        self._begun.close()


@cache
def _having(modules: tuple[str, ...], alone: bool) -> socket.socket:
    """The way to the process that has these loaded; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
    with theirs:
        strict = ["-W", "error"] if alone else []
        process = subprocess.Popen(
            [sys.executable, *strict, "-m", "tests.begun", str(theirs.fileno()), *modules],
            cwd=CHECKOUT,
            env={**(environment_of_none() if alone else os.environ), "PYTHONPATH": str(CHECKOUT)},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# ---- in that process, and in those that it forks


def serve(requests: socket.socket) -> str | None:
    """In what was forked for a request: the program that is to run. Else None, once nobody asks any more."""
    while True:
        octets, descriptors, _, _ = socket.recv_fds(requests, _LARGEST, 4)
        if not octets:
            return None
        if os.fork() == 0:
            requests.close()
            return keep(json.loads(octets), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def keep(asked: dict[str, Any], *descriptors: int) -> str:
    *streams, tells = descriptors
    if (process := os.fork()) == 0:
        os.close(tells)
        become(asked, streams)
        return str(asked["program"])
    os.setsid()  # no signal that is meant for others comes here
    for descriptor in streams:
        os.close(descriptor)
    with socket.socket(fileno=tells) as told, suppress(BrokenPipeError):
        socket.send_fds(told, [str(process).encode()], [os.pidfd_open(process)])
        while os.WIFSTOPPED(status := os.waitpid(process, os.WUNTRACED)[1]):
            told.sendall(b"stopped\n")
        told.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def become(asked: dict[str, Any], streams: list[int]) -> None:
    """What a Python would be that was started so."""
    os.setsid()
    for target, source in enumerate(streams):
        os.dup2(source, target)
    for descriptor in streams:
        os.close(descriptor)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for number in SIGNALS:
        own = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in asked["ignored"] else own)
    own_terminal()
    sys.argv = ["-c", *asked["words"]]
    sys.modules["__main__"] = ModuleType("__main__")  # processes of `multiprocessing` would import this one
    sys.stdin, sys.stdout, sys.stderr = text(0, sys.stdin), text(1, sys.stdout), text(2, sys.stderr)


def own_terminal() -> None:
    for descriptor in range(3):
        with suppress(OSError):
            fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)
            return


def text(descriptor: int, like: TextIO) -> TextIO:
    """As Python makes its streams at its start; the environment may say that they hold nothing back."""
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    return io.TextIOWrapper(
        open(descriptor, "wb" if descriptor else "rb", 0 if at_once and descriptor else -1, closefd=False),
        encoding=like.encoding,
        errors=like.errors,
        line_buffering=not at_once and (descriptor == 2 or os.isatty(descriptor)),
        write_through=at_once,
    )


def main(descriptor: str, *modules: str) -> None:
    for name in modules:
        importlib.import_module(name)
    with socket.socket(fileno=int(descriptor)) as requests:
        program = serve(requests)
    if program is not None:
        module, _, name = program.partition(":")
        getattr(importlib.import_module(module), name)()


if __name__ == "__main__":
    main(*sys.argv[1:])
