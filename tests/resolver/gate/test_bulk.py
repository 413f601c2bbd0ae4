"""Octets from a connection into a file: spliced, copied, and out of TLS, they are the same octets."""

from __future__ import annotations

import errno
import os
import random
import stat
import subprocess
import sys
import textwrap
import tracemalloc
from pathlib import Path

import pytest
import trio
import trustme

from resolver import Disconnected, TimedOut
from resolver.network import stream as stream_module
from resolver.network.stream import SPLICE_FROM, SocketStream, SplicePipe, spliceable
from tests.hang import HANG
from tests.resolver.gate.peers import admit, reset, start, start_tls
from tests.resolver.gate.transfers import FileSink, file_sink

PIPE = 1_048_576
SIZES = [0, 1, 65_535, 65_536, SPLICE_FROM, SPLICE_FROM + 1, PIPE - 1, PIPE, PIPE + 1, 3_141_592]
TRAILER = b"the next reply"


def octets_of(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.fixture(params=["splice", "copy", "append", "tls"])
async def mover(request, nursery: trio.Nursery, authority: trustme.CA, cafile: str, monkeypatch):  # type: ignore[no-untyped-def]
    """How to connect to a peer that sends these octets, and the flags of the file."""
    way = request.param
    if way == "copy":
        monkeypatch.setattr(stream_module, "spliceable", lambda fd: False)

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
async def test_all_octets_until_the_end(mover, size: int, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    connect, flags = mover
    path = tmp_path / "got"
    async with await connect(octets_of(size)) as stream:
        with file_sink(path, flags) as sink:
            assert await stream.move(sink, None) == size
        assert stream.received == size
        assert await stream.receive() == b""
    assert path.read_bytes() == octets_of(size)


@pytest.mark.parametrize("size", SIZES)
async def test_so_many_octets_and_not_one_more(mover, size: int, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
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


async def test_fewer_come_only_at_the_end(mover, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    connect, flags = mover
    async with await connect(octets_of(400_000)) as stream:
        with file_sink(tmp_path / "got", flags) as sink:
            assert await stream.move(sink, 500_000) == 400_000


@pytest.mark.skipif(not hasattr(os, "splice"), reason="the platform has no splice(2)")
async def test_splice_makes_no_call_of_write(nursery: trio.Nursery, tmp_path: Path) -> None:
    port = await start(nursery, lambda stream: stream.send_all(octets_of(PIPE)))
    async with admit(f"http://127.0.0.1:{port}/").connect(tls=False) as stream:
        with file_sink(tmp_path / "got") as sink:
            await stream.move(sink, None)
    assert sink.writes == []


@pytest.mark.skipif(not hasattr(os, "splice"), reason="the platform has no splice(2)")
async def test_a_file_system_without_splice_is_written_to(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some say so only when it is tried: then what is in the pipe already is written."""
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


def test_only_regular_files_not_open_for_appending_are_spliced_into(tmp_path: Path) -> None:
    with file_sink(tmp_path / "a") as plain, file_sink(tmp_path / "b", os.O_APPEND) as appending:
        assert spliceable(plain.fileno()) == hasattr(os, "splice")
        assert not spliceable(appending.fileno())
    out, in_ = os.pipe()
    assert not spliceable(in_)
    os.close(out)
    os.close(in_)


def test_a_pipe_closes_both_ends() -> None:
    with SplicePipe() as pipe:
        assert pipe.size >= 65_536
        ends = (pipe._in, pipe._out)
        assert all(stat.S_ISFIFO(os.fstat(end).st_mode) for end in ends)
    for end in ends:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)


@pytest.mark.parametrize("way", ["splice", "copy"])
async def test_a_reset_in_the_middle_leaves_what_came(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "copy":
        monkeypatch.setattr(stream_module, "spliceable", lambda fd: False)
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
async def test_silence_in_the_middle_leaves_what_came(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "copy":
        monkeypatch.setattr(stream_module, "spliceable", lambda fd: False)

    async def serve(stream: trio.SocketStream) -> None:
        await stream.send_all(octets_of(PIPE))
        await trio.sleep_forever()

    port = await start(nursery, serve)
    path = tmp_path / "got"
    async with admit(f"http://127.0.0.1:{port}/", idle=0.2).connect(tls=False) as stream:
        with file_sink(path) as sink, pytest.raises(TimedOut):
            await stream.move(sink, None)
    assert path.read_bytes() == octets_of(PIPE)


async def test_moving_can_be_cancelled(mover, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    connect, flags = mover
    async with await connect(octets_of(PIPE)) as stream:
        with file_sink(tmp_path / "got", flags) as sink, trio.CancelScope() as scope:
            scope.cancel()
            await stream.move(sink, None)
        assert scope.cancelled_caught


@pytest.mark.slow
async def test_64_mib_need_less_than_two(mover, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """The peak of what Python allocates while they pass; the peer's octets are there before."""
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
        stream_module.spliceable = lambda fd: False

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
def test_a_full_disk_is_a_local_error(way: str, tmp_path: Path) -> None:
    """A file size limit stands in for the full disk: the same call fails at the same place."""
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


async def test_a_stream_is_what_the_contract_says(nursery: trio.Nursery) -> None:
    from protocols.contract import Stream as Contract

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()

    port = await start(nursery, serve)
    async with admit(f"gopher://127.0.0.1:{port}/").connect(tls=False) as stream:
        assert type(stream) is SocketStream
        assert {name for name in vars(Contract) if not name.startswith("_")} <= set(dir(stream))
