"""A relay in front of each host of the tests, with a log: to a server, real or mock.

A line is written before a peer can act on the event. The start of a request is logged before the server
receives it, and its end before the client has the last byte of the reply. When a client is gone, perhaps
killed, its requests are logged as ended before the next client's requests begin. So the log never shows more
concurrent requests than exist. Each reply is delayed for a moment; otherwise requests for small objects would
never overlap.

The fields of a line are separated by tabs: `began`, `ended` or `mark`; the second, of a monotonic clock; the
number of the request; the host; the last part of the requested path, or the name of the mark.
"""

from __future__ import annotations

import re
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import trio

_MOST = 65_536
_ESTABLISHED = 1
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)

_HTTP = re.compile(rb"(?:^|\r\n)(?:GET|HEAD) \S*/(\S+) HTTP/1\.1(?=\r\n)")
_LENGTH = re.compile(rb"(?i)\r\nContent-Length: *(\d+)\r\n")
#: Multi-line replies of NNTP (RFC 3977 3.2).
_LONG = re.compile(rb"(?:100|101|211(?= *\d* *[^\d ])|215|22[0-25]|230|231)")


class LogFile:
    """The log of all hosts, in chronological order.

    `begun` counts requests; `heard` is called when a request has begun.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self.begun = 0
        self.heard: Callable[[], None] = lambda: None

    def close(self) -> None:
        self._file.close()

    def begin(self, host: str, name: bytes) -> Callable[[], None]:
        """Log the start of a request; return a function that logs its end."""
        self.begun += 1
        number = self.begun
        self._write("began", number, host, name)
        self.heard()
        return lambda: self._write("ended", number, host, name)

    def mark(self, name: bytes) -> None:
        self._write("mark", 0, "", name)

    def _write(self, what: str, number: int, host: str, name: bytes) -> None:
        line = f"{what}\t{time.monotonic():.6f}\t{number}\t{host}\t{name.decode('ascii')}\n"
        self._file.write(line.encode())


class Talk:
    """A connection: `hear` parses the client's bytes and begins requests.

    `say` parses the server's bytes, ends the requests that they answer, and yields the bytes to forward.
    """

    def __init__(self, log: LogFile, host: str) -> None:
        self.log, self.host = log, host
        self.heard, self.said = b"", b""
        self.asked: deque[Callable[[], None] | None] = deque()

    def hear(self, octets: bytes) -> None:
        raise NotImplementedError

    def say(self, octets: bytes, *, over: bool) -> Iterator[tuple[bytes, bool]]:
        """Yield pieces, each with whether it is a reply; `over` marks the end of the server's output."""
        raise NotImplementedError

    def begin(self, name: bytes) -> None:
        self.asked.append(self.log.begin(self.host, name))

    def end_all(self) -> None:
        """End all requests, because no client waits for a reply."""
        while self.asked:
            self.end()

    def end(self) -> bool:
        """End the oldest entry; return whether it was a request."""
        ended = self.asked.popleft() if self.asked else None
        if ended is not None:
            ended()
        return ended is not None


class Http(Talk):
    def hear(self, octets: bytes) -> None:
        self.heard += octets
        while (end := self.heard.find(b"\r\n\r\n")) >= 0:
            head, self.heard = self.heard[:end], self.heard[end + 4 :]
            asked = _HTTP.match(head + b"\r\n")
            assert asked is not None, head
            self.begin(asked[1])

    def say(self, octets: bytes, *, over: bool) -> Iterator[tuple[bytes, bool]]:
        self.said += octets
        while (end := self.said.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self.said[: end + 2])
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(self.said) < whole:
                break
            answer, self.said = self.said[:whole], self.said[whole:]
            yield answer, True


class Gopher(Talk):
    def hear(self, octets: bytes) -> None:
        self.heard += octets
        if not self.asked and b"\r\n" in self.heard:
            self.begin(self.heard.partition(b"\r\n")[0].split(b"\t")[0].rpartition(b"/")[2])

    def say(self, octets: bytes, *, over: bool) -> Iterator[tuple[bytes, bool]]:
        self.said += octets
        if over:
            yield self.said, True


