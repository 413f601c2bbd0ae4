"""The README's example of a custom scheme is that of `fixtures/plugins`, and its shown output is right."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import trio

from fixtures.plugins.more_schemes import finger
from tests.hang import HANG
from tests.plugin import install
from tests.plugin.finger_server import FingerServer

CHECKOUT = Path(__file__).parents[1]

#: The address of the README's finger server.
PLACE = "127.0.0.1:36079"


def section() -> str:
    text = (CHECKOUT / "docs/how-to/add-a-scheme.md").read_text(encoding="utf-8")
    _, _, behind = text.partition("\n## A complete example\n")
    return behind.partition("\n## ")[0]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```\n", section(), re.MULTILINE | re.DOTALL)


def shown() -> list[str]:
    """Return the indented blocks."""
    outside = re.sub(r"^```.*?^```\n", "", section(), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"(?:^    .*\n)+", outside, re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in found]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "finger.py").write_text(blocks("python")[0], encoding="utf-8")
    return tmp_path


async def said(site: Path, server: FingerServer, *words: str) -> str:
    """Return the output of a Python process on both streams, with the README's server address."""
    there = f"127.0.0.1:{server.port}"
    words = tuple(word.replace(PLACE, there) for word in words)
    with trio.fail_after(HANG):
        done = await trio.run_process(
            [sys.executable, "-W", "error", *words],
            cwd=site,
            env={"PYTHONPATH": os.pathsep.join((str(site), str(CHECKOUT))), "PATH": ""},
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.stdout.decode().replace("\r\n", "\n").replace(there, PLACE)


@pytest.fixture
async def server(nursery: trio.Nursery) -> FingerServer:
    return await FingerServer.start(nursery)


def test_readme_code_equals_plugin_module() -> None:
    assert blocks("python")[0] == Path(finger.__file__).read_text(encoding="utf-8")


async def test_installed_scheme_works_in_command(site: Path, server: FingerServer) -> None:
    (table,) = blocks("toml")
    install(site, tomllib.loads(table)["project"]["entry-points"]["resolver.schemes"])
    commands = re.findall(r"^\$ resolve (.*)\n((?:(?!\$ ).*\n)*)", shown()[0], re.MULTILINE)
    assert len(commands) == 3
    for words, expected in commands:
        run = "from resolver.cli import run; run()"
        assert await said(site, server, "-c", run, *words.split()) == expected
    assert server.heard == [b"joe\r\n"]


async def test_registered_scheme_works_in_program(site: Path, server: FingerServer) -> None:
    program = blocks("python")[1].replace(PLACE, f"127.0.0.1:{server.port}")
    assert await said(site, server, "-c", program) == shown()[1]
    assert server.heard == [b"joe\r\n"]
