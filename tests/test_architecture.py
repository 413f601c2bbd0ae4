"""The sources comply with the rules of the architecture, and each rule finds its violations."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from textwrap import dedent

import pytest

from tests.architecture import doors, line_ends, never, schemes, shape
from tests.architecture.extras import missing_requirements
from tests.architecture.planted import BROKEN, KEPT, Rule, planted
from tests.architecture.source import Module, modules, read_once, words
from tools.requirements import read_pyproject

CHECKOUT = Path(__file__).parents[1]
SOURCES = modules(CHECKOUT, "protocols", "resolver")
EXCEPTIONS: Mapping[Rule, Mapping[str, str]] = {
    doors.only_the_disk_opens_files: doors.OPEN_FILES,
    line_ends.only_wire_ends_lines: line_ends.END_LINES,
    line_ends.only_wire_makes_lines: line_ends.MAKE_LINES,
    never.reaches_nothing_by_name: never.REACH_BY_NAME,
    shape.errors_are_not_lost: shape.LOSE_ERRORS,
    schemes.only_the_tables_name_schemes: schemes.NAME_SCHEMES,
}
MOST_LINES = 800


@pytest.fixture(scope="module", autouse=True)
def _read() -> Iterator[None]:
    with read_once(SOURCES):
        yield


def _lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts in the pyproject.toml of a folder."""
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as c; c()",
        "--no-cache",
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_import_contracts_are_kept() -> None:
    done = _lint(CHECKOUT)
    assert done.returncode == 0, done.stdout


def test_adapters_contract_names_every_package() -> None:
    """A wildcard would replace this test, but needs import-linter 2.12, and with it a newer rich."""
    contracts = read_pyproject()["tool"]["importlinter"]["contracts"]
    (found,) = [contract for contract in contracts if contract["id"] == "adapters"]
    rooms = {".".join(module.name.split(".")[:2]) for module in SOURCES if module.package == "resolver"}
    assert set(found["forbidden_modules"]) == {"protocols", *rooms - {"resolver", "resolver.adapters"}}


#: Imports that each break a contract: the module, the line, and a part of the finding.
PLANTED_IMPORTS = (
    ("protocols/wire.py", "import protocols.conversation", "protocols.wire -> protocols.conversation"),
    ("protocols/ftp/planted.py", "import protocols.gopher", "protocols.ftp.planted -> protocols.gopher"),
    ("protocols/novelty.py", "", "- protocols.novelty"),
    (
        "resolver/policy/schemes.py",
        "import resolver.transfer.plan",
        "resolver.policy.schemes -> resolver.transfer.plan",
    ),
    ("resolver/trees/walk.py", "import resolver.warc", "resolver.trees.walk -> resolver.warc"),
    ("protocols/contract.py", "import resolver.policy", "protocols.contract -> resolver.policy"),
    ("protocols/location.py", "import time", "protocols.location -> time"),
    (
        "resolver/transfer/plan.py",
        "from protocols import gopher",
        "resolver.transfer.plan -> protocols.gopher",
    ),
    ("resolver/transfer/plan.py", "from socket import create_connection", "resolver.transfer.plan -> socket"),
    ("resolver/transfer/plan.py", "import requests", "resolver.transfer.plan -> requests"),
    ("resolver/network/stream.py", "import trio", "resolver.network.stream -> trio"),
    ("resolver/transfer/plan.py", "def f():\n    import pickle", "resolver.transfer.plan -> pickle"),
    ("resolver/transfer/plan.py", "import random", "resolver.transfer.plan -> random"),
    ("resolver/adapters/httpx.py", "import resolver.network", "resolver.adapters.httpx -> resolver.network"),
    (
        "resolver/adapters/urllib.py",
        "import resolver.adapters.pooch",
        "adapters.urllib -> resolver.adapters.pooch",
    ),
    (
        "resolver/cli/retrieval_run.py",
        "import resolver.adapters.mcp",
        "resolver.cli.retrieval_run -> resolver.adapters.mcp",
    ),
)


