"""The rules of the house as functions: each looks at one module and says what breaks it.

`test_architecture` runs them over every source file and shows for each that it can find something.
A rule returns sentences, one a violation; none means that the module keeps it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


def words(text: str) -> frozenset[str]:
    """A set out of words with blanks between."""
    return frozenset(text.split())


#: Each module may import modules of the lines above its own, and its own folder. What is not listed
#: in `protocols` is a scheme.
LAYERS: dict[str, tuple[frozenset[str], ...]] = {
    "protocols": (
        frozenset({"errors"}),
        frozenset({"connection", "instant", "location", "options"}),
        frozenset({"scheme"}),
        frozenset({"contract"}),
        frozenset({"syntax"}),
        frozenset({"host", "other"}),
        frozenset({"authority"}),
        frozenset({"wire"}),
        frozenset({"step"}),
        frozenset({"conversation", "body"}),
    ),
    "resolver": (
        frozenset({"version", "events", "terminal", "iri", "checksum", "clock", "keep"}),
        frozenset({"registry", "records"}),
        frozenset({"url", "response", "listing"}),
        frozenset({"extraction", "gateways", "reference"}),
        frozenset({"policy"}),
        frozenset({"naming", "news_server", "hops", "codings", "http2", "credentials"}),
        frozenset({"plan", "gate"}),
        frozenset({"watching"}),
        frozenset({"live"}),
        frozenset({"retrieval"}),
        frozenset({"tries"}),
        frozenset({"proof"}),
        frozenset({"saving"}),
        frozenset({"session", "http_transport"}),
        frozenset({"once"}),
        frozenset({""}),  # resolver/__init__.py: everything public
        frozenset({"cli"}),
    ),
}

#: What knows no policy, no clock and no socket does without these, though they are standard library.
NOT_IN_PROTOCOLS = words(
    "asyncio email http io logging os pathlib random secrets select selectors shutil signal socket "
    "socketserver ssl subprocess tempfile threading time urllib"
)
#: Other ways to the network, and ways to other programs. Only the gate has a socket; nobody the rest.
NETWORK = frozenset({"fcntl", "select", "selectors", "socket", "ssl"})
NOWHERE = words(
    "asyncio ftplib http.client imaplib multiprocessing poplib pty smtplib socketserver subprocess "
    "telnetlib nntplib urllib.request xmlrpc"
)
TRIO_DOORS = words(
    "Path SSLListener SSLStream SocketListener SocketStream lowlevel.open_process open_file "
    "open_process open_ssl_over_tcp_stream open_tcp_listeners open_tcp_stream open_unix_socket "
    "run_process serve_tcp socket"
)
HTTPX_DOORS = words(
    "AsyncClient AsyncHTTPTransport Client HTTPTransport delete get head options patch post put request "
    "stream"
)
FILE_CALLS = words(
    "fdopen link listdir makedirs mkdir mkfifo open read_bytes read_text remove rename rmdir scandir "
    "symlink symlink_to touch truncate unlink write_bytes write_text"
)
#: What may open a file beside the gate: files that the caller named, never a URL or a peer.
OPENS_FILES = {
    "resolver.cli.streams": "standard streams, LIST, password and trace files of the command line",
    "resolver.news_server": "the system's setting of a news server",
}

#: Words that say nothing about what belongs in a file.
EMPTY_NAMES = words("base common helper helpers misc util utils")

MOST_LINES = 400
LONGEST_FUNCTION = 60


@dataclass(frozen=True)
class Module:
    """One source file. `name` is dotted; a package has the name of its folder."""

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
        """`protocols` or `resolver`."""
        return self.name.partition(".")[0]

    @property
    def place(self) -> str:
        """The module or folder directly below the package; empty for the package itself."""
        return self.name.partition(".")[2].partition(".")[0]


def modules(top: Path, *packages: str) -> list[Module]:
    """Every source file of the packages below `top`."""
    found = []
    for path in sorted(path for package in packages for path in (top / package).rglob("*.py")):
        parts = path.relative_to(top).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found.append(Module(name, path.read_text(encoding="utf-8"), is_package))
    return found


def imports(module: Module) -> Iterator[tuple[str, int]]:
    """Dotted names that are imported anywhere in the module, and the line.

    `from a import b` counts as `a.b`: whether b is a module is for the caller to know.
    """
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{_origin(module, node)}.{alias.name}", node.lineno


def type_lines(module: Module) -> set[int]:
    """Lines of imports that only a type checker sees."""
    return {
        node.lineno
        for block in module.nodes
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }


def _origin(module: Module, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    parts = module.name.split(".") if module.is_package else module.name.split(".")[:-1]
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _is_within(name: str, wanted: str) -> bool:
    return name == wanted or name.startswith(f"{wanted}.")


# -- imports


def layers_go_one_way(module: Module) -> list[str]:
    """Imports lead downwards in `LAYERS`; a scheme never imports another one.

    A type checker may look upwards inside a package; a scheme's row names the gate that it is given.
    """
    found = []
    types_only = type_lines(module)
    for name, line in imports(module):
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


def _rank(package: str, place: str) -> int:
    for rank, layer in enumerate(LAYERS[package]):
        if place in layer:
            return rank
    return len(LAYERS[package])


def has_a_layer(module: Module) -> list[str]:
    """Every module of `resolver` stands in `LAYERS`; the place of a new one is a decision."""
    if module.package == "resolver" and _rank("resolver", module.place) == len(LAYERS["resolver"]):
        return [f"{module.name} has no place in tests/architecture.py LAYERS"]
    return []


def protocols_are_pure(module: Module) -> list[str]:
    """`protocols` imports the standard library, without what does I/O or reads a clock, and h11."""
    if module.package != "protocols":
        return []
    found = []
    for name, line in imports(module):
        top = name.partition(".")[0]
        if top in NOT_IN_PROTOCOLS or top not in {*sys.stdlib_module_names, "h11", "protocols"}:
            found.append(f"{module.name}:{line} imports {name}")
    return found


# -- doors


def only_the_gate_has_sockets(module: Module) -> list[str]:
    """Sockets and TLS are the gate's; other clients and other programs are nobody's."""
    found = []
    for name, line in imports(module):
        banned = set(NOWHERE) if _is_the_gate(module) else NOWHERE | NETWORK
        found += [f"{module.name}:{line} imports {name}" for word in banned if _is_within(name, word)]
    doors = [] if _is_the_gate(module) else [("trio", TRIO_DOORS)]
    for top, names in [*doors, ("httpx", HTTPX_DOORS)]:
        used = {
            *_attributes(module, top),
            *((n.partition(".")[2], at) for n, at in imports(module) if _is_within(n, top)),
        }
        found += [f"{module.name}:{at} uses {top}.{name}" for name, at in sorted(used) if name in names]
    return found


def only_the_gate_opens_files(module: Module) -> list[str]:
    """Files are opened, made and removed by the gate, and by the modules in `OPENS_FILES`."""
    if _is_the_gate(module) or module.name in OPENS_FILES:
        return []
    found = []
    for node in module.nodes:
        if isinstance(node, ast.Call) and (name := _file_call(node.func)) is not None:
            found.append(f"{module.name}:{node.lineno} calls {name}")
    for name, line in imports(module):
        if _is_within(name, "tempfile") or _is_within(name, "shutil"):
            found.append(f"{module.name}:{line} imports {name}")
    return found


def _file_call(function: ast.expr) -> str | None:
    """The name under which a call reaches a file, or None. `scheme.open` resolves a URL, and `streams`
    is in `OPENS_FILES`."""
    match function:
        case ast.Name(id="open"):
            return "open"
        case ast.Attribute(value=ast.Name(id="scheme" | "streams")):
            return None
        case ast.Attribute(attr=name) if name in FILE_CALLS:
            return ast.unparse(function)
    return None


def _is_the_gate(module: Module) -> bool:
    return _is_within(module.name, "resolver.gate")


def _attributes(module: Module, top: str) -> Iterator[tuple[str, int]]:
    """What follows `top.` in the module, and each beginning of it: `lowlevel`, `lowlevel.open_process`."""
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and (name := _dotted(node)).startswith(f"{top}."):
            yield name.removeprefix(f"{top}."), node.lineno


def _dotted(node: ast.expr) -> str:
    """`a.b.c` as it is written; empty for what begins with anything but a name."""
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return before and f"{before}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


# -- size and shape


def files_are_short(module: Module) -> list[str]:
    lines = len(module.source.splitlines())
    return [f"{module.name} has {lines} lines"] if lines > MOST_LINES else []


def functions_are_short(module: Module) -> list[str]:
    return [
        f"{module.name}.{name} has {lines} lines"
        for name, lines in function_lengths(module)
        if lines > LONGEST_FUNCTION
    ]


def function_lengths(module: Module) -> list[tuple[str, int]]:
    """The lines of each function, its docstring included."""
    return [
        (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in module.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def names_say_something(module: Module) -> list[str]:
    empty = EMPTY_NAMES.intersection(word for part in module.name.split(".") for word in part.split("_"))
    return [f"{module.name}: {word} names no noun" for word in sorted(empty)]


def states_its_rule(module: Module) -> list[str]:
    return [] if ast.get_docstring(module.tree) else [f"{module.name} has no docstring"]


def takes_no_keywords_unseen(module: Module) -> list[str]:
    """No `**kwargs`."""
    return [
        f"{module.name}:{node.lineno} takes **{node.args.kwarg.arg}"
        for node in module.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and node.args.kwarg
    ]


def catches_what_it_means(module: Module) -> list[str]:
    """No bare `except`, no `except Exception`; `except BaseException` only to clean up and raise on."""
    found = []
    for node in module.nodes:
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = "" if node.type is None else ast.unparse(node.type)
        raises_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
        if caught in ("", "Exception") or (caught == "BaseException" and not raises_on):
            found.append(f"{module.name}:{node.lineno} catches {caught or 'everything'}")
    return found
