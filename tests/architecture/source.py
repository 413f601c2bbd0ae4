"""A source file, and the meaning of the names in it.

A name is resolved through the module's own imports, wherever they are written: after `import trio as t`,
`from os import open as o` or `o = os.open` a rule sees `trio` and `os.open`. `getattr(os, "open")` is
`os.open`, `__import__("os")` is `os`, and an unbound name is of `builtins`.
"""

from __future__ import annotations

import ast
import builtins
import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path


def words(text: str) -> frozenset[str]:
    """Split a text at blanks into a set."""
    return frozenset(text.split())


def is_within(name: str, wanted: str) -> bool:
    return name == wanted or name.startswith(f"{wanted}.")


@dataclass(frozen=True)
class Module:
    """A source file. `name` is dotted; a package has the name of its folder."""

    name: str
    source: str
    is_package: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def package(self) -> str:
        """Return `protocols` or `resolver`."""
        return self.name.partition(".")[0]

    @property
    def place(self) -> str:
        """Return the module or folder directly below the package; empty for the package itself."""
        return self.name.partition(".")[2].partition(".")[0]

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Return the origin of each name bound by an import, or by an assignment of such a name."""
        found = {**dict.fromkeys(_bound_otherwise(self), ""), **dict(_bound_by_imports(self))}
        for node in self.nodes:  # outer ones first, so a name is known before it is passed on
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name() | ast.Attribute() as value):
                    found[name] = found.get(name) or _origin_of(value, found)
        return found

    def origin(self, node: ast.AST) -> str:
        """Return the dotted name of an expression; empty if it is not a name, or is local."""
        return _origin_of(node, self.names)

    @cached_property
    def uses(self) -> list[tuple[str, int]]:
        """Return all dotted names used in the module, each as long as written, and their lines."""
        return list(_uses(self, self.tree))

    @cached_property
    def imports(self) -> list[tuple[str, int]]:
        """Return all dotted names imported in the module, except for type checkers only, and their lines.

        `from a import b` counts as `a.b`: the caller must know whether b is a module.
        """
        types_only = _type_lines(self)
        return [found for found in _imports(self) if found[1] not in types_only]

    @cached_property
    def type_imports(self) -> list[tuple[str, int]]:
        """Return dotted names imported only for type checkers, and their lines."""
        types_only = _type_lines(self)
        return [found for found in _imports(self) if found[1] in types_only]

    def forget(self) -> None:
        """Drop the cached results, which can be computed again."""
        for name in vars(self).keys() - {field.name for field in fields(self)}:
            del vars(self)[name]


@contextmanager
def read_once(sources: Sequence[Module]) -> Iterator[None]:
    """Cache the results of the modules for the duration of the block.

    Trees of so many files are millions of objects. None of them is garbage in the block, so garbage
    collection is off.
    """
    gc.disable()
    try:
        yield
    finally:
        for module in sources:
            module.forget()
        gc.enable()


def modules(top: Path, *packages: str) -> list[Module]:
    """Return every source file of the packages below `top`."""
    found = []
    for path in sorted(path for package in packages for path in (top / package).rglob("*.py")):
        parts = path.relative_to(top).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found.append(Module(name, path.read_text(encoding="utf-8"), is_package))
    return found


def _imports(module: Module) -> Iterator[tuple[str, int]]:
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{_home(module, node)}.{alias.name}", node.lineno
        elif (named := _imported_by_name(module, node)) is not None:
            yield named


def _type_lines(module: Module) -> set[int]:
    """Return the lines of imports that only a type checker sees."""
    return {
        node.lineno
        for block in module.nodes
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in ast.walk(block)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }


def _home(module: Module, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    parts = module.name.split(".") if module.is_package else module.name.split(".")[:-1]
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _bound_by_imports(module: Module) -> Iterator[tuple[str, str]]:
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (top, top)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{_home(module, node)}.{alias.name}"


def _bound_otherwise(module: Module) -> Iterator[str]:
    """Yield the module's own names: variables, parameters, functions and classes.

    Members of a class are excluded, because only the class gives access to them.
    """
    inside = {id(part) for node in module.nodes if isinstance(node, ast.ClassDef) for part in _members(node)}
    for node in module.nodes:
        if id(node) in inside:
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


def _members(node: ast.ClassDef) -> Iterator[ast.AST]:
    for member in node.body:
        match member:
            case ast.Assign(targets=targets):
                yield from targets
            case ast.AnnAssign(target=target):
                yield target
            case _:
                yield member


#: Functions that import the module named by their first argument.
_IMPORTERS = words("builtins.__import__ importlib.__import__ importlib.import_module")


def _imported_by_name(module: Module, node: ast.AST) -> tuple[str, int] | None:
    match node:
        case ast.Call(args=[ast.Constant(value=str(name)), *_]) if module.origin(node.func) in _IMPORTERS:
            return name, node.lineno
    return None


def _origin_of(node: ast.AST, names: Mapping[str, str]) -> str:
    match node:
        case ast.Name(id=name):
            return names.get(name, f"builtins.{name}" if hasattr(builtins, name) else "")
        case ast.Attribute(value=value, attr=name):
            return _joined(_origin_of(value, names), name)
        case ast.Call(args=[ast.Constant(value=str(name)), *_]) if _origin_of(node.func, names) in _IMPORTERS:
            return name
        case ast.Call(args=[value, ast.Constant(value=str(name)), *_]):
            if _origin_of(node.func, names) == "builtins.getattr":
                return _joined(_origin_of(value, names), name)
    return ""


def _joined(before: str, name: str) -> str:
    return before and f"{before}.{name}"


def _uses(module: Module, node: ast.AST) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.expr) and not _is_stored(node) and (origin := module.origin(node)):
        yield origin, node.lineno
        # The first argument is a part of the name.
        inside: list[ast.AST] = [*node.args[1:]] if isinstance(node, ast.Call) else []
    else:
        inside = list(ast.iter_child_nodes(node))
    for child in inside:
        yield from _uses(module, child)


def _is_stored(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
