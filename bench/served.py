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
    requests: dict[socket.socket, bytes] = {}
    waiting, batch_size = list[socket.socket](), 1
    while True:
        for key, _ in selector.select():
            client = key.fileobj
            assert isinstance(client, socket.socket)
            if client is listener:
                selector.register(listener.accept()[0], selectors.EVENT_READ)
                continue
            data = client.recv(4096)
            requests[client] = requests.get(client, b"") + data
            if data and not requests[client].endswith(b"\r\n"):
                continue  # incomplete line: curl sends the line end separately
            selector.unregister(client)
            del requests[client]
            if not data:
                client.close()
                continue
            waiting.append(client)
            if len(waiting) >= batch_size:
                for connection in waiting:
                    with suppress(OSError), connection:
                        connection.sendall(body)
                waiting.clear()
                batch_size = 1 if batch_size > 1 else together


def serve_menu() -> None:
    """Serve menus until the process is killed; each menu is created once and cached."""
    listener = _listen()
    menu_by_size: dict[int, bytes] = {}
    while True:
        connection, _ = listener.accept()
        with suppress(OSError), connection:
            items = int(connection.recv(4096))
            connection.sendall(menu_by_size.get(items) or menu_by_size.setdefault(items, _menu(items)))


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
        while request := connection.recv(65_536):
            size = path.stat().st_size
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            connection.sendfile(file)
            file.seek(0)
            if b"Connection: close" in request:
                return


@contextmanager
def run_module(module: str, *arguments: object) -> Iterator[int]:
    """Run a server module in a separate process, and yield the port that the server prints."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def run_server(*arguments: object) -> AbstractContextManager[int]:
    """Run a server of this module in a separate process, and yield its port."""
    return run_module("bench.served", *arguments)


if __name__ == "__main__":
    if sys.argv[1] == "gopher":
        serve_gopher(int(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1] == "menu":
        serve_menu()
    else:
        serve_file(Path(sys.argv[2]))
