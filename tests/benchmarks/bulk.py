"""One large file over http on loopback, to the disk, by commands side by side: `resolve get`, curl, wget.

Each is a process of its own and saves the same octets from the same server, which sends them with
sendfile(2); the runs alternate. `resolve` also syncs the file before it names it. What is not installed
is left out.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

SIZE = 536_870_912
RUNS = 5
_PIECE = random.Random(1).randbytes(1_048_576)

COMMANDS = {
    "resolve get": [sys.executable, "-c", "from resolver.cli import run; run()", "get", "-q", "--allow-port"],
    "curl": ["curl", "-sS", "-f"],
    "wget": ["wget", "-q"],
}


def write_source(path: Path, size: int = SIZE) -> None:
    with path.open("wb") as file:
        for _ in range(size // len(_PIECE)):
            file.write(_PIECE)


def serve(path: Path) -> None:
    """Send the file to whoever asks for anything; prints the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0], path), daemon=True).start()


def answer(connection: socket.socket, path: Path) -> None:
    with suppress(OSError), connection, path.open("rb") as file:
        while connection.recv(65_536):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % SIZE)
            connection.sendfile(file)


def command_for(name: str, port: int, target: Path) -> list[str]:
    allowed = [str(port)] if name == "resolve get" else []
    return [
        *COMMANDS[name],
        *allowed,
        f"-{'O' if name == 'wget' else 'o'}",
        str(target),
        f"http://127.0.0.1:{port}/",
    ]


def measure(port: int, folder: Path) -> dict[str, list[float]]:
    """Seconds of each run, by command."""
    names = [name for name in COMMANDS if name == "resolve get" or shutil.which(name)]
    taken: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(RUNS):
        for name in names:
            target = folder / "target"
            start = time.perf_counter()
            subprocess.run(command_for(name, port, target), check=True)
            taken[name].append(time.perf_counter() - start)
            assert target.stat().st_size == SIZE
            target.unlink()
    return taken


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "source"
        write_source(source)
        command = [sys.executable, __file__, "serve", str(source)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                taken = measure(int(server.stdout.readline()), folder)
            finally:
                server.kill()
    print(f"{SIZE // 1_048_576} MiB over http to the disk, {RUNS} runs in turn: fastest, median, slowest")
    for name, seconds in taken.items():
        middle = statistics.median(seconds)
        rate = SIZE / middle / 1_000_000
        print(
            f"  {name:12} {min(seconds):6.2f} {middle:6.2f} {max(seconds):6.2f} s;"
            f" {rate:5,.0f} MB/s in the median"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(Path(os.fsdecode(sys.argv[2])))
    else:
        main()
