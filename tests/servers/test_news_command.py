"""The command against INN: standard output, error and exit status, octet for octet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import command
from tests.servers.news_servers import NewsServer
from tests.servers.news_spool import PROSE
from tests.servers.test_news import LOOPBACK, SEEN, Site


def resolve(server: NewsServer, *arguments: str, folder: Path | None = None) -> command.Done:
    """One run of the command: its status, output and messages."""
    place = f"{LOOPBACK}:{server.ports['plain']}"
    ports = [f"--allow-port={port}" for port in server.ports.values()]
    verb, *rest = arguments
    options = ["--news-server", place, *ports, "--cacert", str(server.authority)]
    return command.resolve(verb, *options, *rest, folder=folder)


def test_the_command_writes_articles(inn: NewsServer) -> None:
    urls = ["news:lone-lf@example.test", Site(inn, "implicit").nntp("test.prose/6")]
    status, output, messages = resolve(inn, "cat", *urls)
    assert (status, messages) == (0, b"")
    assert output.count(b"Path: ") == 2
    assert PROSE[3].body in output
    assert output.endswith(b"\r\n\r\n" + PROSE[6].body)


def test_the_command_saves_an_article(inn: NewsServer, tmp_path: Path) -> None:
    url = Site(inn, "transit").nntp("test.prose/12")
    status, output, messages = resolve(inn, "get", "--json", url, folder=tmp_path)
    (path,) = tmp_path.iterdir()
    assert (status, messages, json.loads(output)["path"]) == (0, b"", path.name)
    assert path.read_bytes().endswith(b"\r\n\r\n" + PROSE[12].body)


def test_the_command_lists(inn: NewsServer) -> None:
    status, output, _ = resolve(inn, "ls", "news:*")
    assert (status, set(output.decode().splitlines())) == (0, SEEN)
    status, output, _ = resolve(inn, "ls", "--json", "news:test.other")
    (entry,) = map(json.loads, output.splitlines())
    assert (entry["name"], entry["url"]) == ("500", "news:crossposted@example.test")


def test_the_command_tells_an_article_subject(inn: NewsServer) -> None:
    url = Site(inn, "plain").nntp("test.prose/6")
    status, output, _ = resolve(inn, "info", "--json", url)
    entry = json.loads(output)
    assert (status, entry["kind"]) == (0, "article")
    assert dict(entry["extra"]["fields"])["Subject"].encode("latin-1") == entry["title"].encode()
    status, output, _ = resolve(inn, "info", url)
    assert (status, f"\ntitle: {entry['title']}\n".encode() in output) == (0, True)


@pytest.mark.parametrize(
    ("place", "status", "word"),
    [
        ("nntp://{}/test.prose/13", 8, b"no such article"),
        ("nntp://{}/private.notes/1", 6, b"name and password"),
    ],
)
def test_the_command_says_what_is_wrong(inn: NewsServer, place: str, status: int, word: bytes) -> None:
    done = resolve(inn, "cat", place.format(f"{LOOPBACK}:{inn.ports['plain']}"))
    assert done[:2] == (status, b"")
    assert word in done[2]
