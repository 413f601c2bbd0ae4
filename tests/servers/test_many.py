"""A tree of very many files by the command, from an ftp and an http server that share it: every octet comes,
and comes once, by the servers' own logs. 2,000 files with `RESOLVE_TESTS=full`."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.begun import COMMANDS, Program
from tests.fresh import environment
from tests.resolver.tree.mirrors import contents
from tests.sampled import FULL
from tests.servers.certificates import Certificates
from tests.servers.ftp_servers import FtpServer
from tests.servers.http_servers import HttpServer, nginx
from tests.servers.test_trees import MODIFIED, ODD

CHECKOUT = Path(__file__).parents[2]
FILES, FOLDERS = (2_000, 200) if FULL else (80, 24)
LARGE = 3 << 20


def forest() -> Iterator[tuple[str, bytes]]:
    """Folders in folders under odd names, in each some files; every ninth is empty, and one is large."""
    odd = [name for name in ODD if not name.startswith("-")]  # S14 would change that one
    folders: list[str] = []
    for number in range(FOLDERS):
        above = folders[number // 3] + "/" if number % 4 else ""
        folders.append(f"{above}{odd[number % len(odd)]} {number}")
    for number in range(FILES - 1):
        name = f"{folders[number % FOLDERS]}/{number} {odd[number // FOLDERS % len(odd)]}.bin"
        yield name, b"" if number % 9 == 0 else f"{number}\r\n".encode() * number
    yield "large.bin", bytes(range(256)) * (LARGE // 256)


@pytest.fixture
def shared(ftp_tree: Path) -> Iterator[Path]:
    """The forest, where the ftp servers have it, too."""
    top = ftp_tree / "pub" / "many"
    for name, octets in forest():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(octets)
        os.utime(path, (MODIFIED, MODIFIED))
    for place in (top, *filter(Path.is_dir, top.rglob("*"))):
        place.chmod(0o755)
    try:
        yield top
    finally:
        shutil.rmtree(top)


def test_a_mirror_is_its_source_and_brings_nothing_twice(
    vsftpd: FtpServer, shared: Path, certificates: Certificates, tmp_path: Path
) -> None:
    source, state = contents(shared), tmp_path / "nginx"
    state.mkdir()
    with nginx(shared.parent, state, certificates) as pages:
        urls = [f"ftp://127.0.0.1:{vsftpd.ports['plain']}/pub/many/", pages.url("/rounded/many/")]
        before = vsftpd.sent()
        assert get(tmp_path, urls, vsftpd, pages) == {"done": 2 * FILES}
        for name in ("many", "many.2"):
            came = contents(tmp_path / "out" / name)
            assert came.keys() == source.keys()
            assert [each for each in came if came[each] != source[each]] == []
        assert vsftpd.sent() - before == FILES
        assert bodies(pages) == {"200": FILES}
        assert get(tmp_path, urls, vsftpd, pages) == {"skipped": 2 * FILES}
        assert vsftpd.sent() - before == FILES
        assert bodies(pages) == {"200": FILES, "304": FILES}


def get(folder: Path, urls: list[str], *servers: FtpServer | HttpServer) -> dict[str, int]:
    """One run; how many outcomes of each kind there were."""
    words = ["get", "-r", "--exists", "newer", "-d", "out", "--json", "-j", "8", "--per-host", "8"]
    for server in servers:
        port = server.port if isinstance(server, HttpServer) else server.ports["plain"]
        words += ["--allow-port", str(port)]
    own = {**environment(), "PYTHONPATH": str(CHECKOUT)}
    with Program([*words, *urls], loaded=COMMANDS, environment=own, folder=folder) as process:
        found = Counter(json.loads(line)["status"] for line in process.stdout)
        assert (process.wait(), process.stderr.read()) == (0, b"")
    return found


def bodies(pages: HttpServer) -> dict[str, int]:
    """The requests for files so far, by the status of their answers."""
    return Counter(status for _, words, status, *_ in pages.requests() if words.split()[1].endswith(".bin"))
