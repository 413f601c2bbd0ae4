"""No scheme is special: its definition describes its protocol, and one table its permissions."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from resolver.url.registry import SCHEMES
from tests.architecture.source import Module, is_within

#: The modules that name schemes; the last one names proxies, two of which have the same names.
NAMED_IN = ("resolver.url.registry", "resolver.policy.schemes", "resolver.policy.proxy")

#: A name, alone or with the rest of a URL.
_NAME = re.compile(rf"({'|'.join(map(re.escape, sorted(SCHEMES)))})(:.*)?", re.DOTALL)

#: Modules that break the rule, and the reason.
NAME_SCHEMES: Mapping[str, str] = {
    **{
        f"resolver.web.{module}": "what browsers speak with us"
        for module in ("access", "application", "running", "server")
    },
    "resolver.cli.serve": "what browsers have dropped, for the desktop",
    "resolver.cli.proxy": "the URL of the proxy, for other programs",
    "resolver.policy.judgment": "who keeps a client most often keeps one of http",
    "resolver.adapters.guard.sockets": "the same",
    "resolver.adapters.guard.streams": "the same",
    "resolver.adapters.guard.urllib3": "a client of http and https",
    "resolver.adapters.fsspec.listings": "what fsspec calls a file",
    "resolver.terminal.prompts": "the extra of that name",
    "resolver.trees.robots": "oddities of http, whose rules these are",
    "resolver.warc.recorder": "where the format says what it is",
    "resolver.ledger.book": "how SQLite is told in what way to open its file",
    "resolver.trees.lists": "what RFC 5854 calls a file, and the namespace before it",
}


def only_the_tables_name_schemes(module: Module) -> list[str]:
    """Find strings in `resolver` that are a scheme name or begin a URL; `want="file"` is an option."""
    if module.package != "resolver" or any(is_within(module.name, home) for home in NAMED_IN):
        return []
    wants = {id(node.value) for node in module.nodes if isinstance(node, ast.keyword) and node.arg == "want"}
    return [
        f"{module.name}:{node.lineno} names the scheme {node.value!r}"
        for node in module.nodes
        if isinstance(node, ast.Constant) and id(node) not in wants and _is_scheme_name(node.value)
    ]


def _is_scheme_name(value: object) -> bool:
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return isinstance(text, str) and _NAME.fullmatch(text) is not None
