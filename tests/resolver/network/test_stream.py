"""`SocketStream`: bytes, idle timeouts, resets, events, and moves into a file."""

from __future__ import annotations

import errno
import os
import random
import socket
import stat
import subprocess
import sys
import textwrap
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
import trustme

from protocols.contract import FirstResult, Line
from protocols.text import Masked
from protocols.wire import Secret, encode_line
from resolver import Closed, Connected, Disconnected, Event, Policy, Received, Refused, Sent, TimedOut
from resolver.loops.loop import Descriptor
from resolver.network import stream as stream_module
from resolver.network.stream import (
    RECEIVE_BUFFER,
    RECEIVE_SIZE,
    SPLICE_FROM,
    SocketStream,
    SplicePipe,
    TappedStream,
    can_splice,
)
from tests.hang import HANG
from tests.resolver.network.peers import admit, echo, reset, start, start_tls, stay_silent
from tests.resolver.network.transfers import FileSink, file_sink

HELLO = encode_line(b"HELLO")


async def test_stream_sends_lines_in_one_write_and_receives_until_end(nursery: trio.Nursery) -> None:
    chunks = []

    async def serve(stream: trio.SocketStream) -> None:
        chunks.append(await stream.receive_some())
        await stream.send_all(b"one")
        await stream.send_eof()

    port = await start(nursery, serve)
    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        await stream.send(HELLO, encode_line(b"AGAIN"))
        assert await stream.receive() == b"one"
        assert [await stream.receive(), await stream.receive()] == [b"", b""]
        assert (stream.peer, stream.secured, stream.received) == ("127.0.0.1", False, 3)
        assert not stream.close_notify_seen
    assert chunks == [b"HELLO\r\nAGAIN\r\n"]


async def test_stream_receives_at_most_128_kib(nursery: trio.Nursery) -> None:
    port = await start(nursery, lambda stream: stream.send_all(bytes(300_000)))
    sizes = []
    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        while octets := await stream.receive():
            sizes.append(len(octets))
    assert sum(sizes) == 300_000
    assert max(sizes) <= 131_072


async def test_stream_concurrent_reads_do_not_mix(nursery: trio.Nursery) -> None:
    came: dict[int, set[int]] = {}

    async def read(number: int) -> None:
        async def serve(stream: trio.SocketStream) -> None:
            for _ in range(20):
                await stream.send_all(bytes([number]) * 30_000)

        port = await start(nursery, serve)
        async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
            while octets := await stream.receive():
                came.setdefault(number, set()).update(octets)

    async with trio.open_nursery() as readers:
        for number in range(8):
            readers.start_soon(read, number)
    assert came == {number: {number} for number in range(8)}


def test_receive_buffer_is_separate_for_each_thread() -> None:
    buffers = [RECEIVE_BUFFER.view.obj]
    thread = threading.Thread(target=lambda: buffers.append(RECEIVE_BUFFER.view.obj))
    thread.start()
    thread.join(HANG)
    assert len(buffers) == 2
    assert buffers[0] is not buffers[1]


async def test_stream_sends_large_request_complete(nursery: trio.Nursery) -> None:
    total = trio.Event()
    count = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal count
        async for octets in stream:
            count += len(octets)
        total.set()

    port = await start(nursery, serve)
    line = encode_line(bytes([65]) * 8_000_000)
    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        await stream.send(line)
    await total.wait()
    assert count == 8_000_002


async def test_stream_receive_times_out_when_idle(nursery: trio.Nursery, tmp_path: Path) -> None:
    port = await start(nursery, stay_silent)
    async with admit(f"http://127.0.0.1:{port}/", idle=0.2).connect(tls=False) as stream:
        with pytest.raises(TimedOut, match=r" 127\.0\.0\.1 .* 0\.2 s") as caught:
            await stream.receive()
        assert caught.value.setting == "idle_timeout"
        with file_sink(tmp_path / "nothing") as sink, pytest.raises(TimedOut):
            await stream.move(sink, None)


