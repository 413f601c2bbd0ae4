"""The rule that one module ends lines, as functions like those of `architecture`.

Outside `protocols.wire` an octet CR may be compared with, searched for or taken off. Whatever else is
done with one makes a line end; so does making a `Line`, and so does a CR by its number. A literal with
a NUL beside the CR is a set of forbidden octets: no line holds a NUL, and `wire` lets none pass.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture import Module, words

WRITER = "protocols.wire"

#: Methods whose arguments are looked for in octets that are there already.
_READING = words(
    "compile count endswith find fullmatch index lstrip match partition removeprefix removesuffix rfind "
    "rindex rpartition rsplit rstrip search split startswith strip"
)

#: Modules that hold a CR for another purpose, and which.
HOLDERS: dict[str, str] = {
    "protocols.ftp.text": "text that arrives: a CR is carried over to the next octets, CR NUL is a CR",
    "resolver.terminal": "a CR at the end of what was shown is carried over to the next text",
}


def only_wire_makes_lines(module: Module) -> list[str]:
    """`Line` is constructed in `wire` alone."""
    if module.name == WRITER:
        return []
    return [
        f"{module.name}:{node.lineno} makes a Line"
        for node in module.nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Line"
    ]


def only_wire_ends_lines(module: Module) -> list[str]:
    """No CR is produced outside `wire`."""
    if module.name == WRITER or module.name in HOLDERS:
        return []
    return [f"{module.name}:{node.lineno} holds a CR" for node in _produced(module.tree, is_read=False)]


def _produced(node: ast.AST, *, is_read: bool) -> Iterator[ast.expr]:
    """Literals with a CR below `node` that are not merely looked for."""
    if _makes_control(node) or (isinstance(node, ast.Constant) and not is_read and _has_cr(node.value)):
        assert isinstance(node, ast.expr)
        yield node
    for child in ast.iter_child_nodes(node):
        if not _is_docstring(node, child):
            yield from _produced(child, is_read=_reads(node, child, is_read=is_read))


def _has_cr(value: object) -> bool:
    octets = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return isinstance(octets, bytes) and b"\r" in octets and b"\0" not in octets


def _makes_control(node: ast.AST) -> bool:
    """`chr(13)`, `bytes([13, 10])`, `bytes((0x0D,))`."""
    match node:
        case ast.Call(func=ast.Name(id="bytearray" | "bytes" | "chr")):
            return any(isinstance(part, ast.Constant) and part.value == 13 for part in ast.walk(node))
    return False


def _is_docstring(node: ast.AST, child: ast.AST) -> bool:
    return isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
        isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
    )


def _reads(node: ast.AST, child: ast.AST, *, is_read: bool) -> bool:
    """Is the child looked for, given where its parent stands?"""
    match node:
        case ast.Compare() | ast.MatchValue() | ast.Call(func=ast.Name(id="frozenset" | "position_of")):
            return True
        case ast.Call(func=ast.Attribute(attr=name)) if child is not node.func:
            return name in _READING or (name == "replace" and child in node.args[:1])
        case ast.Tuple() | ast.List() | ast.Set():
            return is_read
    return False
