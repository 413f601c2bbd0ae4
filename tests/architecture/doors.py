"""Calls that open a file by a method, on an object of any type: `path.open("rb")`."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tests.architecture.source import Module, is_within, words

FILE_CALLS = words(
    "fdopen link listdir makedirs mkdir mkfifo open read_bytes read_text remove rename rmdir scandir "
    "symlink symlink_to touch truncate unlink write_bytes write_text"
)

#: Modules that break the rule, and the reason.
OPEN_FILES: Mapping[str, str] = {
    "resolver.cli.streams": "standard streams, LIST, password and trace files; the pipe of -O, opened anew",
    "resolver.cli.console": "the terminal that a person sits at, opened anew",
    "resolver.cli.output": "a device or a pipe that -O names",
    "resolver.adapters.fsspec.filesystem": "directories that fsspec's get copies into",
    "resolver.policy.environment": "the system's setting of a news server",
    "resolver.transfer.network": "the pool of its connections",
    "resolver.web.access": "the system's table of connections",
    "resolver.testing.world.disk": "the simulated disk, which passes the calls of `resolver.files` on",
    "resolver.testing.world.world": "the directories of a simulated disk",
    **{
        f"resolver.testing.contract.{module}": "a test, which looks at files that were saved"
        for module in ("case", "endings", "operations", "peers", "running")
    },
}


def only_the_disk_opens_files(module: Module) -> list[str]:
    """Find files opened, made or removed outside `resolver.files`; the gate opens connections and pipes."""
    if is_within(module.name, "resolver.files") or is_within(module.name, "resolver.network"):
        return []
    return [
        f"{module.name}:{node.lineno} calls {name}"
        for node in module.nodes
        if isinstance(node, ast.Call) and (name := _file_call(module, node.func)) is not None
    ]


def _file_call(module: Module, function: ast.expr) -> str | None:
    """Return the name under which a call reaches a file, or None.

    `scheme.open` resolves a URL, and `streams` opens files named by the user of the command.
    """
    if module.origin(function) in ("builtins.open", "io.open"):
        return "open"
    match function:
        case ast.Attribute(value=ast.Name(id="scheme" | "streams")):
            return None
        case ast.Attribute(attr=name) if name in FILE_CALLS:
            return ast.unparse(function)
    return None
