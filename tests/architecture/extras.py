"""The imports of a package come with its extra: `url-resolver[bulk]` is enough for `resolver.bulk`.

All other modules can be imported without an extra. If a function of theirs imports an optional library, it
reports the missing library and the extra that installs it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping

from tests.architecture.source import Module, is_within, words

#: The modules of each extra. Their late imports must be installed with the extra, too.
ROOMS: Mapping[str, frozenset[str]] = {
    "aiohttp": words("resolver.adapters.guard.aiohttp"),
    "bulk": words("resolver.bulk resolver.cli.bulk resolver.cli.cluster"),
    "fsspec": words("resolver.adapters.fsspec"),
    "html": words("protocols.http.index.html"),
    "http2": words("resolver.network.frames"),
    "mcp": words("resolver.adapters.mcp"),
    "requests": words(
        "resolver.adapters.requests resolver.adapters.guard.requests resolver.adapters.guard.urllib3"
    ),
    "testing": words("resolver.testing"),
    "web": words("resolver.web"),
}

#: The modules of libraries without an extra: niquests replaces urllib3 in an environment that installs it.
WITHOUT_EXTRA = words("resolver.adapters.guard.niquests")

#: Libraries that another library always installs.
_PARTS = {
    "distributed": words("dask"),
    "h2": words("hpack"),
    "jinja2": words("markupsafe"),
    "mcp": words("mcp_types starlette"),
    "requests": words("urllib3"),
}


def missing_requirements(
    sources: Iterable[Module],
    base: Iterable[str],
    extras: Mapping[str, Iterable[str]],
    rooms: Mapping[str, frozenset[str]] = ROOMS,
) -> list[str]:
    """Return modules that import libraries outside `base` and their extra, and the libraries."""
    modules = {module.name: module for module in sources}
    house = {name: set(_imported_first(module)) for name, module in modules.items()}
    always = _libraries_of(base)
    found = []
    for name, module in modules.items():
        if name in WITHOUT_EXTRA:
            continue
        extra = next((extra for extra, places in rooms.items() if _is_in(name, places)), None)
        brought = always if extra is None else always | _libraries_of(extras[extra])
        taken = house[name] if extra is None else {imported for imported, _ in module.imports}
        if more := set(_libraries(_transitive_imports({name, *taken}, house))) - brought:
            found.append(f"{name} takes {' '.join(sorted(more))}")
    return found


def _libraries_of(requirements: Iterable[str]) -> frozenset[str]:
    """Return the libraries by requirement name, which is also the import name."""
    names = frozenset(re.split(r"[^\w-]", text, maxsplit=1)[0].lower() for text in requirements)
    return names.union(*(_PARTS[name] for name in names & _PARTS.keys()))


def _is_in(name: str, places: frozenset[str]) -> bool:
    return any(is_within(name, place) for place in places)


def _imported_first(module: Module) -> Iterator[str]:
    """Return the imports that run when the module is imported."""
    late = {
        part.lineno
        for node in module.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for part in ast.walk(node)
        if isinstance(part, ast.stmt)
    }
    return (name for name, line in module.imports if line not in late)


def _transitive_imports(names: Iterable[str], house: Mapping[str, set[str]]) -> set[str]:
    """Return all transitive imports of these modules, with the packages around each."""
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting |= house.get(each, set())
            waiting |= {each.rpartition(".")[0]} - {""}
    return found


def _libraries(imported: Iterable[str]) -> Iterator[str]:
    for name in imported:
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("protocols", "resolver"):
            yield top.lower()
