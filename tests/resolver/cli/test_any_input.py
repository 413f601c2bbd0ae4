"""Random arguments, lists and file paths: the exit status is a documented one, without a traceback.

The tests contact only a closed port of this machine. `RESOLVE_TESTS=full` runs many more cases.
"""

from __future__ import annotations

import json
import os
import random
import socket
from pathlib import Path

import pytest

from resolver.cli.arguments import VERB_NAMES
from resolver.cli.options import rows
from tests.resolver.cli.command import Done, resolve
from tests.resolver.cli.places import Places
from tests.sampled import FULL

STATUSES = frozenset({*range(16), 130, 141, 143})
#: All commands except those that run until they are stopped, and those that start processes
#: (`tests/resolver/cli/test_bulk.py`).
ENDING = [verb for verb in VERB_NAMES if verb not in ("serve", "open", "bulk")]
FLAGS = [flag for row in rows() for flag in row.flags]
VALUES = (
    *("", "0", "1", "-1", "nan", "x", "a:b", "x=y", "-", "--", "there", ".", "/proc", "no/such/folder"),
    *(
        "auto",
        "sha256:00",
        "1e9",
        "9" * 30,
        "9" * 18 + "G",
        "\x1b[31m",
        "é",
        "\udcff",
        "x-foo=http://[",
        "::1",
    ),
    *("127.0.0.1/8", "user", "derived", "try", "require", "replace", "resume", "untrusted", "X: y", "line=1"),
    *(
        "idle=0.1",
        "body=0",
        "entries=0",
        "hops=0",
        "ratio=0",
        "lines=999999999999999999G",
        "text/plain",
        "a b",
    ),
)
URLS = (
    *(
        "file:///no/such",
        "file:there",
        "{here}/there",
        "{here}/",
        "{here}/\x1b",
        "{closed}/x",
        "ftp:{closed}/x",
    ),
    *(
        "gopher:{closed}/0x",
        "gopher:{closed}/7x%09y",
        "nntp:{closed}/a.b/1",
        "wais:{closed}/d?x",
        "https:{closed}/",
    ),
    *(
        "snews:{closed}/a@b",
        "news:a@b.c",
        "news:*",
        "mailto:a@b",
        "mailto:",
        "telnet://h/",
        "x-foo:y",
        "mid:a@b",
    ),
    *(
        "http://",
        "://",
        "a b",
        "<URL:file:///no>",
        "ftp://h/%00",
        "gopher://127.0.0.1:25/x",
        "",
        "\udcff:",
        "é",
    ),
    *(
        "ftp:{closed}/%0D%0A",
        "prospero://h/x%0A",
        "http://[::1",
        "http://127.0.0.1:99999/",
        "FILE:///no",
        "there",
    ),
    *(
        "gopher:{closed}/hURL:javascript:x",
        "gopher://h/hURL:file:///x",
        "http://u:p@127.0.0.1:25/",
        "a:" * 50,
    ),
)


def random_arguments(source: random.Random, names: dict[str, str]) -> list[str]:
    """Return a random command line."""
    result = [source.choice([*ENDING, "GET", "", "-q"])] if source.random() < 0.8 else []
    for _ in range(source.randrange(5)):
        match source.randrange(10):
            case 0:
                result.append("".join(chr(source.randrange(1, 256)) for _ in range(source.randrange(9))))
            case 1 | 2 | 3 | 4:
                result.append(source.choice(URLS).format_map(names))
            case number:
                flag, value = source.choice(FLAGS), source.choice(VALUES)
                result += [flag, value] if number < 8 else [f"{flag}={value}"]
    return ["-t", "1", "--retry-delay=.01", *result]


@pytest.fixture(name="names")
def _names(places: Places, folder: Path) -> dict[str, str]:
    (folder / "there").write_bytes(b"here already\n")
    return {"here": folder.as_uri(), "closed": places["closed"].removeprefix("http:")}


def check(done: Done, argv: object) -> None:
    assert done.status in STATUSES, argv
    assert b"Traceback" not in done.err, argv
    assert b"\x1b" not in done.err, argv


def test_command_with_random_arguments_exits_with_known_status(names: dict[str, str]) -> None:
    source = random.Random(1738)
    for _ in range(5_000 if FULL else 200):
        argv = random_arguments(source, names)
        done = resolve(*argv, stdin=b"file:///no\n{\n\xff\n" if source.random() < 0.5 else b"")
        check(done, argv)
        if done.out and "--json" in argv and done.out[:1] == b"{":
            assert [json.loads(line) for line in done.out.splitlines()], argv


def test_command_with_random_list_exits_with_known_status(names: dict[str, str]) -> None:
    source = random.Random(3986)
    pieces = [
        b"{",
        b'"url"',
        b":",
        b'"file:///no"',
        b"}",
        b"[",
        b"null",
        b"\\ud800",
        b"\n",
        b"\r",
        b"#",
        b"\0",
    ]
    pieces += [
        b'{"url": "x:"}',
        b'{"url": "x:", "origin": ',
        b'"derived"',
        b'"referrer": ',
        b"1e999",
        b"\xff",
        b"//",
    ]
    for _ in range(3_000 if FULL else 100):
        octets = b"".join(source.choice(pieces) for _ in range(source.randrange(12)))
        verb = source.choice(["parse", "explain", "cat", "get", "info", "ls"])
        check(resolve(verb, "-t", "1", "-i", "-", stdin=octets), (verb, octets))


@pytest.mark.parametrize("exists", ["fail", "resume", "skip", "newer", "replace", "rename"])
def test_get_to_unusual_path_keeps_special_files(exists: str, names: dict[str, str], folder: Path) -> None:
    """An existing entry stays unless it is a file that may be replaced."""
    os.mkfifo(folder / "pipe")
    reader = os.open(folder / "pipe", os.O_RDWR)  # a FIFO without a reader blocks the writer
    (folder / "folder").mkdir()
    (folder / "nowhere").symlink_to("no/such/thing")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
    kinds = {name: (folder / name).lstat().st_mode for name in ("pipe", "folder", "socket")}
    places = (
        *kinds,
        "nowhere",
        "no/such/x",
        "there/x",
        "x" * 300,
        ".",
        "..",
        "a\nb",
        "\udcff",
    )
    for place in places:
        done = resolve("get", "-O", place, "--exists", exists, f"{names['here']}/there")
        assert done.status in (0, 3), (place, done)
        check(done, place)
    os.close(reader)
    assert {name: (folder / name).lstat().st_mode for name in kinds} == kinds


@pytest.mark.parametrize(
    "option", ["-i", "--trace", "--password-file", "--cacert", "--file-root", "-d", "-O"]
)
def test_file_option_with_unusable_path_fails(option: str, names: dict[str, str], folder: Path) -> None:
    for name in ("folder", "no/such/x", "there/x", "x" * 300, "/proc/self/mem"):
        (folder / "folder").mkdir(exist_ok=True)
        done = resolve("get", "-q", "--user", "me", option, name, "-t", "1", "file:///no/such")
        check(done, (option, name))
        assert done.status != 0
