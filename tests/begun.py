"""Programs that start with their imports loaded: they are forked from a process that has them.

Most of the cost of a short command is the import of trio. For tests that start many commands and do not test
the start, one process loads all imports, `python -m tests.begun`, and forks for each of them. A forked
program has separate streams, environment, folder, session and signals, like a Python started for it
(`tests/test_begun.py`), and inherits no state of other programs.

A request is one packet: JSON, and descriptors for the three streams and for the status channel. A keeper
process reports there: the pidfd first, then a line for each stop of the program, and its status at the end.
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

#: The imports of most commands, and of commands that serve an agent or a browser, or start a cluster.
COMMANDS = (
    *("resolver.cli.retrieval_run", "resolver.cli.progress", "resolver.transfer.saving", "rich.console"),
    *("protocols.http.dialogue", "protocols.ftp.dialogue", "protocols.gopher.dialogue"),
)
AGENTS = ("resolver.cli.mcp", "resolver.adapters.mcp")
CLUSTERS = (
    *("distributed", "distributed.http.scheduler", "cryptography.x509"),
    *("resolver.cli.cluster", "resolver.cli.bulk", "resolver.bulk"),
)
WINDOWS = ("resolver.cli.serve", "resolver.web.server")

#: Signals that tests send, and that a shell or nohup may have ignored.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)

_LARGEST = 1 << 20  # bytes of a request


class Begun:
    """A process with the methods of `trio.Process` that tests need, and `stopped`.

    If pipes are passed, the caller assigns their ends here.
    """

    def __init__(self, pid: int, pidfd: int, told: socket.socket) -> None:
        self.pid = pid
        self.stdout: trio.lowlevel.FdStream | None = None
        self.stderr: trio.lowlevel.FdStream | None = None
        self._pidfd = pidfd
        self._told = told
        self._heard = b""
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def stopped(self) -> None:
        """Wait for the next stop."""
        assert await self._line() == "stopped"

    async def wait(self) -> int:
        """Wait for the end; return the exit status, or the negative number of the signal."""
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
    """Start a process in a separate session that calls `program` with `words`.

    If one of its streams is a terminal without a session, it becomes the controlling terminal. `loaded`
    selects the modules. With `alone`, warnings are errors, and no environment of the test run is inherited.
    """
    asked = {
        **{"words": list(words), "folder": str(folder), "environment": dict(environment)},
        **{"ignored": list(ignored), "program": program},
    }
    told, tells = socket.socketpair()
    with tells:
        socket.send_fds(
            _forking_process(loaded, alone), [json.dumps(asked).encode()], [*streams, tells.fileno()]
        )
    octets, (pidfd,), _, _ = socket.recv_fds(told, 100, 1)
    told.setblocking(False)
    return Begun(int(octets), pidfd, told)


async def run_alone(
    words: Collection[str], *, folder: Path, environment: Mapping[str, str]
) -> tuple[int, bytes, bytes]:
    """Run a program without input to its end; return status, standard output and standard error."""
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
    """A program with pipes as those of `subprocess.Popen`; `stdin` may be another descriptor."""

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
        """Wait for the end, and return the exit status."""

        async def end() -> int:
            with trio.fail_after(HANG):
                return await self._begun.wait()

        return trio.run(end)

    def ended(self) -> tuple[int, str, str]:
        """Close its input and wait; return the status and the rest of both streams, up to a pipe's capacity.

        Call it only if the program ends without further input, and its children too.
        """
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
def _forking_process(modules: tuple[str, ...], alone: bool) -> socket.socket:
    """Return a socket to the process that has these modules loaded; it ends with this process."""
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


# ---- in that process, and in its children


def serve(requests: socket.socket) -> str | None:
    """Fork for each request; return in the child the program to run, and None when the requests end."""
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
        set_up_process(asked, streams)
        return str(asked["program"])
    os.setsid()  # signals for other processes do not arrive here
    for descriptor in streams:
        os.close(descriptor)
    with socket.socket(fileno=tells) as told, suppress(BrokenPipeError):
        socket.send_fds(told, [str(process).encode()], [os.pidfd_open(process)])
        while os.WIFSTOPPED(status := os.waitpid(process, os.WUNTRACED)[1]):
            told.sendall(b"stopped\n")
        told.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def set_up_process(asked: dict[str, Any], streams: list[int]) -> None:
    """Set up the process like a Python started with these settings."""
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
    # else processes of `multiprocessing` would import this module
    sys.modules["__main__"] = ModuleType("__main__")
    sys.stdin, sys.stdout, sys.stderr = text(0, sys.stdin), text(1, sys.stdout), text(2, sys.stderr)


def own_terminal() -> None:
    for descriptor in range(3):
        with suppress(OSError):
            fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)
            return


def text(descriptor: int, like: TextIO) -> TextIO:
    """Open a stream as Python does at its start; the environment may turn off buffering."""
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
