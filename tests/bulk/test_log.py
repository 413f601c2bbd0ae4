"""Statistics of handwritten logs: every violation of a limit is found."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import trio

from tests.bulk import log
from tests.bulk.front import TALKS, Front, LogFile
from tests.hang import HANG

LINES = """\
mark\t10.0\t0\t\tstart
began\t10.0\t1\ta\tone
began\t10.1\t2\tb\tone
began\t10.2\t3\ta\ttwo
ended\t10.3\t1\ta\tone
began\t10.4\t4\ta\tone
ended\t10.5\t3\ta\ttwo
mark\t10.6\t0\t\tlater
ended\t11.0\t4\ta\tone
began\t11.3\t5\ta\tthree
half a li"""


@pytest.fixture
def lines(tmp_path: Path) -> list[log.Line]:
    (tmp_path / "log").write_text(LINES)
    return log.read(tmp_path / "log")


def test_asked_counts_requests_by_name(lines: list[log.Line]) -> None:
    assert log.asked(lines) == {("a", "one"): 2, ("a", "two"): 1, ("a", "three"): 1, ("b", "one"): 1}
    assert log.asked(log.since(lines, "later")) == {("a", "three"): 1}


def test_max_concurrent_counts_by_host(lines: list[log.Line]) -> None:
    assert log.max_concurrent(lines) == {"a": 2, "b": 1}


def test_requests_above_rate_are_found(lines: list[log.Line]) -> None:
    assert log.max_per_second(lines) == {"a": 3, "b": 1}
    assert log.requests_above_rate(lines, 4.0) == [("a", 1), ("a", 2)]
    assert log.requests_above_rate(lines, 10.0) == []


#: The bytes of a connection: the client's request, then the server's reply and the pieces forwarded.
TALKED: dict[str, list[tuple[bytes, bytes | None]]] = {
    "http": [
        (b"GET /bulk/7.bin HTTP/1.1\r\nHost: h\r\n\r\n", b""),
        (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"),
        (b"", b"c"),
    ],
    "gopher": [(b"/bulk/7.bin\r\n", b""), (b"", b"ab"), (b"", None)],
    "nntp": [
        (b"", b"200 Hello\r\n"),
        (b"GROUP g\r\nARTICLE 7.bin\r\n", b""),
        (b"", b"211 1 1 1 g\r\n220 7 <i>\r\nHead: x\r\n"),
        (b"", b"\r\nbody\r\n.\r\n"),
    ],
    "ftp": [
        (b"", b"220 Hello\r\n"),
        (b"CWD bulk\r\n", b"250 There\r\n"),
        (b"RETR 7.bin\r\n", b"150 Here it comes\r\n"),
        (b"", b"226 Done\r\n"),
    ],
}


@pytest.mark.parametrize("scheme", TALKED)
def test_request_ends_with_last_byte_of_reply(scheme: str, tmp_path: Path) -> None:
    """Not before the reply's last byte has arrived; no byte is lost."""
    handed = b""
    with closing(LogFile(tmp_path / "log")) as written:
        talk = TALKS[scheme](written, "h")
        for said, answered in TALKED[scheme]:
            talk.hear(said)
            assert "ended" not in [line.what for line in log.read(tmp_path / "log")]
            for piece, is_answer in talk.say(answered or b"", over=answered is None):
                handed += piece
                if is_answer:
                    talk.end()
    assert handed == b"".join(answered or b"" for _, answered in TALKED[scheme])
    assert [(line.what, line.name) for line in log.read(tmp_path / "log")] == [
        ("began", "7.bin"),
        ("ended", "7.bin"),
    ]


async def test_new_request_ends_those_of_gone_clients(tmp_path: Path) -> None:
    """The server has not replied, and no code has checked the old client's connection."""
    with closing(LogFile(tmp_path / "log")) as written:
        (silent,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with silent, trio.open_nursery() as nursery:
            front = Front(written, "http", "h", silent.socket.getsockname(), pause=0.0)
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, front.attend, listeners)
            for number in range(10):
                began = trio.Event()
                written.heard = began.set
                with trio.fail_after(HANG):
                    async with await trio.open_tcp_stream(*listeners[0].socket.getsockname()) as client:
                        await client.send_all(b"GET /%d.bin HTTP/1.1\r\n\r\n" % number)
                        await began.wait()
            nursery.cancel_scope.cancel()
    lines = log.read(tmp_path / "log")
    assert len(lines) == 20
    assert log.max_concurrent(lines) == {"h": 1}
