"""Large lists over vsftpd, nginx, Gophernicus and INN, with two hosts that never answer.

All files arrive and the report is exact. Runs are killed repeatedly; no complete file is requested twice.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.begun import COMMANDS, Program
from tests.fresh import environment
from tests.hang import HANG
from tests.resolver.trees.mirrors import contents
from tests.sampled import FULL
from tests.servers.certificates import Certificates
from tests.servers.ftp_servers import FtpServer
from tests.servers.gopher_servers import GopherServer
from tests.servers.http_servers import DATA, HttpServer, nginx
from tests.servers.killed import command, save_list
from tests.servers.news_servers import inn
from tests.servers.news_spool import GONE, PROSE, Article, take
from tests.servers.relay import Relay, relay
from tests.servers.service import LOOPBACK
from tests.servers.test_trees import MODIFIED, ODD

#: Files per server, and the number of killed runs.
FILES = 200 if FULL else 12
KILLS = 20 if FULL else 2

#: URLs of each host that never answers.
BROKEN = 3


@dataclass
class RealServers:
    """The servers.

    `contents` maps file names to contents; `asked` returns the requests that a server received so far.
    """

    urls: list[str] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)
    asked: dict[str, Callable[[], list[str]]] = field(default_factory=dict)
    ports: set[int] = field(default_factory=set)

    def names_asked(self) -> dict[str, list[str]]:
        return {server: asked() for server, asked in self.asked.items()}


@pytest.fixture(name="house")
def _house(
    vsftpd: FtpServer,
    nginx: HttpServer,
    gophernicus: GopherServer,
    ftp_tree: Path,
    http_tree: Path,
    gopher_tree: Path,
    request: pytest.FixtureRequest,
    certificates: Certificates,
    tmp_path: Path,
) -> Iterator[RealServers]:
    house = RealServers()
    with ExitStack() as stack:
        gopher = stack.enter_context(relay(gophernicus.port))
        news, articles = _news(request, certificates, tmp_path, stack)
        files = {
            "v": (ftp_tree, f"ftp://{LOOPBACK}:{vsftpd.ports['plain']}/many/"),
            "n": (http_tree, f"http://{LOOPBACK}:{nginx.port}/many/"),
            "g": (gopher_tree, f"gopher://{LOOPBACK}:{gopher.port}/9/many/"),
        }
        for server, (tree, _) in files.items():
            names = [f"{server}{number}.bin" for number in range(FILES)]
            house.contents |= {name: f"{name}\n".encode() * 500 for name in names}
            _write(tree / "many", {name: house.contents[name] for name in names}, stack)
        house.contents |= {str(number): article.body for number, article in articles.items()}
        for number, article in zip(range(FILES), articles, strict=True):
            house.urls += [f"{url}{server}{number}.bin" for server, (_, url) in files.items()]
            house.urls.append(f"nntp://{LOOPBACK}:{news.port}/test.prose/{article}")
        house.asked = {
            "vsftpd": lambda: re.findall(r"/many/(v\d+\.bin)", _text(vsftpd.log)),
            "nginx": lambda: re.findall(r"/many/(n\d+\.bin)", str(nginx.requests())),
            "gophernicus": lambda: re.findall(r"/many/(g\d+\.bin)", gopher.said().decode()),
            "inn": lambda: re.findall(r"(?:ARTICLE|BODY|HEAD) (\d+)\r", news.said().decode()),
        }
        house.ports = {nginx.port, vsftpd.ports["plain"], gopher.port, news.port}
        _add_broken_hosts(house, stack)
        yield house


def _news(
    request: pytest.FixtureRequest, certificates: Certificates, folder: Path, stack: ExitStack
) -> tuple[Relay, dict[int, Article]]:
    """Run a relay to the news server; return it and the articles by number.

    The server is the session's, or with FULL a separate one with FILES articles.
    """
    articles = {number: article for number, article in PROSE.items() if number != GONE}
    if not FULL:
        server = request.getfixturevalue("inn")
        return stack.enter_context(relay(server.ports["plain"])), dict(list(articles.items())[:FILES])
    place = folder / "inn"
    place.mkdir()
    server = stack.enter_context(inn(place, certificates))
    more = [Article(f"more-{number}@example.test", b"more\r\n" * number) for number in range(1, FILES)]
    take(server.ports["transit"], more, HANG)
    articles |= {max(PROSE) + number: article for number, article in enumerate(more, 1)}
    return stack.enter_context(relay(server.ports["plain"])), dict(list(articles.items())[:FILES])


def _write(folder: Path, files: dict[str, bytes], stack: ExitStack) -> None:
    """Write files that exist for the duration of the test."""
    folder.mkdir()
    stack.callback(shutil.rmtree, folder)
    folder.chmod(0o755)
    for name, octets in files.items():
        (folder / name).write_bytes(octets)
        (folder / name).chmod(0o644)


def _add_broken_hosts(house: RealServers, stack: ExitStack) -> None:
    """Add a host with a closed port, and a host that accepts connections and never sends a byte."""
    mute = stack.enter_context(socket.create_server(("127.0.0.2", 0), backlog=99))
    deaf = stack.enter_context(socket.socket())
    deaf.bind(("127.0.0.3", 0))
    for host, sock in (("127.0.0.2", mute), ("127.0.0.3", deaf)):
        port = sock.getsockname()[1]
        house.ports.add(port)
        for number in range(BROKEN):
            house.urls.insert(number * 9, f"gopher://{host}:{port}/0/{number}")


def _text(log: Path | None) -> str:
    assert log is not None
    return log.read_text() if log.exists() else ""


@dataclass
class Runs:
    """Runs over one list, with one ledger."""

    folder: Path
    house: RealServers

    def __post_init__(self) -> None:
        (self.folder / "list").write_text("".join(f"{url}\n" for url in self.house.urls))
        (self.folder / "config.toml").write_text('["127.0.0.2"]\nidle_timeout = 0.1\n')

    def work(self, most: int | None) -> int:
        """Run once, and kill the run after `most` fetched files; return the exit status."""
        options = ["-j", "6", "--config", "config.toml", "--allow-address", "127.0.0.0/8"]
        for port in sorted(self.house.ports):
            options += ["--allow-port", str(port)]
        return save_list(self.folder, *options, most=most)

    def whole(self) -> set[str]:
        files = self.folder / "files"
        found = {name for name in os.listdir(files) if ".part" not in name} if files.exists() else set()
        for name in found:
            assert self.house.contents[name] in (files / name).read_bytes(), name
        return found

    def report(self) -> dict[str, object]:
        words = command("ledger", "ledger", "--json")
        told = subprocess.run(words, cwd=self.folder, capture_output=True, check=True)
        found: dict[str, object] = json.loads(told.stdout)
        return found


def test_killed_runs_fetch_every_file_once(house: RealServers, tmp_path: Path) -> None:
    runs = Runs(tmp_path, house)
    all_of_them = 4 * FILES
    for _ in range(KILLS):
        had, before = runs.whole(), house.names_asked()
        runs.work(most=all_of_them // (KILLS + 2))
        for server, names in house.names_asked().items():
            assert not had & set(names[len(before[server]) :]), server
    had, before = runs.whole(), house.names_asked()
    assert had
    assert runs.work(most=None) == 1  # two failures of different kinds
    assert runs.whole() == house.contents.keys()
    for server, names in house.names_asked().items():
        asked = names[len(before[server]) :]
        assert not had & set(asked), server
        assert sorted(asked) == sorted(set(asked)), server
    found = runs.report()
    told = ("objects", "done", "skipped", "failed", "refused", "left", "runs", "failures")
    assert {name: found[name] for name in told} == {
        "objects": all_of_them + 2 * BROKEN,
        "done": all_of_them,
        "skipped": 0,
        "failed": 2 * BROKEN,
        "refused": 0,
        "left": 0,
        "runs": KILLS + 1,
        "failures": [
            {"error": "TimedOut", "exit": 11, "objects": BROKEN},
            {"error": "Unreachable", "exit": 4, "objects": BROKEN},
        ],
    }
    assert found["bytes"] == sum((tmp_path / "files" / name).stat().st_size for name in house.contents)


# A large tree by the command, from an ftp and an http server that share it: every file arrives, and is
# requested once, by the servers' own logs. 2,000 files with `RESOLVE_TESTS=full`.

CHECKOUT = Path(__file__).parents[2]
MANY_FILES, FOLDERS = (2_000, 200) if FULL else (80, 24)
LARGE = 3 << 20


def forest() -> Iterator[tuple[str, bytes]]:
    """Yield files in nested folders with unusual names; every ninth file is empty, and one is large."""
    odd = [name for name in ODD if not name.startswith("-")]  # S14 would change a leading dash
    folders: list[str] = []
    for number in range(FOLDERS):
        above = folders[number // 3] + "/" if number % 4 else ""
        folders.append(f"{above}{odd[number % len(odd)]} {number}")
    for number in range(MANY_FILES - 1):
        name = f"{folders[number % FOLDERS]}/{number} {odd[number // FOLDERS % len(odd)]}.bin"
        yield name, b"" if number % 9 == 0 else f"{number}\r\n".encode() * number
    yield "large.bin", bytes(range(256)) * (LARGE // 256)


@pytest.fixture
def shared(ftp_tree: Path) -> Iterator[Path]:
    """Write the forest into the tree that the ftp servers share."""
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


def test_mirror_equals_source_and_fetches_files_once(
    vsftpd: FtpServer, shared: Path, certificates: Certificates, tmp_path: Path
) -> None:
    source, state = contents(shared), tmp_path / "nginx"
    state.mkdir()
    with nginx(shared.parent, state, certificates) as pages:
        urls = [f"ftp://127.0.0.1:{vsftpd.ports['plain']}/pub/many/", pages.url("/rounded/many/")]
        before = vsftpd.sent()
        assert get(tmp_path, urls, vsftpd, pages) == {"done": 2 * MANY_FILES}
        for name in ("many", "many.2"):
            came = contents(tmp_path / "out" / name)
            assert came.keys() == source.keys()
            assert [each for each in came if came[each] != source[each]] == []
        assert vsftpd.sent() - before == MANY_FILES
        assert bodies(pages) == {"200": MANY_FILES}
        assert get(tmp_path, urls, vsftpd, pages) == {"skipped": 2 * MANY_FILES}
        assert vsftpd.sent() - before == MANY_FILES
        assert bodies(pages) == {"200": MANY_FILES, "304": MANY_FILES}


def get(folder: Path, urls: list[str], *servers: FtpServer | HttpServer) -> dict[str, int]:
    """Run once; return the number of outcomes of each kind."""
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
    """Return the number of requests for files so far, by response status."""
    return Counter(status for _, words, status, *_ in pages.requests() if words.split()[1].endswith(".bin"))


# A list with a ledger, killed repeatedly: nginx's log records the requests.

LEDGER_FILES = 200 if FULL else 40


def test_killed_runs_skip_complete_files(nginx: HttpServer, tmp_path: Path) -> None:
    """Each run is killed (SIGKILL) after a number of outcomes, with transfers in progress.

    The cookie of a request names its run.
    """
    urls = [nginx.url(f"/data.bin?{number}") for number in range(LEDGER_FILES)]
    missing = nginx.url("/missing")
    (tmp_path / "list").write_text("".join(f"{url}\n" for url in (*urls[:5], missing, *urls[5:])))
    whole: list[set[str]] = []
    for run in range(KILLS):
        whole.append(complete_requests(tmp_path))
        work(tmp_path, nginx, run, most=LEDGER_FILES // (KILLS + 1))
    whole.append(complete_requests(tmp_path))
    assert whole[-1]
    assert work(tmp_path, nginx, KILLS, most=None) == 8
    assert complete_requests(tmp_path) == {f"/data.bin?{number}" for number in range(LEDGER_FILES)}
    asked = nginx.requests()
    for run, had in enumerate(whole):
        paths = [words.split()[1] for _, words, _, _, cookie in asked if cookie == f"run={run}"]
        assert not had & set(paths), run
        assert len(paths) == len(set(paths)), run
    counted = subprocess.run(
        [*command("ledger", "ledger"), "--json"], cwd=tmp_path, capture_output=True, check=True
    )
    found = json.loads(counted.stdout)
    assert (found["done"], found["failed"], found["left"], found["runs"]) == (LEDGER_FILES, 1, 0, KILLS + 1)


def work(folder: Path, nginx: HttpServer, run: int, most: int | None) -> int:
    """Run once over the list; return the exit status."""
    return save_list(folder, "--allow-port", str(nginx.port), "-H", f"Cookie: run={run}", most=most)


def complete_requests(folder: Path) -> set[str]:
    """Return the request paths of the files that have their final name."""
    names = os.listdir(folder / "files") if (folder / "files").exists() else []
    found = [name for name in names if ".part" not in name]
    assert all((folder / "files" / name).read_bytes() == DATA for name in found)
    return {f"/{name.replace('_', '?')}" for name in found}
