"""Every page of `docs/recipes`, and that of libraries, is run as it stands, and says what comes of it."""

from __future__ import annotations

import re
import shlex
import ssl
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio

from fixtures.__main__ import PORT_BASE, ROWS, server_tls, start_rows
from fixtures.ports import ROOM
from tests.hang import HANG
from tests.sampled import sampled

CHECKOUT = Path(__file__).parents[1]
PAGES = [*sorted((CHECKOUT / "docs/recipes").glob("*.md")), CHECKOUT / "docs/libraries.md"]
TEXTS = {page.stem: page.read_text("utf-8") for page in PAGES}

#: A command, and what is shown of it.
COMMAND = re.compile(r"^    \$ (.*)\n((?:    (?!\$ ).*\n)*)", re.MULTILINE)
PROGRAM = re.compile(r"This is `(\w+\.py)`:\n\n```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"127\.0\.0\.1:(\d+)")


async def start_servers(nursery: trio.Nursery, tls: ssl.SSLContext) -> dict[str, str]:
    """At free ports; by the ports that the pages show."""
    ports = {}
    for row, name in enumerate(ROWS.values()):
        for number, server in enumerate(await start_rows(nursery, tls, [name])):
            ports[str(PORT_BASE + ROOM * row + number)] = str(urlsplit(server.urls[0]).port)
    return ports


def with_ports(text: str, ports: dict[str, str]) -> str:
    return PLACE.sub(lambda found: f"127.0.0.1:{ports.get(found[1], found[1])}", text)


def prepare(text: str, folder: Path) -> dict[str, str]:
    """The programs of a page in a folder, and an environment in which it has `resolve` and `python`."""
    programs = folder / ".bin"
    programs.mkdir()
    python = shlex.quote(sys.executable)
    for name, words in {"resolve": f"{python} -m resolver", "python": python}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    for name, program in PROGRAM.findall(text):
        (folder / name).write_text(program, encoding="utf-8")
    path = f"{programs}:/usr/bin:/bin"
    return {
        "PATH": path,
        "PYTHONPATH": str(CHECKOUT),
        "PYTHONWARNINGS": "error",
        "XDG_CONFIG_HOME": "/dev/null",
        "LC_ALL": "C.UTF-8",
    }


async def run(command: str, folder: Path, environment: dict[str, str]) -> str:
    with trio.fail_after(HANG):
        done = await trio.run_process(
            ["/bin/sh", "-c", command],
            cwd=folder,
            env=environment,
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.stdout.decode()


@pytest.mark.parametrize("name", sampled(TEXTS, lambda name: None, 3))
async def test_a_recipe_does_what_it_shows(name: str, nursery: trio.Nursery, tmp_path: Path) -> None:
    text = TEXTS[name]
    ports = await start_servers(nursery, server_tls(tmp_path)[0])
    folder = tmp_path / "here"
    folder.mkdir()
    environment = prepare(text, folder)
    shown = {there: here for here, there in ports.items()}
    for command, expected in COMMAND.findall(text):
        said = await run(with_ports(command, ports), folder, environment)
        assert with_ports(said, shown) == re.sub(r"^    ", "", expected, flags=re.MULTILINE), command


def test_every_recipe_shows_a_command() -> None:
    assert all(COMMAND.search(text) for text in TEXTS.values())
    assert len(TEXTS) >= 5