class News(Talk):
    """NNTP: commands may be pipelined, and are answered in order."""

    def __init__(self, log: LogFile, host: str) -> None:
        super().__init__(log, host)
        self.asked.append(None)  # the greeting is not a reply to a request

    def hear(self, octets: bytes) -> None:
        self.heard += octets
        while b"\r\n" in self.heard:
            line, _, self.heard = self.heard.partition(b"\r\n")
            verb, _, name = line.partition(b" ")
            if verb.upper() in (b"ARTICLE", b"BODY", b"HEAD"):
                self.begin(name)
            else:
                self.asked.append(None)

    def say(self, octets: bytes, *, over: bool) -> Iterator[tuple[bytes, bool]]:
        self.said += octets
        while (end := self.said.find(b"\r\n")) >= 0:
            if _LONG.match(self.said):
                end = self.said.find(b"\r\n.\r\n")
                if end < 0:
                    return
                end += 3
            answer, self.said = self.said[: end + 2], self.said[end + 2 :]
            yield answer, True


class Ftp(Talk):
    """The ftp control connection: RETR begins a file, and its last reply ends it."""

    def hear(self, octets: bytes) -> None:
        self.heard += octets
        while b"\r\n" in self.heard:
            line, _, self.heard = self.heard.partition(b"\r\n")
            if line.startswith(b"RETR "):
                self.begin(line[5:].rpartition(b"/")[2])

    def say(self, octets: bytes, *, over: bool) -> Iterator[tuple[bytes, bool]]:
        self.said += octets
        while b"\r\n" in self.said:
            line, _, self.said = self.said.partition(b"\r\n")
            is_last = bool(self.asked) and re.match(rb"[2-5]\d\d ", line) is not None
            yield line + b"\r\n", is_last


TALKS: dict[str, type[Talk]] = {"http": Http, "gopher": Gopher, "nntp": News, "ftp": Ftp}


class Front:
    """The relay of a host: `server` is its target, `pause` the delay of a reply."""

    def __init__(self, log: LogFile, scheme: str, host: str, server: tuple[str, int], pause: float) -> None:
        self._log, self._scheme, self._host = log, scheme, host
        self._server, self._pause = server, pause
        self._attended: dict[Talk, trio.SocketStream] = {}

    async def attend(self, client: trio.SocketStream) -> None:
        talk = TALKS[self._scheme](self._log, self._host)
        self._attended[talk] = client
        try:
            async with await trio.open_tcp_stream(*self._server) as server, trio.open_nursery() as nursery:
                nursery.start_soon(self._hear, talk, client, server)
                await self._say(talk, client, server)
                nursery.cancel_scope.cancel()
        except* _GONE:
            pass  # the client left, or was killed
        finally:
            del self._attended[talk]
            talk.end_all()
            await trio.aclose_forcefully(client)

    async def _hear(self, talk: Talk, client: trio.SocketStream, server: trio.SocketStream) -> None:
        with suppress(*_GONE):
            while octets := await client.receive_some(_MOST):
                self._end_requests_of_gone_clients()
                if _is_gone(client):
                    break
                talk.hear(octets)
                await server.send_all(octets)
            await server.send_eof()

    def _end_requests_of_gone_clients(self) -> None:
        """End the requests of clients that are gone.

        The successor of a killed client may connect before the end of the killed client's connection is read.
        """
        for talk, client in self._attended.items():
            if _is_gone(client):
                talk.end_all()

    async def _say(self, talk: Talk, client: trio.SocketStream, server: trio.SocketStream) -> None:
        over = False
        while not over:
            octets = await server.receive_some(_MOST)
            over = not octets
            for piece, is_answer in talk.say(octets, over=over):
                if is_answer and talk.asked and talk.asked[0] is not None:
                    await trio.sleep(self._pause)
                if is_answer:
                    talk.end()
                await client.send_all(piece)


def _is_gone(client: trio.SocketStream) -> bool:
    """Return whether the connection is closed at either end, even with unread data.

    The state is the first byte of Linux's `tcp_info`.
    """
    return client.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _ESTABLISHED
