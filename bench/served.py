"""Minimal servers in separate processes, which are faster than all clients.

- `python -m bench.served gopher SIZE TOGETHER` sends SIZE bytes for any selector. If TOGETHER is more than
  1, the server responds to the first client immediately. Afterwards, the server waits until TOGETHER
  clients have sent requests, responds to all of them, and waits again.
- `menu` sends menus; the selector is the number of items.
- `file PATH` sends the file for every http request.

Each server prints its port to standard output.
"""

from __future__ import annotations

import selectors
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path


def _listen() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listener.getsockname()[1], flush=True)
    return listener


def serve_gopher(size: int, together: int) -> None:
    """Serve until the process is killed, with a loop over `selectors`, which is faster than each client."""
    listener, body = _listen(), b"x" * size
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    asked: dict[socket.socket, bytes] = {}
    waiting, wanted = list[socket.socket](), 1
    while True:
        for key, _ in selector.select():
            there = key.fileobj
            assert isinstance(there, socket.socket)
            if there is listener:
                selector.register(listener.accept()[0], selectors.EVENT_READ)
                continue
            came = there.recv(4096)
            asked[there] = asked.get(there, b"") + came
            if came and not asked[there].endswith(b"\r\n"):
                continue  # incomplete line: curl sends the line end separately
            selector.unregister(there)
            del asked[there]
            if not came:
                there.close()
                continue
            waiting.append(there)
            if len(waiting) >= wanted:
                for each in waiting:
                    with suppress(OSError), each:
                        each.sendall(body)
                waiting.clear()
                wanted = 1 if wanted > 1 else together


def serve_menu() -> None:
    """Serve menus until the process is killed; each menu is created once and cached."""
    listener = _listen()
    made: dict[int, bytes] = {}
    while True:
        connection, _ = listener.accept()
        with suppress(OSError), connection:
            items = int(connection.recv(4096))
            connection.sendall(made.get(items) or made.setdefault(items, _menu(items)))


def _menu(items: int) -> bytes:
    lines = (
        f"0Document {n:,} of this menu\t/documents/of/some/length/{n:07}.txt\tgopher.example.org\t70\r\n"
        for n in range(1, items + 1)
    )
    return "".join([*lines, ".\r\n"]).encode()


def serve_file(path: Path) -> None:
    """Serve the file with sendfile(2), one thread per connection, until the process is killed."""
    listener = _listen()
    while True:
        threading.Thread(target=_send, args=(listener.accept()[0], path), daemon=True).start()


def _send(connection: socket.socket, path: Path) -> None:
    with suppress(OSError), connection, path.open("rb") as file:
        # With Nagle's algorithm, a body after its head waits 40 ms for a client that delays acknowledgments.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while asked := connection.recv(65_536):
            size = path.stat().st_size
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            connection.sendfile(file)
            file.seek(0)
            if b"Connection: close" in asked:
                return


@contextmanager
def listening(module: str, *words: object) -> Iterator[int]:
    """Run a server module in a separate process, and yield the port that the server prints."""
    command = [sys.executable, "-m", module, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def served(*words: object) -> AbstractContextManager[int]:
    """Run a server of this module in a separate process, and yield its port."""
    return listening("bench.served", *words)


if __name__ == "__main__":
    if sys.argv[1] == "gopher":
        serve_gopher(int(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1] == "menu":
        serve_menu()
    else:
        serve_file(Path(sys.argv[2]))
