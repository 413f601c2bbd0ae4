"""The guard does not import an event loop, a terminal library or an HTTP client of its own."""

from __future__ import annotations

from tests.fresh import run_alone

#: Each class or function of the guard, by its module.
PARTS = {
    "parser of URLs": "resolver.url.parsing",
    "policy": "resolver.policy.judgment",
    "rules for credentials": "resolver.policy.redirects",
    "DNS lookups": "resolver.network.lookup",
    "checks of a connection and its address": "resolver.network.admission",
    "gate of one URL": "resolver.network.url_gate",
    "guard for sockets": "resolver.adapters.guard.sockets",
}
#: Libraries that the guard does not import. A guarded program imports only its own client and event loop.
LIBRARIES = "trio anyio asyncio rich httpx httpcore httpx2 aiohttp requests urllib3 niquests h11 h2"

#: A program that imports each module, and prints the module and the libraries that are then loaded.
_LOADED = """
import importlib, sys
for module in sys.argv[2:]:
    importlib.import_module(module)
    print(module, *sorted(sys.modules.keys() & set(sys.argv[1].split())))
"""
#: A program that connects to an allowed address and to a refused address, so that lazy imports run too.
_USED = """
import socket, sys
import resolver
from resolver.adapters.guard.sockets import create_connection

with socket.create_server(("127.0.0.1", 0)) as listener:
    port = listener.getsockname()[1]
    policy = resolver.Policy(allow_address=frozenset({"127.0.0.1"}))
    create_connection(("localhost", port), policy=policy).close()
    try:
        create_connection(("localhost", port))
    except resolver.Refused as error:
        print(error.rule, *sorted(sys.modules.keys() & set(sys.argv[1].split())))
"""


def test_import_of_guard_loads_no_loop_and_no_client() -> None:
    """The last module imports an event loop; otherwise, the test could never fail."""
    lines = run_alone(_LOADED, LIBRARIES, *PARTS.values(), "resolver.adapters.guard.streams").splitlines()
    assert lines == [*PARTS.values(), "resolver.adapters.guard.streams asyncio"]


def test_connection_of_guard_loads_no_loop_and_no_client() -> None:
    assert run_alone(_USED, LIBRARIES).split() == ["S08"]