async def test_stream_receives_bytes_of_stop_longer_than_idle_limit(nursery: trio.Nursery) -> None:
    """After SIGSTOP and SIGCONT, the wait is late, although the bytes arrived during the stop."""

    async def send(stream: trio.SocketStream) -> None:
        await stream.send_all(b"x")
        await trio.sleep_forever()

    async def be_late(descriptor: Descriptor, deadline: float) -> bool:
        await trio.lowlevel.wait_readable(descriptor.fileno())
        return False

    port = await start(nursery, send)
    async with admit(f"http://127.0.0.1:{port}/", idle=5).connect(tls=False) as stream:
        stream.loop = stream.loop._replace(readable_by=be_late)
        assert await stream.receive() == b"x"


async def test_stream_send_times_out_when_peer_does_not_read(nursery: trio.Nursery) -> None:
    port = await start(nursery, stay_silent)
    async with admit(f"http://127.0.0.1:{port}/", idle=0.2).connect(tls=False) as stream:
        with pytest.raises(TimedOut):
            await stream.send(encode_line(bytes([65]) * 50_000_000))


async def test_idle_limit_restarts_with_each_byte(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    """Ten bytes arrive, one every four seconds. The idle limit is five seconds."""
    taken = trio.testing.Sequencer()

    async def drip(stream: trio.SocketStream) -> None:
        for index in range(10):
            async with taken(2 * index):
                await stream.send_all(b"x")

    port = await start(nursery, drip)
    async with admit(f"http://127.0.0.1:{port}/", idle=5).connect(tls=False) as stream:
        for index in range(10):
            assert await stream.receive() == b"x"
            async with taken(2 * index + 1):
                mock_clock.jump(4)
        assert trio.current_time() >= 40


async def test_stream_reset_is_disconnected(nursery: trio.Nursery, tmp_path: Path) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        reset(stream)

    port = await start(nursery, serve)
    with file_sink(tmp_path / "nothing") as sink:
        for action in ("receive", "move"):
            async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
                await stream.send(HELLO)
                with pytest.raises(Disconnected, match="connection reset by peer") as raised:
                    await (stream.receive() if action == "receive" else stream.move(sink, None))
                assert isinstance(raised.value.__cause__, ConnectionResetError)


async def test_stream_send_after_peer_left_is_disconnected(nursery: trio.Nursery) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        reset(stream)

    port = await start(nursery, serve)
    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        with pytest.raises(Disconnected):
            await stream.receive()
        with pytest.raises(Disconnected):
            await stream.send(HELLO)


async def test_stream_cancelled_receive_loses_no_data(nursery: trio.Nursery) -> None:
    port = await start(nursery, echo)
    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        with trio.move_on_after(0.05) as scope:
            await stream.receive()
        assert scope.cancelled_caught
        await stream.send(HELLO)
        with trio.CancelScope() as scope:
            scope.cancel()
            await stream.receive()
        assert scope.cancelled_caught
        assert await stream.receive() == b"HELLO\r\n"


async def test_stream_receive_loop_lets_other_tasks_run(nursery: trio.Nursery) -> None:
    port = await start(nursery, lambda stream: stream.send_all(bytes(4_000_000)))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        nursery.start_soon(count)
        while octets := await stream.receive():
            assert len(octets) <= RECEIVE_SIZE
        assert turns >= 4_000_000 // (4 * RECEIVE_SIZE) // 2
    nursery.cancel_scope.cancel()


async def test_stream_receive_after_send_lets_other_tasks_run(nursery: trio.Nursery) -> None:
    port = await start(nursery, echo)
    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        for _ in range(2):
            await stream.send(HELLO)
            await trio.testing.wait_all_tasks_blocked()  # the system has received the reply
            with trio.testing.assert_checkpoints():
                assert await stream.receive() == b"HELLO\r\n"


async def test_stream_close_is_idempotent_and_wakes_waiting_reader(nursery: trio.Nursery) -> None:
    port = await start(nursery, stay_silent)
    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        with pytest.raises(Disconnected, match="closed locally"):
            await trio_gather(stream.receive, stream.aclose)
        await stream.aclose()


async def trio_gather(waiting, closing) -> None:  # type: ignore[no-untyped-def]
    """Close the stream while a task waits. `first_of` raises the task's error without an exception group."""
    url_gate = admit("http://127.0.0.1:1024/")

    async def close_and_stay() -> None:
        await trio.testing.wait_all_tasks_blocked()
        await closing()
        await trio.sleep_forever()

    await url_gate.first_of(waiting, close_and_stay)


async def test_stream_closes_with_its_context(nursery: trio.Nursery) -> None:
    ended = trio.Event()

    async def serve(stream: trio.SocketStream) -> None:
        assert await stream.receive_some() == b""
        ended.set()

    port = await start(nursery, serve)
    with pytest.raises(RuntimeError, match="of the caller"):
        async with admit(f"http://127.0.0.1:{port}/").connect(tls=False):
            raise RuntimeError("of the caller")
    await ended.wait()


async def test_stream_events_mask_secrets(nursery: trio.Nursery) -> None:
    events: list[Event] = []
    port = await start(nursery, echo)
    url = Masked(f"http://127.0.0.1:{port}/")
    async with admit(url, events=events).connect(tls=False) as stream:
        await stream.send(encode_line(b"PASS", Secret(b"hunter2")))
        assert await stream.receive() == b"PASS hunter2\r\n"
        await stream.send(encode_line(b"QUIT"))
        await stream.receive()
    assert events == [
        Connected(url, "127.0.0.1", port, False),
        Sent(url, b"PASS ****\r\n"),
        Received(url, b"PASS ****\r\n"),  # the peer repeats the password
        Sent(url, b"QUIT\r\n"),
        Received(url, b"QUIT\r\n"),
        Closed(url, by_peer=False),
    ]


async def test_stream_checks_policy_before_sending_password(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S06 (passwords in clear text): a password may go to loopback.

    The policy `cautious` refuses any other address.
    """
    chunks = []

    async def serve(stream: trio.SocketStream) -> None:
        chunks.append(await stream.receive_some())

    port = await start(nursery, serve)
    secret = encode_line(b"PASS", Secret(b"hunter2"))
    url_gate = admit(f"http://127.0.0.1:{port}/", policy=Policy.cautious())
    async with url_gate.connect(tls=False) as stream:
        monkeypatch.setattr(stream, "peer", "192.0.2.1")
        with pytest.raises(Refused) as raised:
            await stream.send(secret)
        assert raised.value.rule == "S06"
        monkeypatch.setattr(stream, "peer", "127.0.0.1")
        await stream.send(secret)
    await trio.testing.wait_all_tasks_blocked()
    assert chunks == [b"PASS hunter2\r\n"]


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="the platform has no TCP_QUICKACK")
async def test_stream_sets_tcp_quickack_before_each_wait(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system resets TCP_QUICKACK, so the option is set before each wait."""

    async def reply(stream: trio.SocketStream) -> None:
        async for octets in stream:
            await trio.testing.wait_all_tasks_blocked()  # the client waits
            await stream.send_all(octets)

    port = await start(nursery, reply)
    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        set_again = 0
        wait = stream.loop.readable_by

        async def watch(sock: Descriptor, until: float) -> bool:
            nonlocal set_again
            assert isinstance(stream._sock, socket.socket)
            set_again += stream._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
            return await wait(sock, until)

        monkeypatch.setattr(stream, "loop", stream.loop._replace(readable_by=watch))
        for _ in range(3):
            await stream.send(HELLO)
            await stream.receive()
        assert set_again == 3


async def test_stream_sends_and_receives_concurrently(nursery: trio.Nursery, authority, cafile: str) -> None:  # type: ignore[no-untyped-def]
    plain = await start(nursery, echo)
    secure = await start_tls(nursery, authority.issue_cert("127.0.0.1"), echo)
    for port, tls in ((plain, False), (secure, True)):
        url_gate = admit(f"https://127.0.0.1:{port}/", cafile=cafile)
        async with url_gate.connect(tls=tls) as stream:
            line = encode_line(bytes([66]) * 3_000_000)
            received = 0

            async def take(stream=stream) -> int:  # type: ignore[no-untyped-def]
                nonlocal received
                while received < 3_000_002:
                    received += len(await stream.receive())
                return received

            async def give(stream=stream, line: Line = line) -> None:  # type: ignore[no-untyped-def]
                await stream.send(line)
                await trio.sleep_forever()

            assert await url_gate.first_of(take, give) == (FirstResult(3_000_002), None)


async def test_stream_reset_before_tls_handshake_is_disconnected(nursery: trio.Nursery, cafile: str) -> None:
    """FTP servers end a refused data connection by a reset. The client leaves no socket open."""
    done = trio.Event()

    async def serve(stream: trio.SocketStream) -> None:
        reset(stream)
        done.set()

    port = await start(nursery, serve)
    url_gate = admit(f"https://127.0.0.1:{port}/", cafile=cafile)
    async with url_gate.connect(tls=False) as stream:
        await done.wait()
        with pytest.raises(Disconnected):
            await stream.start_tls()


# Bytes from a connection into a file are the same whether spliced, copied, or decrypted from TLS.

PIPE = 1_048_576
SIZES = [0, 1, 65_535, 65_536, SPLICE_FROM, SPLICE_FROM + 1, PIPE - 1, PIPE, PIPE + 1, 3_141_592]
TRAILER = b"the next reply"


def octets_of(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.fixture(params=["splice", "copy", "append", "tls"])
async def mover(request, nursery: trio.Nursery, authority: trustme.CA, cafile: str, monkeypatch):  # type: ignore[no-untyped-def]
    """Return the file flags and a function that connects to a server which sends the given bytes."""
    way = request.param
    if way == "copy":
        monkeypatch.setattr(stream_module, "can_splice", lambda fd: False)

    async def connect(octets: bytes):  # type: ignore[no-untyped-def]
        if way == "tls":
            certificate = authority.issue_cert("127.0.0.1")
            port = await start_tls(nursery, certificate, lambda stream: send_and_close(stream, octets))
            return admit(f"https://127.0.0.1:{port}/", cafile=cafile).connect(tls=True)
        port = await start(nursery, lambda stream: stream.send_all(octets))
        return admit(f"http://127.0.0.1:{port}/").connect(tls=False)

    return connect, os.O_APPEND if way == "append" else 0


async def send_and_close(stream: trio.SSLStream[trio.SocketStream], octets: bytes) -> None:
    for sent in range(0, len(octets), 65_536):
        await stream.send_all(octets[sent : sent + 65_536])
    await stream.aclose()


@pytest.mark.parametrize("size", SIZES)
async def test_move_without_count_copies_until_end(mover, size: int, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    connect, flags = mover
    path = tmp_path / "got"
    async with await connect(octets_of(size)) as stream:
        with file_sink(path, flags) as sink:
            assert await stream.move(sink, None) == size
        assert stream.received == size
        assert await stream.receive() == b""
    assert path.read_bytes() == octets_of(size)


@pytest.mark.parametrize("size", SIZES)
async def test_move_with_count_leaves_following_bytes(mover, size: int, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    connect, flags = mover
    path = tmp_path / "got"
    async with await connect(octets_of(size) + TRAILER) as stream:
        with file_sink(path, flags) as sink:
            assert await stream.move(sink, size) == size
        rest = b""
        while octets := await stream.receive():
            rest += octets
        assert rest == TRAILER
    assert path.read_bytes() == octets_of(size)


async def test_move_with_count_stops_early_at_end(mover, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    connect, flags = mover
    async with await connect(octets_of(400_000)) as stream:
        with file_sink(tmp_path / "got", flags) as sink:
            assert await stream.move(sink, 500_000) == 400_000


@pytest.mark.skipif(not hasattr(os, "splice"), reason="the platform has no splice(2)")
async def test_move_with_splice_does_not_call_write(nursery: trio.Nursery, tmp_path: Path) -> None:
    port = await start(nursery, lambda stream: stream.send_all(octets_of(PIPE)))
    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        with file_sink(tmp_path / "got") as sink:
            await stream.move(sink, None)
    assert sink.writes == []


@pytest.mark.skipif(not hasattr(os, "splice"), reason="the platform has no splice(2)")
async def test_move_falls_back_to_write_without_splice_support(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems report only when splice is called that they do not support it.

    The bytes that are already in the pipe are then written.
    """
    real = os.splice

    with file_sink(tmp_path / "got") as sink:

        def splice(source: int, target: int, count: int, *, flags: int) -> int:
            if target == sink.fileno():
                raise OSError(errno.EINVAL, "Invalid argument")
            return real(source, target, count, flags=flags)

        monkeypatch.setattr(os, "splice", splice)
        port = await start(nursery, lambda stream: stream.send_all(octets_of(700_000)))
        async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
            assert await stream.move(sink, None) == 700_000
    assert (tmp_path / "got").read_bytes() == octets_of(700_000)
    assert sum(sink.writes) == 700_000


@pytest.mark.skipif(not hasattr(os, "splice"), reason="the platform has no splice(2)")
@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.EPERM], ids=errno.errorcode.get)
async def test_move_copies_if_the_system_cannot_splice_sockets(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def splice(source: int, target: int, count: int, *, flags: int) -> int:
        raise OSError(code, os.strerror(code))

    async def serve(stream: trio.SocketStream) -> None:
        await stream.send_all(b"x" * 2 * SPLICE_FROM)
        await stream.send_eof()

    monkeypatch.setattr(os, "splice", splice)
    port = await start(nursery, serve)
    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        with file_sink(tmp_path / "got") as sink:
            assert await stream.move(sink, None) == 2 * SPLICE_FROM
    assert (tmp_path / "got").read_bytes() == b"x" * 2 * SPLICE_FROM


def test_can_splice_accepts_only_regular_files_not_appending(tmp_path: Path) -> None:
    with file_sink(tmp_path / "a") as plain, file_sink(tmp_path / "b", os.O_APPEND) as appending:
        assert can_splice(plain.fileno()) == hasattr(os, "splice")
        assert not can_splice(appending.fileno())
    out, in_ = os.pipe()
    assert not can_splice(in_)
    os.close(out)
    os.close(in_)
    assert not can_splice(-1)  # fstat fails


def test_splice_pipe_closes_both_ends() -> None:
    with SplicePipe() as pipe:
        assert pipe.size >= 65_536
        ends = (pipe._in, pipe._out)
        assert all(stat.S_ISFIFO(os.fstat(end).st_mode) for end in ends)
    for end in ends:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)


@pytest.mark.parametrize("way", ["splice", "copy"])
async def test_move_keeps_bytes_received_before_reset(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "copy":
        monkeypatch.setattr(stream_module, "can_splice", lambda fd: False)
    taken = trio.Event()

    async def serve(stream: trio.SocketStream) -> None:
        await stream.send_all(octets_of(PIPE))
        await taken.wait()
        reset(stream)

    port = await start(nursery, serve)
    path = tmp_path / "got"
    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        with file_sink(path) as sink:
            nursery.start_soon(_when_written, sink, PIPE, taken)
            with pytest.raises(Disconnected):
                await stream.move(sink, None)
        assert stream.received == PIPE
    assert path.read_bytes() == octets_of(PIPE)


async def _when_written(sink: FileSink, size: int, event: trio.Event) -> None:
    while os.fstat(sink.fileno()).st_size < size:
        await trio.lowlevel.checkpoint()
    event.set()


@pytest.mark.parametrize("way", ["splice", "copy"])
async def test_move_keeps_bytes_received_before_timeout(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "copy":
        monkeypatch.setattr(stream_module, "can_splice", lambda fd: False)

    async def serve(stream: trio.SocketStream) -> None:
        await stream.send_all(octets_of(PIPE))
        await trio.sleep_forever()

    port = await start(nursery, serve)
    path = tmp_path / "got"
    async with admit(f"http://127.0.0.1:{port}/", idle=0.2).connect(tls=False) as stream:
        with file_sink(path) as sink, pytest.raises(TimedOut):
            await stream.move(sink, None)
    assert path.read_bytes() == octets_of(PIPE)


async def test_move_can_be_cancelled(mover, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    connect, flags = mover
    async with await connect(octets_of(PIPE)) as stream:
        with file_sink(tmp_path / "got", flags) as sink, trio.CancelScope() as scope:
            scope.cancel()
            await stream.move(sink, None)
        assert scope.cancelled_caught


@pytest.mark.slow
async def test_move_of_64_mib_uses_less_than_two(mover, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """The limit of 2 MiB holds for the peak of Python's allocations during the move.

    The server's bytes are allocated before.
    """
    connect, flags = mover
    size = 64 * 1024 * 1024
    octets = bytes(size)
    async with await connect(octets) as stream:
        with file_sink(tmp_path / "got", flags) as sink:
            tracemalloc.start()
            try:
                assert await stream.move(sink, None) == size
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
    assert (tmp_path / "got").stat().st_size == size
    assert peak < 2 * 1024 * 1024


FULL_DISK = """
    import resource, sys, trio
    from functools import partial
    from protocols.contract import Limits
    from protocols.errors import LocalError
    from resolver.network import stream as stream_module
    from resolver.transfer.network import Network
    from resolver.files.partial_file import PartialFile
    from resolver.policy.settings import Policy
    from resolver.url.parsing import parse

    way, path = sys.argv[1:]
    if way == "copy":
        stream_module.can_splice = lambda fd: False

    async def main():
        async with trio.open_nursery() as nursery:
            send = lambda stream: give(stream)
            listeners = await nursery.start(partial(trio.serve_tcp, send, 0, host="127.0.0.1"))
            port = listeners[0].socket.getsockname()[1]
            network = Network(policy=Policy.default())
            async with network.admit(parse(f"http://127.0.0.1:{port}/")).connect(tls=False) as stream:
                async with PartialFile(path) as sink:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, -1))
                    try:
                        await stream.move(sink, None)
                    except LocalError as error:
                        print(sink.position, error)
            nursery.cancel_scope.cancel()

    async def give(stream):
        try:
            await stream.send_all(bytes(8_000_000))
        except trio.BrokenResourceError:
            pass

    trio.run(main)
"""


@pytest.mark.parametrize("way", ["splice", "copy"])
def test_move_to_full_disk_is_a_local_error(way: str, tmp_path: Path) -> None:
    """A file size limit replaces the full disk: the same system call fails at the same position."""
    path = tmp_path / "big"
    command = [sys.executable, "-c", textwrap.dedent(FULL_DISK), way, str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANG, cwd=Path(__file__).parents[3]
    )
    assert done.stderr == ""
    position, _, message = done.stdout.partition(" ")
    assert int(position) == 1_500_000
    assert message.startswith(f"cannot write '{path}': file too large (")
    assert list(tmp_path.iterdir()) == []


async def test_socket_stream_has_the_members_of_the_contract(nursery: trio.Nursery) -> None:
    from protocols.contract import Stream as Contract

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()

    port = await start(nursery, serve)
    async with admit(f"gopher://127.0.0.1:{port}/").connect(tls=False) as stream:
        assert type(stream) is SocketStream
        assert {name for name in vars(Contract) if not name.startswith("_")} <= set(dir(stream))


@contextmanager
def replaced_socket(stream: SocketStream, kind: type[socket.socket]) -> Iterator[None]:
    """Let the stream use a socket of another class for the same connection."""
    own = stream._sock
    assert isinstance(own, socket.socket)
    with kind(fileno=os.dup(own.fileno())) as other:
        other.setblocking(False)
        stream._sock = other
        try:
            yield
        finally:
            stream._sock = own


async def test_stream_send_without_memory_fails_and_later_reads_too(nursery: trio.Nursery) -> None:
    """The peer has not got the request, so a read would wait for the idle limit."""

    class Full(socket.socket):
        def send(self, *arguments: object) -> int:
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))

    port = await start(nursery, stay_silent)
    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        with replaced_socket(stream, Full):
            for action in (stream.send(HELLO), stream.receive()):
                with pytest.raises(Disconnected, match=r"(?i)no buffer space"):
                    await action


async def test_stream_wait_ignores_refused_tcp_quickack(nursery: trio.Nursery) -> None:
    class Refusing(socket.socket):
        def setsockopt(self, *arguments: object) -> None:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    port = await start(nursery, echo)
    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        with replaced_socket(stream, Refusing):
            await stream.send(HELLO)
            assert await stream.receive() == HELLO.octets


async def test_tapped_stream_of_reset_connection_is_disconnected(nursery: trio.Nursery) -> None:
    """The system has no peer address for a connection that the peer has already reset."""

    async def serve(stream: trio.SocketStream) -> None:
        reset(stream)

    port = await start(nursery, serve)
    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        with pytest.raises(Disconnected):
            await stream.receive()
        sock = stream._sock
        assert isinstance(sock, socket.socket)
        with pytest.raises(Disconnected, match=r"(?i)not connected"):
            TappedStream(sock, "127.0.0.1", stream._settings)
