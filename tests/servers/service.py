"""Start one real server under the keeper, wait until it is ready, and end it.

The system chooses the ports (port 0). Inetd style, and for a daemon that takes over a socket, the harness
opens the listening socket, so no wait is needed. Other daemons are ready when their log says so. No polling,
no sleeps.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

LOOPBACK = "127.0.0.1"
_KEEPER = [sys.executable, "-I", str(Path(__file__).with_name("keeper.py"))]
#: A command that passes the socket to the server as systemd does.
_TAKE_OVER = [
    sys.executable,
    "-Ic",
    "import os, sys\n"
    "os.dup2(int(sys.argv[1]), 3)\n"
    "os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))\n"
    "os.execvp(sys.argv[2], sys.argv[2:])\n",
]
#: Seconds that a daemon may take to start on a busy machine, and the keeper to end it.
_PATIENCE = 30.0


@contextmanager
def inetd(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    wrapper: Sequence[str] = (),
    host: str = LOOPBACK,
) -> Iterator[int]:
    """Listen on a free port and run the command once per connection; yield the port.

    The word `{port}` of the command is the port. `wrapper` is a command that runs the keeper (a namespace).
    """
    with socket.create_server((host, 0)) as listener, log.open("ab") as output:
        port = listener.getsockname()[1]
        words = [str(port) if word == "{port}" else word for word in command]
        keeper = [*wrapper, *_KEEPER, "--listen", str(listener.fileno()), *words]
        with _run_with_socket(listener, keeper, environment, output):
            yield port


@contextmanager
def activated(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[int]:
    """Run a server that takes over a listening socket as from systemd (sd_listen_fds(3)); yield the port.

    The command must not fork, because the socket is passed to one pid.
    """
    with socket.create_server((LOOPBACK, 0)) as listener, log.open("ab") as output:
        port = listener.getsockname()[1]
        keeper = [*_KEEPER, *_TAKE_OVER, str(listener.fileno()), *command]
        with _run_with_socket(listener, keeper, environment, output):
            yield port


@contextmanager
def _run_with_socket(
    listener: socket.socket, keeper: Sequence[str], environment: Mapping[str, str], output: IO[bytes]
) -> Iterator[None]:
    """Run a keeper that inherits the socket under the same number; close the socket here."""
    process = subprocess.Popen(
        keeper,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        env=environment,
        pass_fds=[listener.fileno()],
    )
    listener.close()
    with _end_on_exit(process):
        yield


@contextmanager
def daemon(command: Sequence[str], environment: Mapping[str, str], log: Path, ready: str) -> Iterator[None]:
    """Run a server that opens its own socket; it is ready when a line of its output matches `ready`."""
    process = subprocess.Popen(
        [*_KEEPER, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
    )
    assert process.stdout is not None
    output = _Output(process.stdout, log, ready)
    output.start()
    try:
        with _end_on_exit(process):
            if not output.is_up():
                raise RuntimeError(f"{command[0]} did not come up:\n{log.read_text(errors='replace')}")
            yield
    finally:
        output.join()
        process.stdout.close()


class _Output(threading.Thread):
    """A thread that copies a daemon's output into a file and watches for the ready line."""

    def __init__(self, source: IO[bytes], log: Path, ready: str) -> None:
        super().__init__(name=f"output to {log.name}")
        self._source = source
        self._log = log
        self._ready = re.compile(ready.encode())
        self._settled = threading.Event()
        self._seen = False

    def run(self) -> None:
        with self._log.open("ab", buffering=0) as target:
            for line in self._source:
                target.write(line)
                if self._ready.search(line):
                    self._seen = True
                    self._settled.set()
        self._settled.set()

    def is_up(self) -> bool:
        """Wait for the ready line or the end of the output; return whether the daemon is ready."""
        return self._settled.wait(_PATIENCE) and self._seen


@contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a free port, reserved until the server that is configured with it has started.

    The socket is bound but does not listen. A server that sets SO_REUSEADDR, as servers do, may bind the same
    port.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((LOOPBACK, 0))
        yield holder.getsockname()[1]


@contextmanager
def _end_on_exit(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End the keeper, and so the server, by closing its standard input."""
    assert process.stdin is not None
    try:
        yield
    finally:
        process.stdin.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
