"""The guard loads no event loop, no terminal library and no HTTP client; its programs have their own."""

from __future__ import annotations

from tests.fresh import run_alone

#: Each part of the guard, by the module that has it.
PARTS = {
    "parser of URLs": "resolver.url.parsing",
    "policy": "resolver.policy.judgment",
    "rules for credentials": "resolver.policy.redirects",
    "DNS lookups": "resolver.network.lookup",
    "checks of a connection and its address": "resolver.network.admission",
    "gate of one URL": "resolver.network.url_gate",
    "guard for sockets": "resolver.adapters.guard.sockets",
}
#: Libraries that the guard does not load. A program under the guard has at most its own client and loop.
LIBRARIES = "trio anyio asyncio rich httpx httpcore httpx2 aiohttp requests urllib3 niquests h11 h2"

#: Imports each module; prints the module and the libraries that are loaded then.
_LOADED = """
import importlib, sys
for module in sys.argv[2:]:
    importlib.import_module(module)
    print(module, *sorted(sys.modules.keys() & set(sys.argv[1].split())))
"""
#: Connects to an allowed address and asks for a refused one, so that imports inside functions run too.
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
    """The last module loads a loop; otherwise the test could not fail."""
    lines = run_alone(_LOADED, LIBRARIES, *PARTS.values(), "resolver.adapters.guard.streams").splitlines()
    assert lines == [*PARTS.values(), "resolver.adapters.guard.streams asyncio"]


def test_connection_of_guard_loads_no_loop_and_no_client() -> None:
    assert run_alone(_USED, LIBRARIES).split() == ["S08"]
