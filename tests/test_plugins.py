"""A second distribution, built and installed: its schemes keep the contract and work in the command.

Its modules import only the names that the page for authors lists.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from fixtures.ports import serve_connections
from resolver.testing.certificates import server_tls
from tests.hang import HANG
from tests.plugin.distribution import CHECKOUT, PLUGINS, install, variables
from tests.plugin.finger_server import FingerServer

SOURCES = sorted((PLUGINS / "more_schemes").glob("*.py"))
PAGE = (CHECKOUT / "docs/how-to/add-a-scheme.md").read_text(encoding="utf-8")
NAMES = ("data", "dict", "finger", "gemini")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("distribution"))


def programs() -> list[str]:
    """Return the programs on the page for authors."""
    section = PAGE.partition("\n## Test a scheme\n")[2]
    return re.findall(r"^```python\n(.*?)^```\n", section, re.MULTILINE | re.DOTALL)


class Command:
    """The installed `resolve`, run in an empty folder."""

    def __init__(self, site: Path, folder: Path) -> None:
        self._site, self.folder = site, folder

    async def run(self, *words: str) -> tuple[int, str, str]:
        """Return status, standard output and standard error."""
        with trio.fail_after(HANG):
            done = await trio.run_process(
                [sys.executable, "-W", "error", "-c", "from resolver.cli import run; run()", *words],
                cwd=self.folder,
                env=variables(self._site, self.folder),
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
        return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def command(site: Path, tmp_path: Path) -> Command:
    return Command(site, tmp_path)


def test_plugin_tests_pass_when_installed(site: Path, tmp_path: Path) -> None:
    """The tests use only the kit and the installed package; so do the tests on the page for authors.

    They check the contract, as for built-in schemes, and the dialogues.
    """
    shutil.copytree(PLUGINS / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests/test_page.py").write_text("\n\n".join(programs()), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:anyio", str(tmp_path)],
        cwd=tmp_path,
        env=variables(site, tmp_path),
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) >= 150
    assert "skipped" not in done.stdout
    assert len(programs()) == 2


async def test_command_has_plugin_schemes(command: Command) -> None:
    _, told, _ = await command.run("schemes", "--json")
    records = {record["scheme"]: record for record in map(json.loads, told.splitlines())}
    assert {name: records[name]["origin"] for name in NAMES} == dict.fromkeys(NAMES, "plug-in")
    assert await command.run("cat", "-q", "data:,a%20b") == (0, "a b", "")
    status, plan, said = await command.run("explain", "gemini://h.example/a?b")
    assert (status, said) == (0, "")
    assert "connect  h.example port 1965 (tcp with TLS)" in plan
    assert r"send     'gemini://h.example/a?b\r\n'" in plan
    status, plan, _ = await command.run("explain", "dict://h.example/d:a%20b")
    assert (status, r"""send     'DEFINE "!" "a b"\r\nQUIT\r\n'""" in plan) == (0, True)


async def test_command_fetches_plugin_url(command: Command, nursery: trio.Nursery) -> None:
    server = await FingerServer.start(nursery)
    url = f"finger://127.0.0.1:{server.port}/joe"
    assert await command.run("get", "-q", url) == (0, "", "")
    assert await trio.Path(command.folder / "joe").read_bytes() == b"Login: joe\r\nNo Plan.\r\n"
    assert (await command.run("cat", "-q", f"{url}@i.example"))[0] == 9
    assert server.heard == [b"joe\r\n"]


class Capsule:
    """A gemini server that can renew its certificate."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.heard: list[bytes] = []
        self.renew()

    def renew(self) -> None:
        self._context = server_tls(self._folder)[0]

    async def attend(self, raw: trio.SocketStream) -> None:
        stream = trio.SSLStream(raw, self._context, server_side=True)
        try:
            self.heard.append(bytes(await stream.receive_some()))
            await stream.send_all(self._answer(self.heard[-1].strip()))
            await stream.aclose()
        except trio.BrokenResourceError:
            pass  # no request arrived

    def _answer(self, asked: bytes) -> bytes:
        if asked.endswith(b"/name?joe"):
            return b"20 text/gemini\r\nHello joe\n=> /moved Elsewhere\n"
        if asked.endswith(b"/name"):
            return b"10 Your name\r\n"
        return b"30 http://127.0.0.1/\r\n" if asked.endswith(b"/away") else b"31 /name?joe\r\n"


async def test_gemini_certificate_is_trusted_on_first_use(
    command: Command, nursery: trio.Nursery, tmp_path_factory: pytest.TempPathFactory
) -> None:
    capsule = Capsule(tmp_path_factory.mktemp("tls"))
    at = f"gemini://127.0.0.1:{await serve_connections(nursery, capsule.attend)}"
    hello = "Hello joe\n=> /moved Elsewhere\n"
    assert await command.run("cat", "-q", f"{at}/moved") == (0, hello, "")
    assert await command.run("cat", "-q", "--search", "joe", f"{at}/name") == (0, hello, "")
    assert await command.run("ls", "-q", f"{at}/name?joe") == (0, "Elsewhere\n", "")
    assert [(await command.run("cat", "-q", f"{at}/{path}"))[0] for path in ("name", "away")] == [8, 15]
    capsule.renew()
    capsule.heard.clear()
    status, given, said = await command.run("cat", "-q", f"{at}/moved")
    assert (status, given, b"".join(capsule.heard)) == (5, "", b"")
    assert "another certificate" in said
    assert str(command.folder / "resolve/known-certificates") in said


# -- imports that authors may use


def surface() -> dict[str, set[str]]:
    """Return the table of the page for authors."""
    rows = re.findall(r"^\| `(protocols\.\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
    return {module: set(re.findall(r"`(\w+)`", names)) for module, names in rows}


def imported(source: str) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            found |= {(node.module or "", alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_plugin_imports_only_listed_names(path: Path) -> None:
    public = surface()
    for module, name in imported(path.read_text(encoding="utf-8")):
        if module.partition(".")[0] not in sys.stdlib_module_names:
            assert name in public.get(module, ()), f"{path.name} imports {name} of {module}"


def test_listed_names_can_be_imported() -> None:
    public = surface()
    assert len(public) >= 6
    for module, names in public.items():
        assert names
        for name in names:
            assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


def test_plugin_imports_no_io_modules() -> None:
    for path in SOURCES:
        modules = {module.partition(".")[0] for module, _ in imported(path.read_text(encoding="utf-8"))}
        assert not modules & {"os", "io", "pathlib", "socket", "ssl", "time", "trio", "asyncio", "resolver"}
