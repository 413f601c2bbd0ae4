"""A mypy plugin that rejects bytes and containers in text, which would show as Python literals.

`f"{name!r}"` of bytes shows `b'name'`, and of a dict `{'a': 1}`: these are not messages for users. `str`
values may be quoted with `!r`. Only the program is checked, not its tests.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.checker import TypeChecker
from mypy.errorcodes import ErrorCode
from mypy.plugin import FunctionContext, MethodContext, Plugin
from mypy.types import Instance, TupleType, Type, UnionType, get_proper_type

_OURS = ("protocols", "resolver")
#: The messages of `resolver.testing` are for authors of tests.
_FOR_TESTS = "resolver.testing."
_PYTHON_ONLY = (
    "builtins.bytes",
    "builtins.bytearray",
    "builtins.memoryview",
    "builtins.dict",
    "builtins.list",
    "builtins.tuple",
    "builtins.set",
    "builtins.frozenset",
    "typing.Sequence",
    "typing.Mapping",
)
_CODE = ErrorCode("octets-in-text", "Octets in a text as Python writes them", "General")


class OctetsInText(Plugin):
    """The plugin; mypy treats an f-string as calls of `str.format` and `str.join`."""

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return _look if fullname == "builtins.str.format" else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        return _look if fullname in ("builtins.repr", "builtins.ascii") else None


def _look(context: MethodContext | FunctionContext) -> Type:
    checker = context.api
    assert isinstance(checker, TypeChecker)
    name = checker.tree.fullname
    if name.partition(".")[0] in _OURS and not name.startswith(_FOR_TESTS):
        for shown in (each for group in context.arg_types for each in group):
            for found in _python_only(shown):
                context.api.fail(f"{found} in a text: put it into words", context.context, code=_CODE)
    return context.default_return_type


def _python_only(shown: Type) -> list[str]:
    proper = get_proper_type(shown)
    match proper:
        case UnionType():
            return [name for item in proper.items for name in _python_only(item)]
        case TupleType():
            return ["a tuple"]
        case Instance() if proper.type.has_base("builtins.str"):
            return []
        case Instance() if any(proper.type.has_base(name) for name in _PYTHON_ONLY):
            return [proper.type.name]
    return []


def plugin(_version: str) -> type[Plugin]:
    return OctetsInText
