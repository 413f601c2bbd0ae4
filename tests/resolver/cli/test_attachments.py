"""`get --attachments`: outcomes, exit statuses, and options that do not apply."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from fixtures.nntp import Behavior, NewsServer, serve
from fixtures.nntp.attachments import PICTURE
from tests.elsewhere import served
from tests.resolver.cli.command import Done, resolve
from tests.resolver.transfer.test_attachments import files_below, url_of


@pytest.fixture
def server() -> Iterator[NewsServer]:
    with served(serve) as server:
        yield server


def get(server: NewsServer, folder: Path, *words: str) -> Done:
    argv = ["get", "--allow-port", str(server.port), "--attachments", "out", *words]
    return resolve(*argv, folder=folder)


def test_get_attachments_prints_record_for_each_file(server: NewsServer, tmp_path: Path) -> None:
    urls = [url_of(server, name) for name in ("mime", "part1", "damaged", "other")]
    done = get(server, tmp_path, "--json", "--parts", "-j", "1", *urls)
    result = [(each["path"], each["status"], each["exit"], each["bytes"]) for each in done.records]
    assert result == [
        ("out/x.png", "done", 0, 5),
        ("out/notes.txt", "done", 0, 10),
        ("out/three parts.bin", "done", 0, len(PICTURE)),
        (None, "failed", 10, 0),
        (None, "failed", 8, 0),
    ]
    assert [each["url"] for each in done.records] == [urls[0], *urls]
    assert all(each["digest"] for each in done.records[:3])
    assert done.status == 1
    assert sorted(files_below(tmp_path)) == ["out/notes.txt", "out/three parts.bin", "out/x.png"]


def test_get_attachments_of_several_urls_numbers_names(server: NewsServer, tmp_path: Path) -> None:
    done = get(server, tmp_path, "-j", "1", url_of(server, "single"), url_of(server, "single"))
    assert done.status == 0
    assert sorted(files_below(tmp_path)) == ["out/picture.2.bin", "out/picture.bin"]


def test_get_attachments_of_busy_server_keeps_name(tmp_path: Path) -> None:
    busy = {b"OVER 1-11": Behavior(instead=b"400 too many connections\r\n", times=1)}
    with served(partial(serve, behaviors=busy)) as server:
        urls = [url_of(server, name) for name in ("part1", "single")]
        assert get(server, tmp_path, "--parts", "--retry-delay", "1ms", *urls).status == 0
    assert files_below(tmp_path) == dict.fromkeys(("out/picture.bin", "out/three parts.bin"), PICTURE)


def test_get_part_without_parts_names_option(server: NewsServer, tmp_path: Path) -> None:
    done = get(server, tmp_path, url_of(server, "part2"))
    assert (done.status, os.listdir(tmp_path)) == (10, [])
    assert "(--parts)" in done.messages


@pytest.mark.parametrize(
    "words",
    [
        ["get", "--attachments", "out", "-O", "x"],
        ["get", "--attachments", "out", "-d", "x"],
        ["get", "--attachments", "out", "-r"],
        ["get", "--attachments", "out", "--ledger", "x"],
        ["get", "--attachments", "out", "--dry-run"],
        ["get", "--attachments", "out", "--meta"],
        ["get", "--attachments", "out", "--mirror", "nntp://h.example/a.b/1"],
        ["get", "--attachments", "out", "--exists", "resume"],
        ["get", "--attachments", "out", "--exists", "newer"],
        ["get", "--attachments", "out", "--cut-dirs", "0"],
        ["get", "--parts"],
        ["cat", "--attachments", "out"],
    ],
)
def test_attachments_with_other_option_is_usage_error(words: list[str], tmp_path: Path) -> None:
    done = resolve(*words, "nntp://h.example/a.b/1", folder=tmp_path)
    assert (done.status, done.out, os.listdir(tmp_path)) == (2, b"", [])
    assert "--attachments" in done.messages


def test_get_attachments_of_other_scheme_is_status_2(tmp_path: Path) -> None:
    done = resolve("get", "--attachments", "out", "http://h.example/x", folder=tmp_path)
    assert (done.status, os.listdir(tmp_path)) == (2, [])
