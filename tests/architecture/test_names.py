"""Names of classes: `grep "class Name"` finds one."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tests.architecture.source import modules

#: The blocking counterparts in `resolver.blocking`, which are public; and a class that type checkers read in
#: another form than Python, because its base classes depend on the imported libraries.
TWINS = {"Resolver": 2, "TerminalSession": 2, "TransportBase": 2}


def test_class_names_of_both_packages_are_unique() -> None:
    sources = modules(Path(__file__).parents[2], "protocols", "resolver")
    found = Counter(
        node.name for module in sources for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)
    )
    assert {name: count for name, count in found.items() if count > 1} == TWINS
