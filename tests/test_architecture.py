"""The house keeps its rules, and each rule is shown to find what breaks it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from textwrap import dedent

import pytest

from tests.architecture import adapters, doors, line_ends, never, schemes, shape
from tests.architecture.extras import lacking
from tests.architecture.planted import KEPT, PLANTED, Planted, Rule
from tests.architecture.source import Module, is_within, modules, read_once, words
from tools.requirements import read_pyproject

CHECKOUT = Path(__file__).parents[1]
SOURCES = modules(CHECKOUT, "protocols", "resolver")
EXCEPTIONS: Mapping[Rule, Mapping[str, str]] = {
    doors.only_the_disk_opens_files: doors.OPEN_FILES,
    line_ends.only_wire_ends_lines: line_ends.END_LINES,
    line_ends.only_wire_makes_lines: line_ends.MAKE_LINES,
    never.reaches_nothing_by_name: never.REACH_BY_NAME,
    schemes.only_the_tables_name_schemes: schemes.NAME_SCHEMES,
    shape.catches_what_it_means: shape.CATCH_ALL,
}
KINDS = {
    f"{rule.__name__}: {kind}": (rule, each)
    for rule, kinds in PLANTED.items()
    for kind, each in kinds.items()
}


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


def test_contracts_of_the_tree_are_kept() -> None:
    done = _lint(CHECKOUT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "source", "broken"),
    [
        ("protocols/wire.py", "import protocols.conversation", "The layers of protocols"),
        ("protocols/ftp/planted.py", "import protocols.gopher", "The layers of protocols"),
        ("protocols/novelty.py", "", "The layers of protocols"),
        ("resolver/registry.py", "import resolver.url", "The layers of resolver"),
        ("protocols/wire.py", "import resolver.policy", "protocols never imports resolver"),
        ("protocols/wire.py", "import time", "protocols has no clock"),
        ("resolver/plan.py", "from protocols import gopher", "resolver imports no folder of a scheme"),
        ("resolver/plan.py", "from socket import create_connection", "The gate alone reaches sockets"),
        ("resolver/plan.py", "import requests", "No other client fetches"),
        ("resolver/gate/stream.py", "import trio", "Event loops are used through"),
        ("resolver/plan.py", "def f():\n    import pickle", "No other program"),
        ("resolver/plan.py", "import random", "Chance, threads"),
    ],
)
def test_contract_with_a_planted_import_is_broken(
    tmp_path: Path, module: str, source: str, broken: str
) -> None:
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    for package in ("protocols", "resolver"):
        shutil.copytree(CHECKOUT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{source}\n")
    done = _lint(tmp_path)
    assert done.returncode == 1
    told = done.stdout.partition("Broken contracts")[2]
    assert [line for line in told.splitlines() if line.startswith(broken)], done.stdout


@pytest.mark.parametrize("rule", PLANTED, ids=lambda rule: rule.__name__)
def test_every_source_file_keeps_the_rule(rule: Rule) -> None:
    excepted = EXCEPTIONS.get(rule, {})
    assert SOURCES
    assert [finding for module in SOURCES if module.name not in excepted for finding in rule(module)] == []


@pytest.mark.parametrize(("rule", "planted"), KINDS.values(), ids=KINDS)
def test_a_rule_finds_what_breaks_it(rule: Rule, planted: Planted) -> None:
    findings = rule(Module(planted.name, planted.source))
    assert any(planted.words in finding for finding in findings), findings


@pytest.mark.parametrize(("rule", "name", "source"), KEPT)
def test_a_rule_lets_pass_what_keeps_it(rule: Rule, name: str, source: str) -> None:
    assert rule(Module(name, source)) == []


@pytest.mark.parametrize(
    ("rule", "name"), [(rule, name) for rule, names in EXCEPTIONS.items() for name in names]
)
def test_an_exception_is_still_needed(rule: Rule, name: str) -> None:
    broken = any(module.name == name and rule(module) for module in SOURCES)
    assert broken, f"{name} keeps the rule: take it out of the exceptions of the rule"


def _used_in(room: str) -> set[str]:
    inside = [module for module in SOURCES if never.stands_in(module, room)]
    return {name for module in inside for name, _ in (*module.run_imports, *module.uses)}


@pytest.mark.parametrize(("verb", "adapter"), adapters.SERVED.items())
def test_a_verb_serves_its_adapter(verb: str, adapter: str) -> None:
    assert any(is_within(name, adapter) for name in _used_in(verb))


def test_what_a_room_takes_comes_with_its_extra() -> None:
    metadata = read_pyproject()["project"]
    assert lacking(SOURCES, metadata["dependencies"], metadata["optional-dependencies"]) == []


def test_what_does_not_come_with_an_extra_is_found() -> None:
    house = [
        Module("resolver", "import Base"),
        Module("resolver.one", "import red.rose"),
        Module("resolver.two", "def f():\n  import green\n  from resolver.one import x"),
        Module("resolver.three", "from resolver import two\nif TYPE_CHECKING:\n  import blue"),
    ]
    extras = {"warm": ["red>=1"], "cold": ["green[more]~=1.0"]}
    rooms = {"warm": words("resolver.one"), "cold": words("resolver.two")}
    assert lacking(house, ["base>=1"], extras, rooms) == ["resolver.two takes red"]
    assert lacking(house[:2], [], extras, {}) == ["resolver takes base", "resolver.one takes base red"]


def test_the_tests_have_no_possessive_patterns_either() -> None:
    others = modules(CHECKOUT, "fixtures", "tests")
    assert [finding for module in others for finding in shape.patterns_let_go(module)] == []


def test_no_import_hides_a_cycle() -> None:
    """Counting the imports inside functions, no module leads back to itself."""
    assert _cycle(SOURCES) == []


def test_a_cycle_is_found() -> None:
    late = dedent("""
        def f():
            from resolver import two
    """)
    assert _cycle([Module("resolver.one", late), Module("resolver.two", "import resolver.one")]) != []


def _cycle(sources: list[Module]) -> list[str]:
    names = {module.name for module in sources}
    graph = {module.name: set(_imported(module, names)) - {module.name} for module in sources}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _imported(module: Module, names: set[str]) -> Iterator[str]:
    """The modules that are imported to run: not those that a type checker alone looks at."""
    for name, _ in module.run_imports:
        known = name if name in names else name.rpartition(".")[0]
        if known in names and not module.name.startswith(f"{known}."):  # its own package is there first
            yield known
