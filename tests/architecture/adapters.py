"""An adapter stands outside: it has the public names, and nobody has it.

So it can do no more than any program can, and the house runs without the libraries that adapters are for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import resolver
from tests.architecture.source import Module, is_within

ADAPTERS = "resolver.adapters"

#: The verbs that serve one, each by its own module.
SERVED: Mapping[str, str] = {"resolver.cli.agents": "resolver.adapters.mcp"}


def adapters_use_what_is_public(module: Module) -> list[str]:
    """Of ours an adapter imports `resolver` alone, for types too, and uses what that says it has."""
    own = adapter_of(module.name)
    if own is None:
        return []
    found = [
        f"{module.name}:{line} imports {name}: an adapter has public names alone"
        for name, line in module.imports
        if _is_ours(name) and name != "resolver" and not is_within(name, own)
    ]
    found += [
        f"{module.name}:{line} uses {name}, which is not public"
        for name, line in module.uses
        if _is_ours(name) and not is_within(name, own) and not _is_public(name)
    ]
    return found


def nobody_imports_an_adapter(module: Module) -> list[str]:
    """But an adapter its own modules, and a verb the one that it serves."""
    own = adapter_of(module.name)
    return [
        f"{module.name}:{line} imports {name}: nothing of ours needs an adapter"
        for name, line in module.imports
        if is_within(name, ADAPTERS) and name != ADAPTERS
        if not any(is_within(name, each) for each in _its_own(module, own))
    ]


def _its_own(module: Module, own: str | None) -> Iterator[str]:
    if own is not None:
        yield own
    if module.name in SERVED:
        yield SERVED[module.name]


def adapter_of(name: str) -> str | None:
    """`resolver.adapters.x` for what is in it; None for what is in no adapter."""
    if not is_within(name, ADAPTERS) or name == ADAPTERS:
        return None
    return ".".join(name.split(".")[:3])


def _is_ours(name: str) -> bool:
    return is_within(name, "resolver") or is_within(name, "protocols")


def _is_public(name: str) -> bool:
    package, _, rest = name.partition(".")
    return package == "resolver" and (not rest or rest.partition(".")[0] in [*resolver.__all__, "__all__"])
