"""Size, and what a reader has to be able to trust."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from tests.architecture.source import Module, words

#: What stands for itself in a pattern, and what is possessive in one: `a*+`, `a{2}+`, `(?>a)`.
_PLAIN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_POSSESSIVE = re.compile(r"[*+?}][+]|\(\?>")

MOST_LINES = 800

_TOO_WIDE = words("builtins.BaseException builtins.Exception")

#: Modules that break the rule, and why.
CATCH_ALL: Mapping[str, str] = {
    "resolver.loops.on_asyncio": "what a thread raises is raised where it is waited for",
    "resolver.disk.group_commit": "what goes wrong with a file is raised where that is waited for",
    "resolver.batch.running": "whatever ends a batch is raised where its results are waited for",
    "resolver.portal.thread": "whatever ends an operation is raised in the thread that waits for it",
    "resolver.bulk.store": "whatever a file system of fsspec's raises, it cannot be used",
}


def files_are_short(module: Module) -> list[str]:
    lines = len(module.source.splitlines())
    return [f"{module.name} has {lines} lines"] if lines > MOST_LINES else []


def catches_what_it_means(module: Module) -> list[str]:
    """No bare `except`, no `except Exception`, in no tuple and not by `suppress` either; `except
    BaseException` only to clean up and raise on. Nothing that is under way is lost by leaving `finally`, or
    by an `__exit__` that says yes to all."""
    found = [(line, f"catches {what}") for node in module.nodes for line, what in _caught(module, node)]
    found += [(line, "loses what is under way") for node in module.nodes for line in _losses(node)]
    return [f"{module.name}:{line} {what}" for line, what in sorted(found)]


def _caught(module: Module, node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.ExceptHandler(type=None, lineno=line):
            yield line, "everything"
        case ast.ExceptHandler(type=ast.expr() as kinds, body=[*_, last], lineno=line):
            raises_on = isinstance(last, ast.Raise) and last.exc is None
            for kind in _kinds(module, kinds):
                if kind in _TOO_WIDE and not (kind == "builtins.BaseException" and raises_on):
                    yield line, kind.removeprefix("builtins.")
        case ast.Call(func=function, args=kinds, lineno=line):
            if module.origin(function) == "contextlib.suppress":
                named = (kind for argument in kinds for kind in _kinds(module, argument))
                yield from ((line, kind.removeprefix("builtins.")) for kind in named if kind in _TOO_WIDE)


def _kinds(module: Module, node: ast.expr) -> Iterator[str]:
    """The classes of an `except`: also those in a tuple, and those of a tuple that has a name."""
    match node:
        case ast.Tuple(elts=kinds):
            yield from (kind for each in kinds for kind in _kinds(module, each))
        case ast.Starred(value=kinds):
            yield from _kinds(module, kinds)
        case ast.Name(id=name) if not module.origin(node):
            for each in module.nodes:
                if (
                    isinstance(each, ast.Assign)
                    and name in _targets(each)
                    and isinstance(each.value, ast.Tuple)
                ):
                    yield from _kinds(module, each.value)
        case _:
            yield module.origin(node)


def _losses(node: ast.AST) -> Iterator[int]:
    match node:
        case ast.Try(finalbody=last) | ast.TryStar(finalbody=last):
            for each in (part for statement in last for part in ast.walk(statement)):
                if isinstance(each, ast.Return | ast.Break | ast.Continue):
                    yield each.lineno
        case ast.FunctionDef(name="__exit__") | ast.AsyncFunctionDef(name="__aexit__"):
            for each in ast.walk(node):
                if isinstance(each, ast.Return) and isinstance(each.value, ast.Constant) and each.value.value:
                    yield each.lineno


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
