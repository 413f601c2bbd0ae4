"""The house keeps its rules, and each rule is shown to find what breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from textwrap import dedent

import pytest

from resolver.registry import SCHEMES
from tests.architecture import adapters, allowed, layers, shape
from tests.architecture.exceptions import EXCEPTIONS
from tests.architecture.extras import lacking
from tests.architecture.layers import LAYERS, MOST_FLOORS, floors
from tests.architecture.planted import KEPT, PLANTED, Planted, Rule
from tests.architecture.source import Module, is_within, modules, read_once, words
from tools.requirements import read_pyproject

CHECKOUT = Path(__file__).parents[1]
SOURCES = modules(CHECKOUT, "protocols", "resolver")
NAMES = frozenset(module.name for module in SOURCES)
KINDS = {
    f"{rule.__name__}: {kind}": (rule, each)
    for rule, kinds in PLANTED.items()
    for kind, each in kinds.items()
}


@pytest.fixture(scope="module", autouse=True)
def _read() -> Iterator[None]:
    with read_once(SOURCES):
        yield


@pytest.mark.parametrize("rule", PLANTED, ids=lambda rule: rule.__name__)
def test_every_source_file_keeps_the_rule(rule: Rule) -> None:
    excepted = EXCEPTIONS.get(rule, {})
    assert SOURCES
    assert [finding for module in SOURCES if module.name not in excepted for finding in rule(module)] == []


@pytest.mark.parametrize(("rule", "planted"), KINDS.values(), ids=KINDS)
def test_a_rule_finds_what_breaks_it(rule: Rule, planted: Planted) -> None:
    findings = rule(Module(planted.name, planted.source))
    assert any(planted.words in finding for finding in findings), findings


def test_there_are_many_kinds_of_violations() -> None:
    """As many as were planted when eight of them were found."""
    assert len({(rule, planted.source, planted.name) for rule, planted in KINDS.values()}) >= 39


@pytest.mark.parametrize(("rule", "name", "source"), KEPT)
def test_a_rule_lets_pass_what_keeps_it(rule: Rule, name: str, source: str) -> None:
    assert rule(Module(name, source)) == []


@pytest.mark.parametrize(
    ("rule", "name"), [(rule, name) for rule, names in EXCEPTIONS.items() for name in names]
)
def test_an_exception_is_still_needed(rule: Rule, name: str) -> None:
    broken = any(module.name == name and rule(module) for module in SOURCES)
    assert broken, f"{name} keeps the rule: take it out of tests/architecture/exceptions.py"


@pytest.mark.parametrize(("rooms", "names"), allowed.ALLOWED)
def test_what_is_allowed_is_used(rooms: str, names: str) -> None:
    """Each name somewhere in the rooms of its row, and something of the row in each of them."""
    used = {room: _used_in(room) for room in rooms.split()}
    for name in names.split():
        assert any(is_within(use, name) for uses in used.values() for use in uses), name
    for room, uses in used.items():
        assert any(is_within(use, name) for use in uses for name in names.split()), room


def _used_in(room: str) -> set[str]:
    inside = [module for module in SOURCES if allowed.stands_in(module, room)]
    return {name for module in inside for name, _ in (*module.run_imports, *module.uses)}


@pytest.mark.parametrize(("verb", "adapter"), adapters.SERVED.items())
def test_a_verb_serves_its_adapter(verb: str, adapter: str) -> None:
    assert any(is_within(name, adapter) for name in _used_in(verb))


@pytest.mark.parametrize(("face", "scheme"), layers.FACES.items())
def test_a_face_of_a_scheme_is_one(face: str, scheme: str) -> None:
    assert any(is_within(name, scheme) for name in _used_in(face))


def test_resolver_stands_on_few_floors() -> None:
    """What was gained is kept: the bound follows the floors down to ten."""
    counted = floors(module for module in SOURCES if module.package == "resolver")
    assert max(10, counted) == MOST_FLOORS


def test_floors_are_counted_by_what_runs() -> None:
    house = [
        Module("resolver.one", "if TYPE_CHECKING:\n  import resolver.three"),
        Module("resolver.two.a", "from resolver.two import b\nfrom resolver import one"),
        Module("resolver.two.b", ""),
        Module("resolver.three", "def f():\n  from resolver.two.b import x"),
    ]
    assert [floors(house[:count]) for count in (1, 2, 3, 4)] == [1, 2, 2, 3]


def test_what_a_room_takes_comes_with_its_extra() -> None:
    metadata = read_pyproject()["project"]
    assert lacking(SOURCES, metadata["dependencies"], metadata["optional-dependencies"]) == []


def test_what_does_not_come_with_an_extra_is_found() -> None:
    house = [
        Module("resolver", "import Base"),
        Module("resolver.one", "import red.rose"),
        Module("resolver.two", "def f():\n  import green\n  from resolver.one import x"),
        Module("resolver.three", "from resolver import two\nif TYPE_CHECKING:\n  import blue"),
    ]
    extras = {"warm": ["red>=1"], "cold": ["green[more]~=1.0"]}
    rooms = {"warm": words("resolver.one"), "cold": words("resolver.two")}
    assert lacking(house, ["base>=1"], extras, rooms) == ["resolver.two takes red"]
    assert lacking(house[:2], [], extras, {}) == ["resolver takes base", "resolver.one takes base red"]


def test_the_tests_have_no_possessive_patterns_either() -> None:
    others = modules(CHECKOUT, "fixtures", "tests")
    assert [finding for module in others for finding in shape.patterns_let_go(module)] == []


def test_nine_functions_in_ten_are_under_thirty_lines() -> None:
    lengths = [lines for module in SOURCES for _, lines in shape.function_lengths(module)]
    assert sum(lines < 30 for lines in lengths) >= 0.9 * len(lengths)


def test_the_layers_name_modules_that_exist() -> None:
    listed = {
        f"{package}.{place}".rstrip(".") for package in LAYERS for layer in LAYERS[package] for place in layer
    }
    assert listed <= NAMES


def test_every_module_of_protocols_is_a_layer_or_a_scheme() -> None:
    foundation = {place for layer in LAYERS["protocols"] for place in layer}
    schemes = {row.partition(":")[0].removeprefix("protocols.").partition(".")[0] for row in SCHEMES.values()}
    places = {module.place for module in SOURCES if module.package == "protocols"} - {""}
    assert places <= foundation | schemes


def test_no_import_hides_a_cycle() -> None:
    """Counting the imports inside functions, no module leads back to itself."""
    assert _cycle(SOURCES) == []


def test_a_cycle_is_found() -> None:
    late = dedent("""
        def f():
            from resolver import two
    """)
    assert _cycle([Module("resolver.one", late), Module("resolver.two", "import resolver.one")]) != []


def _cycle(sources: list[Module]) -> list[str]:
    names = {module.name for module in sources}
    graph = {module.name: set(_imported(module, names)) - {module.name} for module in sources}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _imported(module: Module, names: set[str]) -> Iterator[str]:
    """The modules that are imported to run: not those that a type checker alone looks at."""
    for name, _ in module.run_imports:
        known = name if name in names else name.rpartition(".")[0]
        if known in names and not module.name.startswith(f"{known}."):  # its own package is there first
            yield known
