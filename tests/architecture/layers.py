"""The floors of the house: what may import what of ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from tests.architecture.source import Module, is_within, type_lines


def _floors(text: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(word.strip("-") for word in line.split()) for line in text.strip().splitlines())


#: A line a floor, the ground first: what is named on it, a module or a folder, imports from the lines above
#: its own, and within its own folder. What is not listed in `protocols` is a scheme. `-`: the package.
LAYERS: Mapping[str, tuple[frozenset[str], ...]] = {
    "protocols": _floors("""
        constructors errors originals
        values
        brief charset connection filter headers instant location options
        entry
        reply
        scheme
        contract replay
        syntax
        other
        authority
        wire
        step
        conversation rehearsal socks
    """),
    "resolver": _floors("""
        loops
        clock codings events hosts http2 iri public_suffix registry settings terminal tracebacks version
        extraction portal prompts screen trace url
        gateways log reference
        policy
        batch disk environment news_server tunnels
        cookies gate ledger plan warc
        retrieval
        http_transport lists once representation tree
        blocking
        -
        adapters bulk testing window
        cli
        __main__
    """),
}

#: On how many floors `resolver` may stand.
MOST_FLOORS = 10

#: What of `resolver` may name what of a scheme's folder.
FACES: Mapping[str, str] = {
    "resolver.http_transport": "protocols.http",  # it is http, for programs that speak httpx
    "resolver.retrieval.terminal_connection": "protocols.telnet",  # it is telnet, for who sits at it
    "resolver.retrieval.terminal_shown": "protocols.telnet",  # the same
    "resolver.retrieval.terminal_session": "protocols.telnet",  # it is telnet, for programs that talk
    "resolver.retrieval.form": "protocols.gopher",  # Gopher+ alone has forms, for a person to fill in
    "resolver.cookies": "protocols.http",  # cookies are http's
    "resolver.representation": "protocols.http",  # it says in http's words what others have
    "resolver.tunnels": "protocols.http",  # a proxy of http is spoken to in http, whatever goes through it
}


def layers_go_one_way(module: Module) -> list[str]:
    """Imports lead downwards in `LAYERS`; a scheme never imports another one.

    A type checker may look upwards inside a package; a scheme's row names the gate that it is given.
    """
    found = []
    types_only = type_lines(module)
    for name, line in module.imports:
        imported, _, rest = name.partition(".")
        if imported not in LAYERS:
            continue
        place = rest.partition(".")[0]
        if imported != module.package:
            if module.package == "protocols":
                found.append(f"{module.name}:{line} imports {name}: protocols never imports resolver")
            continue
        if place == module.place or line in types_only:
            continue
        if _rank(imported, place) >= _rank(module.package, module.place):
            found.append(f"{module.name}:{line} imports {name}, which is not a layer below it")
    return found


def has_a_layer(module: Module) -> list[str]:
    """Every module of `resolver` stands in `LAYERS`; the place of a new one is a decision."""
    if module.package == "resolver" and _rank("resolver", module.place) == len(LAYERS["resolver"]):
        return [f"{module.name} has no place in tests/architecture/layers.py LAYERS"]
    return []


def _rank(package: str, place: str) -> int:
    for rank, layer in enumerate(LAYERS[package]):
        if place in layer:
            return rank
    return len(LAYERS[package])


def resolver_knows_no_scheme(module: Module) -> list[str]:
    """`resolver` reaches a scheme by its row, and imports nothing of its folder. The package itself tells
    type checkers where the URLs of each scheme have their class."""
    foundation = {place for floor in LAYERS["protocols"] for place in floor}
    return [
        f"{module.name}:{line} imports {name}, which is a scheme's own"
        for name, line in (module.run_imports if module.name == "resolver" else module.imports)
        if module.package == "resolver" and name.startswith("protocols.")
        if name.split(".")[1] not in foundation and not _is_its_face(module, name)
    ]


def _is_its_face(module: Module, name: str) -> bool:
    return any(is_within(module.name, face) and is_within(name, scheme) for face, scheme in FACES.items())


def floors(sources: Iterable[Module]) -> int:
    """How many floors the places of a package stand on, as the imports have it: a place stands one above the
    highest of those that it imports to run."""
    below: dict[str, set[str]] = {}
    for module in sources:
        imported = below.setdefault(module.place, set())
        imported |= {
            name.split(".")[1]
            for name, _ in module.run_imports
            if name.startswith(f"{module.package}.") and name.split(".")[1] != module.place
        }

    @cache
    def height(place: str) -> int:
        return 1 + max((height(each) for each in below.get(place, ())), default=0)

    return max(height(place) for place in below)
