"""Line ends are written by a single module.

Outside `protocols.wire` a CR byte may be compared with, searched for or removed. Any other use makes a line
end. So does the construction of a `Line`, also from another one, and a CR by its number. A literal with a NUL
and a CR is a set of forbidden bytes: no line holds a NUL, and `wire` refuses NUL.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from protocols.contract import Line
from tests.architecture.source import Module, words

WRITER = "protocols.wire"

#: Methods that search existing bytes for their arguments.
_READING = words(
    "compile count endswith find fullmatch index lstrip match partition removeprefix removesuffix rfind "
    "rindex rpartition rsplit rstrip search split startswith strip"
)

#: Functions that accept the class `Line` without constructing a line.
_LOOKING = words("builtins.isinstance builtins.issubclass typing.cast")

#: Modules that break the rule, and the reason.
MAKE_LINES: Mapping[str, str] = {
    "resolver.network.frames": "a part of an answer has octets, too, and leaves on no connection",
}

#: Modules that break the rule, and the reason.
END_LINES: Mapping[str, str] = {
    "protocols.ftp.transfer": "text that arrives: a CR is carried over to the next octets, CR NUL is a CR",
    "protocols.http.proxy_server": "text that arrives: the end of a head",
    "protocols.telnet.octets": "text that arrives, the same",
    "resolver.trees.lists": "text that arrives: a name may have a CR, written as an escape",
    "resolver.testing.contract.peers": "a server of the tests, which says what it likes",
    "resolver.testing.transcript": "what is written as an escape",
    "resolver.warc.group": "text that is read again",
    "resolver.warc.recorder": "text that is read again: how the first record of an archive begins",
    "resolver.warc.records": "text that arrives: how a record ends and the next one begins",
    "resolver.warc.writing": "lines of a file of ours, as its format has them",
    "resolver.terminal.text": "a CR at the end of what was shown is carried over to the next text",
}


def only_wire_makes_lines(module: Module) -> list[str]:
    """Find `Line` constructed outside `wire`: called, passed on, subclassed, or copied from another line."""
    if module.name == WRITER:
        return []
    return [
        f"{module.name}:{getattr(node, 'lineno', 0)} makes a Line"
        for node in module.nodes
        if _makes_line(module, node)
    ]


def _makes_line(module: Module, node: ast.AST) -> bool:
    match node:
        case ast.Call(func=function) if _is_line(module, function):
            return True
        case ast.Call(func=function, args=[ast.Starred()] | [_, _, *_]) if _is_class_of(module, function):
            return True
        case ast.Call(func=ast.Attribute(attr="_replace" | "_make"), keywords=changes) if any(
            change.arg in (None, *Line._fields) for change in changes
        ):
            return True
        case ast.Call(func=function, args=given, keywords=named) if module.origin(function) not in _LOOKING:
            return any(_is_line(module, each) for each in (*given, *(argument.value for argument in named)))
        case ast.Attribute(value=value):
            return _is_line(module, value)
        case ast.ClassDef(bases=bases):
            return any(_is_line(module, base) for base in bases)
    return False


def _is_line(module: Module, node: ast.expr) -> bool:
    """Return whether the node is the class `Line`, by any name, or an unresolved name `Line`."""
    origin = module.origin(node)
    if origin:
        return origin.startswith("protocols.") and origin.endswith(".Line")
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node).rpartition(".")[2] == "Line"


def _is_class_of(module: Module, function: ast.expr) -> bool:
    """Return whether the node is `type(line)` or `line.__class__`: the class of any object."""
    match function:
        case ast.Call(func=called):
            return module.origin(called) == "builtins.type"
        case ast.Attribute(attr="__class__"):
            return True
    return False


def only_wire_ends_lines(module: Module) -> list[str]:
    """Find each CR that is produced outside `wire`."""
    if module.name == WRITER:
        return []
    return [
        f"{module.name}:{node.lineno} holds a CR" for node in _literals_with_cr(module.tree, is_read=False)
    ]


def _literals_with_cr(node: ast.AST, *, is_read: bool) -> Iterator[ast.expr]:
    """Yield literals with a CR below `node` that are not only search arguments."""
    if _makes_control(node) or (isinstance(node, ast.Constant) and not is_read and _has_cr(node.value)):
        assert isinstance(node, ast.expr)
        yield node
    for child in ast.iter_child_nodes(node):
        if not _is_docstring(node, child):
            yield from _literals_with_cr(child, is_read=_reads(node, child, is_read=is_read))


def _has_cr(value: object) -> bool:
    octets = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return isinstance(octets, bytes) and b"\r" in octets and b"\0" not in octets


def _makes_control(node: ast.AST) -> bool:
    """Return whether a node is like `chr(13)`, `bytes([13, 10])`, `bytes((0x0D,))`, `bytes.fromhex("0d")`."""
    match node:
        case ast.Call(func=ast.Attribute(attr="fromhex" | "unhexlify"), args=[ast.Constant(value=digits)]):
            return "0d" in str(digits).lower()
        case ast.Call(func=ast.Name(id="bytearray" | "bytes" | "chr")):
            return any(isinstance(part, ast.Constant) and part.value == 13 for part in ast.walk(node))
    return False


def _is_docstring(node: ast.AST, child: ast.AST) -> bool:
    return isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
        isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
    )


def _reads(node: ast.AST, child: ast.AST, *, is_read: bool) -> bool:
    """Return whether the child is a search argument, given the position of its parent."""
    match node:
        case ast.Compare() | ast.MatchValue() | ast.Call(func=ast.Name(id="frozenset" | "position_of")):
            return True
        case ast.Call(func=ast.Attribute(attr=name)) if child is not node.func:
            return name in _READING or (name == "replace" and child in node.args[:1])
        case ast.Tuple() | ast.List() | ast.Set():
            return is_read
    return False
