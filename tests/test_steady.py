"""Rules for tests that must not depend on a busy machine, and tests that each rule finds violations."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from tests.architecture.source import Module, modules, read_once
from tests.scheduled import ScheduledClock

CHECKOUT = Path(__file__).parents[1]
TESTS = modules(CHECKOUT, "tests", "fixtures")

#: Modules that may read a clock of the machine.
CLOCKS = {
    "tests.world.__main__": "the number of transfers a minute that make world prints",
    "tests.scheduled": "makes the clock that the others have",
    "tests.bulk.front": "writes down when requests came, as servers do",
    "tests.faults.killed_at_random": "chooses the moment of a kill",
    "tests.faults.killed_with_archive": "the same",
    "tests.servers.keeper": "asks servers to end, and then kills them",
}
#: Modules that may read the time, though they do not set it with trio's `MockClock`.
ASKS_THE_TIME = {
    "tests.loops.test_runs": "compares the clocks of a run",
    "tests.scheduled": "makes a clock",
    "tests.test_scheduled": "is about it",
    "tests.resolver.testing.test_virtual_loop": "is about a virtual clock",
}
OF_THE_MACHINE = frozenset({"monotonic", "perf_counter", "monotonic_ns", "perf_counter_ns", "time_ns"})
HEAVY = ("dask", "distributed", "pandas")
OF_THE_PROFILE = frozenset({"deadline", "derandomize", "print_blob", "database"})


@pytest.fixture(scope="module", autouse=True)
def _read() -> Iterator[None]:
    with read_once(TESTS):
        yield


def _calls(module: Module, *substrings: str) -> list[tuple[str, ast.Call]]:
    """Return the calls of a module whose text has one of the substrings: most files need not be parsed."""
    if not any(each in module.source for each in substrings):
        return []
    return [(_called_name(node.func), node) for node in module.nodes if isinstance(node, ast.Call)]


def _called_name(called: ast.expr) -> str:
    """Return the name of a called function without its qualifier; empty without a name."""
    match called:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def deadlines_are_hang(module: Module) -> list[str]:
    """Find deadlines other than HANG: no test may fail because it is slow."""
    return [
        f"{module.name}:{call.lineno} gives {ast.unparse(call)} and not HANG"
        for name, call in _calls(module, "fail_after", "fail_at")
        if name in ("fail_after", "fail_at") and ast.unparse(call.args[0]) != "HANG"
    ]


def timeouts_are_hang(module: Module) -> list[str]:
    """Find timeouts of processes, threads and sockets other than HANG."""
    return [
        f"{module.name}:{call.lineno} gives {ast.unparse(keyword)} and not HANG"
        for _, call in _calls(module, "timeout")
        for keyword in call.keywords
        if keyword.arg == "timeout" and isinstance(keyword.value, ast.Constant) and keyword.value.value
    ]


def reads_no_clock(module: Module) -> list[str]:
    if module.name in CLOCKS:
        return []
    return [
        f"{module.name}:{call.lineno} reads {ast.unparse(call.func)}"
        for name, call in _calls(module, *OF_THE_MACHINE, "time.time")
        if name in OF_THE_MACHINE or (name == "time" and ast.unparse(call.func) == "time.time")
    ]


def reads_no_time_of_loop(module: Module) -> list[str]:
    if module.name in ASKS_THE_TIME or "MockClock" in module.source:
        return []
    return [
        f"{module.name}:{call.lineno} asks {ast.unparse(call)}"
        for name, call in _calls(module, "current_time")
        if name == "current_time"
    ]


def leaves_hypothesis_to_the_profile(module: Module) -> list[str]:
    return [
        f"{module.name}:{call.lineno} sets {keyword.arg}"
        for name, call in _calls(module, "settings")
        for keyword in call.keywords
        if name == "settings" and keyword.arg in OF_THE_PROFILE
    ]


def gzip_has_fixed_mtime(module: Module) -> list[str]:
    """Find gzip output without a fixed mtime.

    gzip stores the time, so the output differs a second later: a test's parameters, and so its name, would
    differ between workers.
    """
    return [
        f"{module.name}:{call.lineno} packs without mtime="
        for _, call in _calls(module, "gzip", "GzipFile")
        if ast.unparse(call.func) in ("gzip.compress", "gzip.GzipFile", "GzipFile")
        if all(keyword.arg != "mtime" for keyword in call.keywords)
    ]


def imports_no_heavy_library_early(module: Module) -> list[str]:
    """Find module-level imports of heavy libraries.

    Every worker collects all tests, and each of these libraries costs half a second and 35 MB.
    """
    if not any(library in module.source for library in HEAVY):
        return []
    return [
        f"{module.name}:{node.lineno} imports {name} for everybody"
        for node in module.tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        )
        if name.partition(".")[0] in HEAVY
    ]


BROKEN: list[tuple[Callable[[Module], list[str]], str]] = [
    (deadlines_are_hang, "with trio.fail_after(5): ..."),
    (deadlines_are_hang, "with fail_after(LIMIT): ..."),
    (timeouts_are_hang, "subprocess.run(command, timeout=60)"),
    (reads_no_clock, "began = time.perf_counter()"),
    (reads_no_clock, "began = time.time()"),
    (reads_no_time_of_loop, "assert trio.current_time() - sent < SOON"),
    (gzip_has_fixed_mtime, "gzip.compress(b'octets')"),
    (imports_no_heavy_library_early, "import dask.dataframe"),
    (imports_no_heavy_library_early, "from distributed import Client"),
    (imports_no_heavy_library_early, "import pandas"),
    (leaves_hypothesis_to_the_profile, "@settings(max_examples=5, deadline=None)\ndef f(): ..."),
]


@pytest.mark.parametrize("rule", dict.fromkeys(rule for rule, _ in BROKEN), ids=lambda rule: rule.__name__)
def test_test_modules_keep_rule(rule: Callable[[Module], list[str]]) -> None:
    assert [finding for module in TESTS for finding in rule(module)] == []


@pytest.mark.parametrize(("rule", "source"), BROKEN)
def test_rule_finds_violation(rule: Callable[[Module], list[str]], source: str) -> None:
    assert rule(Module("tests.pretended", source)) != []


@pytest.mark.parametrize("name", sorted(CLOCKS.keys() | ASKS_THE_TIME.keys()))
def test_exceptions_from_rules_are_still_needed(name: str) -> None:
    (module,) = (module for module in TESTS if module.name == name)
    pretended = Module("tests.pretended", module.source)
    assert (reads_no_clock(pretended) != []) == (name in CLOCKS)
    assert name not in ASKS_THE_TIME or reads_no_time_of_loop(pretended) != []


@pytest.mark.parametrize(
    ("profile", "expected"), [("resolve", ["None", "False", "True"]), ("gate", ["None", "True", "True"])]
)
def test_hypothesis_is_derandomized_only_in_gate(profile: str, expected: list[str]) -> None:
    """Hypothesis has another default profile if `CI` is set."""
    code = (
        "import tests.conftest; from hypothesis import settings; "
        f"settings.load_profile({profile!r}) if {profile != 'resolve'} else None; of = settings();"
        "print(of.deadline, of.derandomize, of.print_blob)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        env={**os.environ, "CI": "true"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == expected


async def test_tests_run_with_scheduled_clock() -> None:
    assert isinstance(trio.lowlevel.current_clock(), ScheduledClock)
