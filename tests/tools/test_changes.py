"""Mutations: the generated changes are those expected, compile, and leave meaningless code alone."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from tests.sampled import sampled
from tools.mutation.__main__ import in_gate, sample
from tools.mutation.changes import find_changes
from tools.mutation.trial import CHECKOUT, _split

ROWS: list[tuple[str, list[str]]] = [
    ("x = a < b", ["x = (a <= b)", "x = (a >= b)"]),
    ("x = a == b", ["x = (a != b)"]),
    ("x = a is None", ["x = (a is not None)"]),
    ("x = a in b", ["x = (a not in b)"]),
    ("x = a < b <= c", ["x = (a <= b <= c)", "x = (a >= b <= c)", "x = (a < b < c)", "x = (a < b > c)"]),
    ("x = a and b or c", ["x = ((a and b) and c)", "x = (a or b) or c"]),
    ("x = not a", ["x = (a)"]),
    ("x = a + b", ["x = (a - b)"]),
    ("if a: b = c", ["if (not (a)): b = c"]),
    ("x = [y for y in z if y]", ["x = [y for y in z if (not (y))]"]),
    ("x = 1", ["x = 2"]),
    ("x = True", ["x = False"]),
    ("x = b'QUIT'", ["x = b'PUIT'"]),
    ("x = 'é', 2", ["x = 'é', 3"]),  # positions are in bytes
    ("f(a, b=c)", ["pass", "f(a)"]),
    ("f(a, *b, **c)", ["pass"]),
    ("x.y = a", ["pass"]),
    ("x += a", ["pass"]),
    ("raise E", ["pass"]),
    ("while a:\n  break", ["while (not (a)):\n  break", "while a:\n  continue"]),
    ("def f():\n  return a", ["def f():\n  return None"]),
    ("async def f():\n  await a", ["async def f():\n  pass"]),
]

#: Sources without changes.
KEPT = [
    "'''A docstring of 3 words.'''",
    "x: Literal[1] | None",
    "def f(a: A | B) -> C | D: ...",
    "assert a < b",
    "if TYPE_CHECKING:\n  x = 1",
    "@f(a=1)\ndef g(): ...",
    "x = f'{a + 1}'",
    "x = 'words'",
    "def f():\n  return None",
    "while True:\n  x",
]


@pytest.mark.parametrize(("source", "changed"), ROWS)
def test_changes_of_source_are_those_expected(source: str, changed: list[str]) -> None:
    assert sorted(change.apply(source) for change in find_changes(source)) == sorted(changed)


@pytest.mark.parametrize("source", KEPT[:-1])
def test_changes_of_meaningless_code_are_none(source: str) -> None:
    assert list(find_changes(source)) == []


def test_endless_loop_is_changed_only_to_false() -> None:
    assert [change.becomes for change in find_changes(KEPT[-1])] == ["False"]


@pytest.mark.parametrize("module", ["protocols/wire.py", "resolver/transfer/retry.py"])
def test_changes_of_module_compile_and_differ(module: str) -> None:
    source = (CHECKOUT / module).read_text(encoding="utf-8")
    found, meant = list(find_changes(source)), ast.dump(ast.parse(source))
    assert len(found) > 20
    for change in sampled(found, lambda change: None, 40):
        assert ast.dump(ast.parse(change.apply(source))) != meant


def test_sample_with_seed_is_fixed_without_duplicates() -> None:
    modules = [Path("resolver/transfer/retry.py"), Path("protocols/wire.py")]
    drawn = sample(modules, 30, random.Random(3))
    assert drawn == sample(modules, 30, random.Random(3))
    assert len({(module, change.start, change.end) for module, change in drawn}) == 30


def test_turns_start_with_few_tests() -> None:
    turns = [asked for asked, _ in _split([str(number) for number in range(100)])]
    assert [len(asked) for asked in turns] == [12, 60, 28]
    assert [name for asked in turns for name in asked] == [str(number) for number in range(100)]


def test_in_gate_leaves_out_tests_of_table() -> None:
    gate = [
        "tests/resolver/cli",
        "tests/resolver/url/test_parsing.py::test_a_url",
        "tests/faults_of_another_kind.py::test_it",
    ]
    full = [
        "tests/faults/test_matrix.py::test_it",
        "tests/resolver/transfer/test_caches.py::test_caches_do_not_grow_with_untrusted_input",
    ]
    assert in_gate([*gate, *full]) == gate
