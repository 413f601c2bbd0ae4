"""Uses that are forbidden in modules, with any imports.

The contracts in pyproject.toml define which module imports which. They see neither an attribute of an
imported module (`os.system`, `trio.open_tcp_stream`) nor a builtin (`eval`), nor a lookup by a string.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tests.architecture.source import Module, is_within, words

#: Modules, and the names that they must not use; `-module` is excepted. A `*` stands for the rest of a name.
NEVER: tuple[tuple[str, str], ...] = (
    (
        "protocols resolver",
        "builtins.__import__ builtins.breakpoint builtins.compile builtins.eval builtins.exec builtins.input "
        "builtins.locals "
        "httpx.AsyncClient httpx.Client httpx.get httpx.post httpx.request httpx.stream "
        "importlib.metadata.version os.abort os.exec* os.fork* os.kill* os.popen os.posix_spawn* os.putenv "
        "os.spawn* os.startfile os.system socket.gethost* ssl._create_unverified_context "
        "trio.Path trio.lowlevel.open_process trio.open_file",
    ),
    # the egress proxy wraps accepted sockets, and opens none
    ("protocols resolver -resolver.testing -resolver.web.egress", "trio.SocketStream"),
    (
        "protocols resolver -resolver.testing",
        "trio.SSLStream trio.open_ssl* trio.open_tcp* trio.open_unix* trio.serve_* trio.socket.socket",
    ),
    ("protocols resolver -resolver.__init__", "builtins.globals"),
    (
        # A row of a table names the module.
        "protocols resolver -resolver.__init__ -resolver.url.registry -resolver.cli.__init__ "
        "-resolver.testing.world",
        "importlib.import_module",
    ),
    (
        "protocols resolver -resolver.cli -resolver.files -resolver.policy.environment -resolver.web.access "
        "-resolver.testing.world",
        "builtins.open",
    ),
    ("protocols resolver -resolver.cli.serve -resolver.cli.secrets", "trio.run_process"),
    # the parser of HTML runs in a process of its own
    ("protocols resolver -resolver.adapters.mcp.markdown", "anyio.open_process anyio.run_process"),
    # a process ended by a signal must not wait for threads
    ("protocols resolver -resolver.cli.bulk", "os._exit"),
    (
        "protocols resolver -resolver.adapters.guard",  # guarded clients block, and resolve names themselves
        "socket.create_connection",
    ),
    ("resolver.network", "socket.getaddrinfo"),  # the call blocks the event loop
    (
        "protocols resolver.policy",
        "datetime.datetime.now datetime.datetime.today datetime.datetime.utcnow datetime.date.today",
    ),
)

#: Modules that break `reaches_nothing_by_name`, and the reason.
REACH_BY_NAME: Mapping[str, str] = {
    "resolver.cli.bulk": "only this hook of Python's hears of a KeyboardInterrupt that is dropped",
    "resolver.testing.world.disk": "it passes all other names of os and sqlite3 on",
    "resolver.web.server": "Hypercorn has no hook for the errors of a connection, which end the server",
}


def uses_nothing_forbidden(module: Module) -> list[str]:
    """Find uses of names in `NEVER`, and imports of all names of a module."""
    never = [
        name
        for rooms, names in NEVER
        if any(is_in_module(module, room) for room in rooms.split())
        if not any(is_in_module(module, room[1:]) for room in rooms.split() if room.startswith("-"))
        for name in names.split()
    ]
    uses = {*module.imports, *module.uses}
    forbidden = {
        name
        for name in {name for name, _ in uses}  # a name is checked once
        if name.endswith(".*") or any(_matches(name, each) for each in never)
    }
    return [f"{module.name}:{line} uses {name}, which nobody may" for name, line in uses if name in forbidden]


def reaches_nothing_by_name(module: Module) -> list[str]:
    """Find names of another module that are looked up by a string, listed or replaced."""
    return [
        f"{module.name}:{node.lineno} reaches into {what} without a name"
        for node in module.nodes
        if isinstance(node, ast.expr) and (what := _reached_module(module, node))
    ]


def is_in_module(module: Module, room: str) -> bool:
    """Return whether the module is in `room`: `a.__init__` is only the package, `a` all its modules."""
    return is_within(f"{module.name}.__init__" if module.is_package else module.name, room)


def _matches(name: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return is_within(name, pattern)


_LOOKS = words("builtins.getattr builtins.hasattr")
_REACHES = words("builtins.delattr builtins.dir builtins.setattr builtins.vars")
_INSIDES = words("__builtins__ __dict__ __globals__ __loader__ __subclasses__")


def _reached_module(module: Module, node: ast.expr) -> str:
    """Return the module that an expression reaches into without a name."""
    match node:
        case ast.Call(args=[value, ast.Constant(), *_]) if module.origin(node.func) in _LOOKS:
            return ""
        case ast.Call(args=[value, *_]) if module.origin(node.func) in _LOOKS | _REACHES:
            return module.origin(value)
        case ast.Attribute(value=value, ctx=ast.Store() | ast.Del()):
            return module.origin(value)
        case ast.Attribute(attr=name) | ast.Name(id=name) if name in _INSIDES:
            return ast.unparse(node)
    return ""
