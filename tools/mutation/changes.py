"""All possible changes (mutations) of a module, each at one location.

Each change affects the behavior. The boundary of a comparison, a number (by one) or bytes of a protocol are
changed. A comparison is inverted, or a condition is negated. A keyword argument or a statement is removed.
Types, assertions, messages and docstrings are not changed, because tests should not check them.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

#: The replacements of each comparison operator.
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATIONS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


@dataclass(frozen=True)
class Change:
    """A replacement of the bytes from `start` to `end`; `line` is the line number of `start`.

    `was` and `becomes` are the texts before and after the change.
    """

    line: int
    start: int
    end: int
    was: str
    becomes: str

    def apply(self, source: str) -> str:
        octets = source.encode()
        return (octets[: self.start] + self.becomes.encode() + octets[self.end :]).decode()


#: A node and its replacement.
_Pair: TypeAlias = "tuple[ast.stmt | ast.expr, str]"


def find_changes(source: str) -> Iterator[Change]:
    """Yield all changes in source order; every changed module can be compiled."""
    octets = source.encode()
    lines = [0]
    for line in octets.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for node in _walk(ast.parse(source)):
        for place, becomes in _find_pairs(node):
            assert place.end_lineno is not None
            assert place.end_col_offset is not None
            start = lines[place.lineno - 1] + place.col_offset
            end = lines[place.end_lineno - 1] + place.end_col_offset
            yield Change(place.lineno, start, end, octets[start:end].decode(), becomes)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that may be changed, depth first."""
    match node:
        case ast.Assert() | ast.JoinedStr():
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child)


def _find_pairs(node: ast.AST) -> Iterator[_Pair]:
    for find in (_of_comparison, _of_operation, _of_condition, _of_constant, _of_call, _of_statement):
        yield from find(node)


def _change_copy(node: ast.expr, change: Callable[[ast.expr], None]) -> _Pair:
    other = copy.deepcopy(node)
    change(other)
    return node, f"({ast.unparse(other)})"


def _of_comparison(node: ast.AST) -> Iterator[_Pair]:
    if not isinstance(node, ast.Compare):
        return
    for index, operator in enumerate(node.ops):
        for other in _COMPARISONS[type(operator)]:

            def change(compare: ast.expr, index: int = index, other: type[ast.cmpop] = other) -> None:
                assert isinstance(compare, ast.Compare)
                compare.ops[index] = other()

            yield _change_copy(node, change)


def _of_operation(node: ast.AST) -> Iterator[_Pair]:
    match node:
        case ast.BinOp(op=operator) if type(operator) in _OPERATIONS:
            yield node, f"({ast.unparse(ast.BinOp(node.left, _OPERATIONS[type(operator)](), node.right))})"
        case ast.BoolOp(op=operator):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield node, f"({ast.unparse(ast.BoolOp(other, node.values))})"
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node, f"({ast.unparse(node.operand)})"


def _of_condition(node: ast.AST) -> Iterator[_Pair]:
    tests: list[ast.expr] = []
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            tests = [test]
        case ast.comprehension(ifs=ifs):
            tests = ifs
        case ast.match_case(guard=ast.expr() as guard):
            tests = [guard]
    for test in tests:
        if not isinstance(test, (ast.Compare, ast.UnaryOp)) and not _is_constant(test):
            yield test, f"(not ({ast.unparse(test)}))"


def _is_constant(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant)


def _of_constant(node: ast.AST) -> Iterator[_Pair]:
    if not isinstance(node, ast.Constant):
        return
    match node.value:
        case True | False:
            yield node, repr(not node.value)
        case int() | float():
            yield node, repr(node.value + 1)
        case bytes() if node.value:
            yield node, repr(bytes((node.value[0] ^ 1,)) + node.value[1:])


def _of_call(node: ast.AST) -> Iterator[_Pair]:
    """Yield a call with one keyword argument removed, for each keyword argument."""
    if not isinstance(node, ast.Call):
        return
    for index, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            rest = node.keywords[:index] + node.keywords[index + 1 :]
            yield node, ast.unparse(ast.Call(node.func, node.args, rest))


def _of_statement(node: ast.AST) -> Iterator[_Pair]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.AugAssign():
            yield node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "pass"
        case ast.Break():
            yield node, "continue"
        case ast.Continue():
            yield node, "break"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield node, "return None"
