"""A dialogue is a state machine: it yields steps, and neither waits nor reads the clock."""

from __future__ import annotations

import ast

from tests.architecture.source import Module, is_within

#: The driver, which performs the steps of all machines.
DRIVER = "protocols.conversation"


def machines_do_not_wait(module: Module) -> list[str]:
    """Find `await` in `protocols` outside the driver. An `async def` without code is a signature."""
    if module.package != "protocols" or is_within(module.name, DRIVER):
        return []
    return [
        f"{module.name}:{getattr(node, 'lineno', 0)} {what}"
        for node in module.nodes
        if (what := _waiting(node)) is not None
    ]


def _waiting(node: ast.AST) -> str | None:
    match node:
        case ast.AsyncFunctionDef(name=name) if not _is_a_signature(node):
            return f"has async def {name}"
        case ast.Await() | ast.AsyncFor() | ast.AsyncWith() | ast.comprehension(is_async=1):
            return "awaits"
    return None


def _is_a_signature(node: ast.AsyncFunctionDef) -> bool:
    return all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in node.body)