def test_contracts_find_every_planted_import(tmp_path: Path) -> None:
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    for package in ("protocols", "resolver"):
        shutil.copytree(CHECKOUT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for module, source, _ in PLANTED_IMPORTS:
        with (tmp_path / module).open("a", encoding="utf-8") as file:
            file.write(f"\n{source}\n")
    done = _lint(tmp_path)
    assert done.returncode == 1
    assert "0 kept" in done.stdout, "a contract that nothing here breaks"
    assert [found for _, _, found in PLANTED_IMPORTS if found not in done.stdout] == [], done.stdout


@pytest.mark.parametrize("rule", BROKEN, ids=lambda rule: rule.__name__)
def test_source_files_keep_rule(rule: Rule) -> None:
    excepted = EXCEPTIONS.get(rule, {})
    assert SOURCES
    assert [finding for module in SOURCES if module.name not in excepted for finding in rule(module)] == []


@pytest.mark.parametrize(("rule", "module"), planted(BROKEN))
def test_rule_finds_planted_violation(rule: Rule, module: Module) -> None:
    assert rule(module) != []


@pytest.mark.parametrize(("rule", "module"), planted(KEPT))
def test_rule_accepts_compliant_module(rule: Rule, module: Module) -> None:
    assert rule(module) == []


def test_source_files_have_at_most_max_lines() -> None:
    assert [module.name for module in SOURCES if len(module.source.splitlines()) > MOST_LINES] == []


@pytest.mark.parametrize(
    ("rule", "name"), [(rule, name) for rule, names in EXCEPTIONS.items() for name in names]
)
def test_exception_from_rule_is_still_needed(rule: Rule, name: str) -> None:
    broken = any(module.name == name and rule(module) for module in SOURCES)
    assert broken, f"{name} keeps the rule: take it out of the exceptions of the rule"


def test_imports_of_package_come_with_its_extra() -> None:
    metadata = read_pyproject()["project"]
    assert missing_requirements(SOURCES, metadata["dependencies"], metadata["optional-dependencies"]) == []


def test_import_outside_extra_is_found() -> None:
    house = [
        Module("resolver", "import Base"),
        Module("resolver.one", "import red.rose"),
        Module("resolver.two", "def f():\n  import green\n  from resolver.one import x"),
        Module("resolver.three", "from resolver import two\nif TYPE_CHECKING:\n  import blue"),
    ]
    extras = {"warm": ["red>=1"], "cold": ["green[more]~=1.0"]}
    rooms = {"warm": words("resolver.one"), "cold": words("resolver.two")}
    assert missing_requirements(house, ["base>=1"], extras, rooms) == ["resolver.two takes red"]
    assert missing_requirements(house[:2], [], extras, {}) == [
        "resolver takes base",
        "resolver.one takes base red",
    ]


def test_tests_have_no_possessive_patterns() -> None:
    others = modules(CHECKOUT, "fixtures", "tests")
    assert [finding for module in others for finding in shape.patterns_are_not_possessive(module)] == []


def test_late_imports_have_no_cycle() -> None:
    """Imports inside functions and imports of types count, too."""
    assert _cycle(SOURCES) == []


def test_cycle_is_found() -> None:
    late = dedent("""
        def f():
            from resolver import two
    """)
    assert _cycle([Module("resolver.one", late), Module("resolver.two", "import resolver.one")]) != []
    types = dedent("""
        if TYPE_CHECKING:
            from resolver import two
    """)
    assert _cycle([Module("resolver.one", types), Module("resolver.two", "import resolver.one")]) != []


def _cycle(sources: list[Module]) -> list[str]:
    names = {module.name for module in sources}
    graph = {module.name: set(_imported(module, names)) - {module.name} for module in sources}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _imported(module: Module, names: set[str]) -> Iterator[str]:
    """Yield the imported modules, also those imported only for type checkers."""
    for name, _ in (*module.imports, *module.type_imports):
        known = name if name in names else name.rpartition(".")[0]
        # a module's own package is already loaded
        if known in names and not module.name.startswith(f"{known}."):
            yield known
