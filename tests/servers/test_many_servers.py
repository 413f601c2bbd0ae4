"""One list over vsftpd, nginx, Gophernicus and INN, with two hosts that give nothing: all arrives, what is
told of it is exact, and killed again and again nothing that is whole is asked for twice.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.hang import HANG
from tests.sampled import FULL
from tests.servers.certificates import Certificates
from tests.servers.ftp_servers import FtpServer
from tests.servers.gopher_servers import GopherServer
from tests.servers.http_servers import HttpServer
from tests.servers.killed import command, save_list
from tests.servers.news_servers import inn
from tests.servers.news_spool import GONE, PROSE, Article, take
from tests.servers.relay import Relay, relay
from tests.servers.service import LOOPBACK

#: Files of each server; and how often a run is killed.
FILES = 200 if FULL else 12
KILLS = 20 if FULL else 2

#: URLs of each host that gives nothing.
BROKEN = 3


@dataclass
class House:
    """The servers. `contents` has by the name of a file what is in it, `asked` gives for each server what it
    was asked for so far."""

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
) -> Iterator[House]:
    house = House()
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
        _break(house, stack)
        yield house


def _news(
    request: pytest.FixtureRequest, certificates: Certificates, folder: Path, stack: ExitStack
) -> tuple[Relay, dict[int, Article]]:
    """The server of all tests, or one with as many articles as are wanted, and what is between; the articles
    by number."""
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
    """Files that are there for as long as this test."""
    folder.mkdir()
    stack.callback(shutil.rmtree, folder)
    folder.chmod(0o755)
    for name, octets in files.items():
        (folder / name).write_bytes(octets)
        (folder / name).chmod(0o644)


def _break(house: House, stack: ExitStack) -> None:
    """A host where nobody listens, and one that takes connections and never says a word."""
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
    house: House

    def __post_init__(self) -> None:
        (self.folder / "list").write_text("".join(f"{url}\n" for url in self.house.urls))
        (self.folder / "config.toml").write_text('["127.0.0.2"]\nidle_timeout = 0.1\n')

    def work(self, most: int | None) -> int:
        """One, killed behind `most` files that it brought. Its exit status."""
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


def test_all_arrives_and_nothing_twice(house: House, tmp_path: Path) -> None:
    runs = Runs(tmp_path, house)
    all_of_them = 4 * FILES
    for _ in range(KILLS):
        had, before = runs.whole(), house.names_asked()
        runs.work(most=all_of_them // (KILLS + 2))
        for server, names in house.names_asked().items():
            assert not had & set(names[len(before[server]) :]), server
    had, before = runs.whole(), house.names_asked()
    assert had
    assert runs.work(most=None) == 1  # two failures of two kinds
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
