"""The house keeps its rules, and each rule is shown to find what breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from textwrap import dedent

import pytest

from resolver.registry import SCHEMES
from tests import architecture, line_ends
from tests.architecture import LAYERS, Module, function_lengths, imports, modules, type_lines

CHECKOUT = Path(__file__).parents[1]
SOURCES = modules(CHECKOUT, "protocols", "resolver")
NAMES = frozenset(module.name for module in SOURCES)

#: A rule, and for each a module that breaks it: its name, its source, and words of the finding.
BROKEN: list[tuple[Callable[[Module], list[str]], str, str, str]] = [
    (
        architecture.layers_go_one_way,
        "protocols.wire",
        "from resolver import policy",
        "never imports resolver",
    ),
    (
        architecture.layers_go_one_way,
        "protocols.wire",
        "if TYPE_CHECKING:\n  import resolver.url",
        "never imports",
    ),
    (architecture.layers_go_one_way, "protocols.wire", "import protocols.conversation", "not a layer below"),
    (architecture.layers_go_one_way, "protocols.contract", "from protocols import wire", "not a layer below"),
    (architecture.layers_go_one_way, "protocols.contract", "from .wire import Buffer", "not a layer below"),
    (
        architecture.layers_go_one_way,
        "protocols.body",
        "from protocols.conversation import Say",
        "not a layer",
    ),
    (
        architecture.layers_go_one_way,
        "protocols.ftp",
        "from protocols.gopher import url",
        "not a layer below",
    ),
    (architecture.layers_go_one_way, "protocols.ftp.url", "import protocols.gopher.url", "not a layer below"),
    (
        architecture.layers_go_one_way,
        "protocols.wire",
        "def f():\n  import protocols.ftp",
        "not a layer below",
    ),
    (
        architecture.layers_go_one_way,
        "resolver.registry",
        "from resolver.url import parse",
        "not a layer below",
    ),
    (architecture.layers_go_one_way, "resolver.policy.ports", "import resolver.gate", "not a layer below"),
    (architecture.layers_go_one_way, "resolver.gate.stream", "import resolver.session", "not a layer below"),
    (architecture.layers_go_one_way, "resolver.session", "from resolver.cli import streams", "not a layer"),
    (architecture.has_a_layer, "resolver.novelty", "", "no place"),
    (architecture.protocols_are_pure, "protocols.ftp", "import trio", "imports trio"),
    (
        architecture.protocols_are_pure,
        "protocols.ftp",
        "from socket import create_connection",
        "imports socket",
    ),
    (architecture.protocols_are_pure, "protocols.ftp", "def f():\n  import time", "imports time"),
    (architecture.protocols_are_pure, "protocols.ftp", "import logging", "imports logging"),
    (architecture.only_the_gate_has_sockets, "resolver.retrieval", "import socket", "imports socket"),
    (
        architecture.only_the_gate_has_sockets,
        "resolver.cli.online",
        "from ssl import SSLContext",
        "imports ssl",
    ),
    (
        architecture.only_the_gate_has_sockets,
        "resolver.gate",
        "import urllib.request",
        "imports urllib.request",
    ),
    (architecture.only_the_gate_has_sockets, "resolver.gate", "import asyncio", "imports asyncio"),
    (architecture.only_the_gate_has_sockets, "resolver.session", "trio.socket.socket()", "uses trio.socket"),
    (
        architecture.only_the_gate_has_sockets,
        "resolver.session",
        "from trio import open_tcp_stream",
        "uses trio.open",
    ),
    (
        architecture.only_the_gate_has_sockets,
        "resolver.session",
        "await trio.open_tcp_stream(h, 1)",
        "uses trio.open",
    ),
    (
        architecture.only_the_gate_has_sockets,
        "resolver.session",
        "httpx.AsyncClient()",
        "uses httpx.AsyncClient",
    ),
    (architecture.only_the_gate_opens_files, "resolver.session", "open(name)", "calls open"),
    (architecture.only_the_gate_opens_files, "resolver.session", "os.open(name, 0)", "calls os.open"),
    (architecture.only_the_gate_opens_files, "resolver.session", "Path(name).read_bytes()", "read_bytes"),
    (architecture.only_the_gate_opens_files, "resolver.session", "path.open('rb')", "calls path.open"),
    (architecture.only_the_gate_opens_files, "resolver.session", "import tempfile", "imports tempfile"),
    (architecture.files_are_short, "resolver.session", "x = 1\n" * 401, "401 lines"),
    (architecture.functions_are_short, "resolver.session", "def f():\n" + "  x = 1\n" * 60, "61 lines"),
    (architecture.names_say_something, "resolver.utils", "", "utils"),
    (architecture.names_say_something, "protocols.ftp.ftp_base", "", "base"),
    (architecture.states_its_rule, "resolver.session", "x = 1", "no docstring"),
    (architecture.takes_no_keywords_unseen, "resolver.session", "async def f(**kwargs): ...", "**kwargs"),
    (
        architecture.catches_what_it_means,
        "resolver.session",
        "try: x\nexcept Exception: y",
        "catches Exception",
    ),
    (architecture.catches_what_it_means, "resolver.session", "try: x\nexcept: raise", "catches everything"),
    (
        architecture.catches_what_it_means,
        "resolver.session",
        "try: x\nexcept BaseException: y",
        "catches Base",
    ),
    (line_ends.only_wire_makes_lines, "protocols.ftp", "Line(b'', b'')", "makes a Line"),
    (line_ends.only_wire_makes_lines, "protocols.ftp", "contract.Line(b'', b'')", "makes a Line"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"x = word + b'\r\n'", "holds a CR"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"CRLF = '\r\n'", "holds a CR"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"b'\r\n'.join(words)", "holds a CR"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"f'{word}\r\n'", "holds a CR"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"text.replace('\n', '\r\n')", "holds a CR"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"send(b'QUIT\x0d\x0a')", "holds a CR"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", "bytes([13, 10])", "holds a CR"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", "chr(0x0D)", "holds a CR"),
]

#: What the rules must let pass.
KEPT: list[tuple[Callable[[Module], list[str]], str, str]] = [
    (architecture.layers_go_one_way, "protocols.ftp.url", "from protocols.ftp import reply"),
    (architecture.layers_go_one_way, "protocols.ftp.url", "from protocols.wire import Buffer"),
    (
        architecture.layers_go_one_way,
        "protocols.scheme",
        "if TYPE_CHECKING:\n  from protocols.contract import Gate",
    ),
    (architecture.layers_go_one_way, "resolver.cli.online", "from resolver.session import Resolver"),
    (architecture.protocols_are_pure, "protocols.http", "import h11"),
    (architecture.only_the_gate_has_sockets, "resolver.gate.stream", "import socket\nimport ssl"),
    (architecture.only_the_gate_has_sockets, "resolver.session", "import trio\ntrio.Lock()"),
    (architecture.only_the_gate_opens_files, "resolver.gate.disk", "open(name)"),
    (architecture.only_the_gate_opens_files, "resolver.retrieval", "scheme.open(url, gate)"),
    (architecture.catches_what_it_means, "resolver.session", "try: x\nexcept BaseException:\n  y\n  raise"),
    (line_ends.only_wire_ends_lines, "protocols.wire", r"_CRLF = b'\r\n'"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"line.endswith((b'\r\n', b'\n'))"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"b'\r' in line or line == b'\r\n'"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"text.replace('\r\n', '\n')"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"FORBIDDEN = b'\0\r\n'"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", r"re.compile(b'\r\n')"),
    (line_ends.only_wire_ends_lines, "protocols.ftp", "def f():\n  'ends at \\r\\n'"),
]

RULES = list(dict.fromkeys(rule for rule, *_ in BROKEN))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_source_file_keeps_the_rule(rule: Callable[[Module], list[str]]) -> None:
    assert SOURCES
    assert [finding for module in SOURCES for finding in rule(module)] == []


@pytest.mark.parametrize(("rule", "name", "source", "words"), BROKEN)
def test_a_rule_finds_what_breaks_it(
    rule: Callable[[Module], list[str]], name: str, source: str, words: str
) -> None:
    findings = rule(Module(name, source))
    assert findings
    assert all(words in finding for finding in findings)


@pytest.mark.parametrize(("rule", "name", "source"), KEPT)
def test_a_rule_lets_pass_what_keeps_it(rule: Callable[[Module], list[str]], name: str, source: str) -> None:
    assert rule(Module(name, source)) == []


def test_nine_functions_in_ten_are_under_thirty_lines() -> None:
    lengths = [lines for module in SOURCES for _, lines in function_lengths(module)]
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


def test_exceptions_to_the_rules_are_still_needed() -> None:
    for name in line_ends.HOLDERS:
        module = next(module for module in SOURCES if module.name == name)
        assert line_ends.only_wire_ends_lines(Module("protocols.pretended", module.source)), name
    for name in architecture.OPENS_FILES:
        module = next(module for module in SOURCES if module.name == name)
        assert architecture.only_the_gate_opens_files(Module("resolver.pretended", module.source)), name


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
    checked = type_lines(module)
    for name, line in imports(module):
        if line not in checked:
            known = name if name in names else name.rpartition(".")[0]
            if known in names and not module.name.startswith(f"{known}."):  # its own package is there first
                yield known
