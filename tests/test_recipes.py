"""Commands on the pages run unchanged, with the shown output."""

from __future__ import annotations

import re
import shlex
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio

from fixtures.__main__ import PORT_BASE, ROWS, server_tls, start_rows
from fixtures.ports import PORTS_PER_ROW
from resolver.cli.arguments import read
from tests.hang import HANG
from tests.sampled import sampled

CHECKOUT = Path(__file__).parents[1]
DOCS = sorted(str(page.relative_to(CHECKOUT)) for page in (CHECKOUT / "docs").rglob("*.md"))
TEXTS = {name: (CHECKOUT / name).read_text("utf-8") for name in ("README.md", *DOCS)}

#: Commands of the README that another test runs, by their beginning.
ELSEWHERE = {
    "resolve get --allow-port 18933 ": "tests/resolver/cli/test_progress.py draws transfers under way",
    "resolve get -d out -j 8 --per-host 8 ": "tests/resolver/cli/test_retrieval_run.py has few logins",
    "resolve explain finger:": "tests/test_own_scheme.py",
    "resolve cat -q finger:": "tests/test_own_scheme.py",
    "resolve cat finger:": "tests/test_own_scheme.py",
}

#: Other clients on the page that compares them; their commands run if they are installed.
CLIENTS = {"aria2c", "curl", "lftp", "wget"}

#: A line that begins a command; a telnet service may have the same prompt.
_BEGIN = r"    \$ (?=(?:\w+=\S+ )?(?:cat|curl|echo|find|grep|lftp|ls|printf|python|resolve|wget) )"
#: A command and its shown output; an empty line belongs to it if more output follows.
COMMAND = re.compile(
    rf"^{_BEGIN}([^'\n]*(?:'[^']*'[^'\n]*)*)\n((?:(?!{_BEGIN})    .*\n|\n(?=    (?!\$ )))*)", re.MULTILINE
)
#: Output that differs between runs, and its replacement.
VARIES = (
    (re.compile(r'"elapsed": [0-9.]+'), '"elapsed": 0'),
    (re.compile(r" in [0-9.]+ s$", re.MULTILINE), " in 0 s"),
)
PROGRAM = re.compile(r"This is `(\w+\.py)`:\n\n```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
PORT = re.compile(r"(?<!\d)[1-9]\d{3,4}(?!\d)")


async def start_servers(nursery: trio.Nursery, tls: ssl.SSLContext) -> dict[str, str]:
    """Start the servers at free ports; return these by the ports that the pages show."""
    ports = {}
    for row, name in enumerate(ROWS.values()):
        for number, server in enumerate(await start_rows(nursery, tls, [name])):
            ports[str(PORT_BASE + PORTS_PER_ROW * row + number)] = str(urlsplit(server.urls[0]).port)
    return ports


def with_ports(text: str, ports: dict[str, str]) -> str:
    """Return the text with each shown port replaced."""
    return PORT.sub(lambda found: ports.get(found[0], found[0]), text)


def prepare(text: str, folder: Path) -> dict[str, str]:
    """Write the programs of a page; return an environment with `resolve` and `python` on PATH."""
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


async def run(command: str, folder: Path, environment: dict[str, str], before: int = 0) -> tuple[str, int]:
    """Return the output and status of a command; `before` is the status that `$?` holds."""
    with trio.fail_after(HANG):
        done = await trio.run_process(
            ["/bin/sh", "-c", f"(exit {before})\n{command}"],
            cwd=folder,
            env=environment,
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.stdout.decode().replace("\r", ""), done.returncode


def agrees(said: str, shown: str) -> bool:
    """Return whether the output matches.

    A line `…` stands for any lines, and `sha256:…` for any digest. Empty lines at the end are ignored.
    """
    for pattern, instead in VARIES:
        said, shown = pattern.sub(instead, said), pattern.sub(instead, shown)
    parts = [re.escape(part) for part in re.split(r"^…$\n", shown.rstrip("\n") + "\n", flags=re.MULTILINE)]
    parts = [part.replace("sha256:…", "sha256:[0-9a-f]{64}") for part in parts]
    return re.fullmatch("(?:.*\n)*".join(parts), said.rstrip("\n") + "\n") is not None


# The pages with a command whose output is shown. Another test runs the commands of the page on schemes.
SHOWN = [name for name in TEXTS if COMMAND.search(TEXTS[name]) and name != "docs/how-to/add-a-scheme.md"]
RECIPES = [name for name in SHOWN if name.startswith("docs/how-to/recipes")]


@pytest.mark.parametrize("name", sampled(SHOWN, lambda name: name in RECIPES, 10))
async def test_page_commands_print_shown_output(name: str, nursery: trio.Nursery, tmp_path: Path) -> None:
    await try_commands(TEXTS[name], nursery, tmp_path)


def test_skipped_commands_are_on_pages() -> None:
    commands = [command for text in TEXTS.values() for command, _ in COMMAND.findall(text)]
    for begin in ELSEWHERE:
        assert len([command for command in commands if command.startswith(begin)]) == 1, begin
    assert len(commands) > 25


@pytest.mark.parametrize("name", TEXTS)
def test_commands_without_output_parse(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null")
    text = (CHECKOUT / name).read_text("utf-8")
    for line in re.findall(r"^    resolve (.*)$", text, re.MULTILINE):
        words = shlex.split(line, comments=True)
        ends = [words.index(end) for end in ("|", ">", "&&") if end in words]
        # `--version` prints, and leaves no command to run
        assert words == ["--version"] or read(words[: min(ends, default=None)]) is not None, line


async def try_commands(text: str, nursery: trio.Nursery, tmp_path: Path) -> None:
    ports = await start_servers(nursery, server_tls(tmp_path)[0])
    folder = tmp_path / "here"
    folder.mkdir()
    environment = prepare(with_ports(text, ports), folder)
    shown = {there: here for here, there in ports.items()}
    status = 0
    for command, expected in COMMAND.findall(text):
        missing = any(name in CLIENTS and shutil.which(name) is None for name in command.split())
        if missing or command.startswith(tuple(ELSEWHERE)):
            continue
        said, status = await run(with_ports(command, ports), folder, environment, status)
        said, expected = with_ports(said, shown), re.sub(r"^    ", "", expected, flags=re.MULTILINE)
        assert agrees(said, expected), f"{command}\n{said}"


def test_recipes_show_commands() -> None:
    pages = (CHECKOUT / "docs/how-to/recipes").glob("*.md")
    assert sorted(RECIPES) == sorted(str(page.relative_to(CHECKOUT)) for page in pages)
    assert len(RECIPES) >= 5
