"""What a reader has to be able to trust, and ruff does not look at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from tests.architecture.source import Module, words

#: What stands for itself in a pattern, and what is possessive in one: `a*+`, `a{2}+`, `(?>a)`.
_PLAIN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_POSSESSIVE = re.compile(r"[*+?}][+]|\(\?>")

_TOO_WIDE = words("builtins.BaseException builtins.Exception")

#: Modules that break `errors_are_not_lost`, and why.
LOSE_ERRORS: Mapping[str, str] = {
    "resolver.bulk.store": "whatever a file system of fsspec's raises, it cannot be used",
}


def errors_are_not_lost(module: Module) -> list[str]:
    """Find `suppress(Exception)`, and an `__exit__` that says yes to all.

    BLE001, E722 and B012 of ruff find what `except` and `finally` lose."""
    return [
        f"{module.name}:{getattr(node, 'lineno', 0)} loses errors"
        for node in module.nodes
        if _loses(module, node)
    ]


def _loses(module: Module, node: ast.AST) -> bool:
    match node:
        case ast.Call(func=function, args=kinds) if module.origin(function) == "contextlib.suppress":
            return any(module.origin(kind) in _TOO_WIDE for kind in kinds)
        case ast.FunctionDef(name="__exit__") | ast.AsyncFunctionDef(name="__aexit__"):
            returns = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
            return any(isinstance(value, ast.Constant) and bool(value.value) for value in returns)
    return False


def patterns_let_go(module: Module) -> list[str]:
    """No possessive quantifier, no atomic group: `re` before Python 3.11.5 matches groups of them wrongly."""
    if _POSSESSIVE.search(module.source) is None:  # most, in a hundredth of the time
        return []
    return [
        f"{module.name}:{line} has a possessive pattern: {text!r}"
        for text, line in _patterns(module)
        if _POSSESSIVE.search(_PLAIN.sub("x", text))
    ]


def _patterns(module: Module) -> Iterator[tuple[str, int]]:
    """Texts in what functions of `re` are given, also by a name of the module; and their lines."""
    calls = (node for node in module.nodes if isinstance(node, ast.Call))
    given = [call for call in calls if module.origin(call.func).startswith("re.")]
    names = {node.id for call in given for node in ast.walk(call) if isinstance(node, ast.Name)}
    named = [node for node in module.nodes if isinstance(node, ast.Assign) and names & _targets(node)]
    for node in (each for top in (*given, *named) for each in ast.walk(top)):
        match node:
            case ast.Constant(value=str(text), lineno=line):
                yield text, line
            case ast.Constant(value=bytes(octets), lineno=line):
                yield octets.decode("latin-1"), line


def _targets(node: ast.Assign) -> set[str]:
    return {target.id for target in node.targets if isinstance(target, ast.Name)}
