"""Properties that a reader must be able to trust, and that ruff does not check."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from tests.architecture.source import Module, words

#: A pattern's literals, and its possessive parts: `a*+`, `a{2}+`, `(?>a)`.
_PLAIN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_POSSESSIVE = re.compile(r"[*+?}][+]|\(\?>")

_TOO_WIDE = words("builtins.BaseException builtins.Exception")

#: Modules that break `errors_are_not_lost`, and the reason.
LOSE_ERRORS: Mapping[str, str] = {
    "resolver.bulk.store": "whatever a file system of fsspec's raises, it cannot be used",
}


def errors_are_not_lost(module: Module) -> list[str]:
    """Find `suppress(Exception)`, and an `__exit__` that always returns true.

    BLE001, E722 and B012 of ruff find errors lost by `except` and `finally`.
    """
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


def patterns_are_not_possessive(module: Module) -> list[str]:
    """Find possessive quantifiers and atomic groups: `re` before Python 3.11.5 mismatches groups in them."""
    if _POSSESSIVE.search(module.source) is None:  # most modules, in a hundredth of the time
        return []
    return [
        f"{module.name}:{line} has a possessive pattern: {text!r}"
        for text, line in _patterns(module)
        if _POSSESSIVE.search(_PLAIN.sub("x", text))
    ]


def _patterns(module: Module) -> Iterator[tuple[str, int]]:
    """Yield strings passed to functions of `re`, also by a name of the module, with their lines."""
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
