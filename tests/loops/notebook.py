"""A Jupyter kernel whose cells fetch from a gopher server: `python -m tests.loops.notebook PORT`.

It prints the output of the cells. The last cell but one is interrupted in a blocking call.
"""

from __future__ import annotations

import sys
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

from tests.hang import HANG

CELLS = (
    """
import resolver
at, policy = "gopher://127.0.0.1:{port}", resolver.Policy(allow_port=frozenset({{ {port} }}))
""",
    "print('awaited', len((await resolver.fetch(at + '/00/about', policy=policy)).content))",
    "print('waited', len(resolver.blocking.fetch(at + '/00/about', policy=policy).content))",
    """
async with resolver.entries(at + "/", policy=policy) as entries:
    awaited = [entry.name async for entry in entries]
with resolver.blocking.entries(at + "/", policy=policy) as entries:
    print("the same entries", awaited == [entry.name for entry in entries])
""",
    """
async with resolver.Resolver(policy=policy) as session:
    print("a session", len((await session.fetch(at + "/00/about")).content))
with resolver.blocking.open(at + "/00/about", policy=policy) as file:
    print("a file", len(file.read()))
""",
    """
def listen(event):
    if isinstance(event, resolver.Connected):
        print("connected", flush=True)

resolver.blocking.fetch(at + "/0/silent", policy=policy, on_event=listen)
""",
    "print('and again', len(resolver.blocking.fetch(at + '/00/about', policy=policy).content))",
)


def run(cell: str, manager: KernelManager, client: BlockingKernelClient) -> None:
    def show(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] == "stream":
            print(content["text"], end="")
            if "connected" in content["text"]:
                manager.interrupt_kernel()
        elif message["msg_type"] == "error":
            print(content["ename"])

    client.execute_interactive(cell, timeout=HANG, output_hook=show)


def main(port: str) -> None:
    manager, client = start_new_kernel(startup_timeout=HANG)
    try:
        for cell in CELLS:
            run(cell.format(port=port) if "{port}" in cell else cell, manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
