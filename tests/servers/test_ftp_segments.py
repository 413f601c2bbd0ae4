"""What several connections at once cost a real server of ftp, whose REST has no end."""

from __future__ import annotations

import filecmp
from collections.abc import Iterator
from pathlib import Path

import pytest

import resolver
from resolver import Event, Sent
from tests.faults.command import until
from tests.servers.ftp_servers import FtpServer, FtpSite

SIZE = 128 * 1024 * 1024
#: Octets that the server may send for each one of the object.
MOST = 1.15


@pytest.fixture(name="large")
def _large(ftp_site: FtpSite) -> Iterator[Path]:
    """A file of pseudo-random octets in the tree of the servers."""
    path = ftp_site.tree / "pub/large.bin"
    path.write_bytes(b"".join(number.to_bytes(4, "big") * 1024 for number in range(SIZE // 4096)))
    path.chmod(0o644)
    yield path
    path.unlink()


def sent(server: FtpServer) -> list[int]:
    """The octets of each transfer, by the server's log in the form of wu-ftpd: the eighth word of a line."""
    assert server.log is not None
    lines = server.log.read_bytes().splitlines() if server.log.exists() else []
    return [int(line.split()[7]) for line in lines]


@pytest.mark.parametrize(("segments", "per_host"), [(2, None), (4, None), (4, 4)])
async def test_segments_of_ftp_cost_the_server_little_more_than_the_file(
    segments: int, per_host: int | None, vsftpd: FtpServer, large: Path, tmp_path: Path
) -> None:
    before, events = len(sent(vsftpd)), list[Event]()
    port = vsftpd.ports["plain"]
    policy = resolver.Policy(allow_port=frozenset({port}))
    async with resolver.Resolver(
        policy=policy, segments=segments, segments_per_host=per_host, on_event=events.append
    ) as session:
        saved = await session.save(f"ftp://127.0.0.1:{port}/pub/large.bin", tmp_path / "it")
    assert (saved.bytes, filecmp.cmp(tmp_path / "it", large, shallow=False)) == (SIZE, True)
    asked = sum(isinstance(event, Sent) and event.octets.startswith(b"RETR") for event in events)
    await until(lambda: len(sent(vsftpd)) == before + asked)  # of what is broken off it tells later
    cost = sum(sent(vsftpd)[before:]) / SIZE
    assert 1.0 <= cost <= MOST
