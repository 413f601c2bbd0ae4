"""The command in a pipe: lists on standard input, items that end with NUL, bodies with a separator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from fixtures.http import ABOUT, EXAMPLE, Behavior, Page, serve
from protocols.errors import LocalError
from resolver.cli import lists
from resolver.cli.lists import ListSource
from tests.elsewhere import served
from tests.resolver.cli.command import resolve

WAYS = [("-",), ("get", "-"), ("-i", "-"), ("get", "-i", "-"), ("get", "--input=-"), ("get", "--", "-")]


@pytest.mark.parametrize("words", WAYS, ids=" ".join)
def test_hyphen_reads_list_from_standard_input(
    words: tuple[str, ...], at: dict[str, str], folder: Path
) -> None:
    urls = f"# a list\n{at['http']}/about.txt\n\n{at['http']}/data\r\n".encode()
    done = resolve("-q", "-j1", "--exists=fail", *words, stdin=urls)
    assert done == (0, b"", b"")
    assert sorted(path.name for path in folder.iterdir()) == ["about.txt", "data"]


def test_hyphen_follows_urls_of_command_line(at: dict[str, str], folder: Path) -> None:
    done = resolve("-q", "-", f"{at['http']}/about.txt", stdin=f"{at['http']}/data\n".encode())
    assert done == (0, b"", b"")
    assert sorted(path.name for path in folder.iterdir()) == ["about.txt", "data"]


@pytest.mark.parametrize("verb", ["cat", "ls", "info", "explain", "parse"])
def test_hyphen_of_other_commands_is_no_url(verb: str, folder: Path) -> None:
    assert resolve(verb, "-", stdin=b"file:///etc/hostname\n").status == 12


@pytest.mark.parametrize("words", [("--null", "file:///x"), ("get", "-0"), ("extract", "--null")])
def test_misplaced_hyphen_or_null_is_usage_error(words: tuple[str, ...], folder: Path) -> None:
    done = resolve(*words)
    assert (done.status, list(folder.iterdir())) == (2, [])


@pytest.mark.parametrize("option", ["--null", "-0"])
@pytest.mark.parametrize("end", [b"", b"\0", b"\0\0"])
def test_null_ends_items(option: str, end: bytes, at: dict[str, str], folder: Path) -> None:
    record = json.dumps({"url": f"{at['http']}/data"}, indent=1)
    items = (f"{at['http']}/about.txt", "# a comment", record)
    done = resolve("get", "-q", option, "-", stdin="\0".join(items).encode() + end)
    assert done == (0, b"", b"")
    assert sorted(path.name for path in folder.iterdir()) == ["about.txt", "data"]


def test_null_item_with_line_end_is_one_invalid_url(at: dict[str, str], folder: Path) -> None:
    url = f"{at['http']}/about.txt"
    done = resolve("get", "-q", "--json", "--null", "-", stdin=f"{url}\n{url}\0{url}\0".encode())
    assert done.status == 12
    first, second = sorted(done.records, key=lambda record: str(record["status"]), reverse=True)
    assert [first["status"], second["status"]] == ["refused", "done"]
    assert [path.name for path in folder.iterdir()] == ["about.txt"]


def test_null_list_names_item_of_error(folder: Path) -> None:
    (folder / "list").write_bytes(b'\0{"url": 3}\0')
    done = resolve("parse", "--null", "-i", "list")
    assert (done.status, "list, item 2: " in done.messages) == (3, True)


def source_of(*pieces: bytes, end: bytes) -> ListSource:
    def read() -> Iterator[bytes]:
        yield from pieces
        raise AssertionError("the list was read on, before its first item was used")

    return ListSource("-", read(), "user", None, None, fetched=False, end=end)


@pytest.mark.parametrize("end", [b"\n", b"\0"])
def test_first_item_is_used_before_list_ends(end: bytes) -> None:
    """A pipe may be idle for hours."""
    items = lists.read_items(source_of(b"http:", b"//a/" + end, end=end), lambda error: None)
    assert next(items)[1] == "http://a/"


@pytest.mark.parametrize("end", [b"\n", b"\0"])
def test_endless_item_is_error(end: bytes) -> None:
    pieces = [b"http://h.example/" + b"x" * 65_536] * 20
    items = lists.read_items(ListSource("-", iter(pieces), "user", None, None, fetched=False, end=end), print)
    with pytest.raises(LocalError, match="too long"):
        list(items)


# `--separator TEXT`: a text between the bodies on standard output.


@pytest.mark.parametrize(
    ("text", "octets"),
    [
        ("-+-", b"-+-"),
        ("--", b"--"),
        ("\\n--", b"\n--"),
        ("\\n", b"\n"),
        ("\\0", b"\0"),
        ("\\x1e\\036\\t", b"\x1e\x1e\t"),
        ("\\a\\b\\f\\n\\r\\v\\e", b"\a\b\f\n\r\v\x1b"),
        ("\\xff\\377", b"\xff\xff"),
        ("a\\\\n", b"a\\n"),
        ("\\0001", b"\x001"),
        ("\n\u00e9", "\n\u00e9".encode()),
        ("", b""),
    ],
)
@pytest.mark.parametrize("words", [("cat",), ("get", "-O", "-")], ids=" ".join)
def test_separator_is_between_bodies(
    words: tuple[str, ...], text: str, octets: bytes, at: dict[str, str], folder: Path
) -> None:
    urls = [f"{at['http']}{path}" for path in ("/about.txt", "/empty", "/notes/")]
    done = resolve(*words, "-q", f"--separator={text}", *urls)
    assert (done.status, done.err) == (0, b"")
    assert done.out == octets.join([ABOUT, b"", EXAMPLE["/notes/"].content])
    assert resolve(*words, "-q", f"--separator={text}", urls[0]).out == ABOUT


def test_separator_keeps_place_of_failed_url(at: dict[str, str], folder: Path) -> None:
    urls = [f"{at['http']}{path}" for path in ("/missing", "/about.txt", "/missing")]
    done = resolve("cat", "-qq", "-t1", "--separator", "\\0", "no url", *urls)
    assert (done.status, done.out.split(b"\0")) == (1, [b"", b"", ABOUT, b""])


def test_separator_is_written_once_before_url_that_runs_again(folder: Path) -> None:
    """The server asks for a pause with its first answer to the second URL."""
    site = {"/1": Page(b"one"), "/2": Page(b"two"), "/3": Page(b"three")}
    busy = b"HTTP/1.1 503 Later\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"
    spoilt = {"/2": Behavior(instead=busy, times=1)}
    with served(partial(serve, site=site, behaviors=spoilt)) as server:
        urls = [server.url(path) for path in site]
        done = resolve("cat", "-q", "--separator", "|", "--allow-port", str(server.port), *urls)
    assert (done.status, done.out) == (0, b"one|two|three")
    assert [request.target for request in server.requests].count("/2") == 2


@pytest.mark.parametrize(
    "words",
    [
        ("cat", "--separator=\\q"),
        ("cat", "--separator=\\"),
        ("cat", "--separator=\\x1"),
        ("cat", "--separator=\\777"),
        ("cat", "--separator=\\8"),
        ("get", "--separator=x"),
        ("get", "--separator=x", "-O", "file"),
    ],
)
def test_invalid_separator_is_usage_error(words: tuple[str, ...], folder: Path) -> None:
    done = resolve(*words, "mailto:a@h.example")
    assert (done.status, list(folder.iterdir())) == (2, [])
    assert "--separator" in done.messages


def test_configured_separator_is_shown_as_given(folder: Path) -> None:
    (folder / "c.toml").write_text("separator = '\\n'\n")
    (folder / "c.toml").chmod(0o600)
    assert b'separator = "\\\\n"  # c.toml, line 1' in resolve("config", "--config", "c.toml").out
    assert resolve("get", "-q", "--config", "c.toml", "-O", "x", "mailto:a@h.example").status != 2
