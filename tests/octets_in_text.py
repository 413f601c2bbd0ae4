"""A mypy plugin that rejects secrets, bytes and containers in text.

`Masked(text)` is a claim that a text contains no secret. Outside the modules that mask, the text must be
composed of literals, numbers, members of enumerations and masked texts.

Bytes and containers would show as Python literals: `f"{name!r}"` of bytes shows `b'name'`, and of a dict
`{'a': 1}`. `str` values may be quoted with `!r`. Only the program is checked, not its tests.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.checker import TypeChecker
from mypy.errorcodes import ErrorCode
from mypy.nodes import (
    CallExpr,
    ConditionalExpr,
    Expression,
    FloatExpr,
    IndexExpr,
    IntExpr,
    ListExpr,
    MemberExpr,
    OpExpr,
    StrExpr,
)
from mypy.plugin import FunctionContext, MethodContext, Plugin
from mypy.types import Instance, LiteralType, NoneType, TupleType, Type, UnionType, get_proper_type

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
_MASKED = "protocols.text.Masked"
#: The modules that mask: only they may call `Masked` with any text.
MAKERS = frozenset(
    {
        "protocols.errors",
        "protocols.location",
        "protocols.text",
        "resolver.network.mask",
        "resolver.url.parsing",
    }
)
_WITHOUT_SECRETS = (_MASKED, "builtins.int", "builtins.float", "datetime.datetime")
_UNMASKED = ErrorCode("unmasked", "Text that may contain a secret", "General")
_CODE = ErrorCode("octets-in-text", "Octets in a text as Python writes them", "General")


class OctetsInText(Plugin):
    """The plugin; mypy treats an f-string as calls of `str.format` and `str.join`."""

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return _look if fullname == "builtins.str.format" else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        if fullname == _MASKED:
            return _check_masked
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


def _check_masked(context: FunctionContext) -> Type:
    checker = context.api
    assert isinstance(checker, TypeChecker)
    name = checker.tree.fullname
    if name.partition(".")[0] in _OURS and not name.startswith(_FOR_TESTS) and name not in MAKERS:
        for text in (each for group in context.args for each in group):
            if not _is_without_secrets(text, checker):
                words = "text of unknown origin as Masked: use redact, Mask or own_text for its parts"
                context.api.fail(words, text, code=_UNMASKED)
    return context.default_return_type


def _is_without_secrets(text: Expression, checker: TypeChecker) -> bool:
    """Return whether all parts of a composed text are literals, numbers, enumerations or masked."""
    match text:
        case StrExpr() | IntExpr() | FloatExpr():
            parts: list[Expression] = []
        case ConditionalExpr(if_expr=first, else_expr=second) | OpExpr(left=first, right=second):
            parts = [first, second]
        case CallExpr(callee=MemberExpr(expr=StrExpr()), args=parts) | ListExpr(items=parts):
            pass
        case IndexExpr(base=whole) | CallExpr(callee=MemberExpr(expr=whole)) if _is_masked(whole, checker):
            parts = [] if isinstance(text, IndexExpr) else text.args
        case _:
            return _has_no_secret(checker.lookup_type(text))
    return all(_is_without_secrets(part, checker) for part in parts)


def _is_masked(text: Expression, checker: TypeChecker) -> bool:
    proper = get_proper_type(checker.lookup_type(text)) if checker.has_type(text) else None
    return isinstance(proper, Instance) and proper.type.has_base(_MASKED)


def _has_no_secret(shown: Type) -> bool:
    proper = get_proper_type(shown)
    match proper:
        case UnionType():
            return all(_has_no_secret(item) for item in proper.items)
        case NoneType() | LiteralType():
            return True
        case Instance() if proper.type.is_enum or any(map(proper.type.has_base, _WITHOUT_SECRETS)):
            return True
        case Instance(args=[item, *_]) if proper.type.has_base("typing.Iterable"):
            return _has_no_secret(item)
        case Instance():
            return proper.last_known_value is not None
    return False


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
