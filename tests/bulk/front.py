"""What stands before each host of the tests and keeps its log: a relay to a server, real or ours.

A line is written before anybody can act on what it says: that a request began before the server hears of it,
and that it ended before the client has the last octet of its answer. The requests of a client that is gone,
which may have been killed, ended before what another one began. So by the log never more requests are under
way than there are. Each answer is held for a moment, or of small objects no two would ever meet.

A line has, between tabs: `began`, `ended` or `mark`; the second, by a clock that only goes forward; the
number of the request; the host; the last part of what was asked for. Of a mark the last one is its name.
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
#: Replies of NNTP that more lines follow (RFC 3977 3.2).
_LONG = re.compile(rb"(?:100|101|211(?= *\d* *[^\d ])|215|22[0-25]|230|231)")


class LogFile:
    """What is written of all hosts, in the order in which it came to pass. `begun` counts requests; `heard`
    is called when one has begun."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self.begun = 0
        self.heard: Callable[[], None] = lambda: None

    def close(self) -> None:
        self._file.close()

    def begin(self, host: str, name: bytes) -> Callable[[], None]:
        """A request begins; what is returned ends it."""
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
    """One connection. `hear` is told what the client says, and begins requests; `say` what the server
    says, and yields what may be handed on, after the requests that it answers have ended."""

    def __init__(self, log: LogFile, host: str) -> None:
        self.log, self.host = log, host
        self.heard, self.said = b"", b""
        self.asked: deque[Callable[[], None] | None] = deque()

    def hear(self, octets: bytes) -> None:
        raise NotImplementedError

    def say(self, octets: bytes, *, over: bool) -> Iterator[tuple[bytes, bool]]:
        """Pieces, and whether each is an answer. `over`: the server has said all."""
        raise NotImplementedError

    def begin(self, name: bytes) -> None:
        self.asked.append(self.log.begin(self.host, name))

    def end_all(self) -> None:
        """Nobody waits for an answer any more."""
        while self.asked:
            self.end()

    def end(self) -> bool:
        """The next thing that was asked for is answered; was it a request?"""
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
    """Commands may come before the last one is answered, and are answered in their order."""

    def __init__(self, log: LogFile, host: str) -> None:
        super().__init__(log, host)
        self.asked.append(None)  # the greeting answers nothing

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
    """The control connection: a file is asked for by RETR, and is there when its last reply is."""

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
    """Serves one host's connections: `server` is where they lead, `pause` how long an answer is held."""

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
            pass  # the client went away, or was killed
        finally:
            del self._attended[talk]
            talk.end_all()
            await trio.aclose_forcefully(client)

    async def _hear(self, talk: Talk, client: trio.SocketStream, server: trio.SocketStream) -> None:
        with suppress(*_GONE):
            while octets := await client.receive_some(_MOST):
                self._end_for_those_who_are_gone()
                if _is_gone(client):
                    break
                talk.hear(octets)
                await server.send_all(octets)
            await server.send_eof()

    def _end_for_those_who_are_gone(self) -> None:
        """A client that takes the place of one that was killed may be heard before that one's end is."""
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
    """By the state of the connection, which is the first octet of Linux's `tcp_info`: it is no longer open at
    both ends, whatever of it is still to be read."""
    return client.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _ESTABLISHED
