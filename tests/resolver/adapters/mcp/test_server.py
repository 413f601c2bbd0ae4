"""An MCP server inside a user's program, called by the SDK's client in the same process, on either loop."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import TextContent

from resolver.adapters.mcp import ToolGrant, server
from tests.resolver.adapters.guard.network import POLICY, PUBLIC, servers


async def _asked(grant: ToolGrant, urls: list[str]) -> list[Any]:
    """Return the text of each URL, or the rule that refused it."""
    found: list[Any] = []
    async with Client(server(grant)) as client:
        for url in urls:
            result = await client.call_tool("fetch", {"url": url})
            last = result.content[-1]
            assert isinstance(last, TextContent)
            found.append(result.structured_content["error"]["rule"] if result.is_error else last.text)
    return found


@pytest.mark.parametrize("loop", ["trio", "asyncio"])
def test_mcp_server_runs_inside_a_program(loop: str) -> None:
    grant = ToolGrant(policy=POLICY, environment={})
    with servers({"/in": "http://127.0.0.1:{port}/"}) as peers:
        place = f"http://{PUBLIC}:{peers.port}"
        urls = [f"{place}/", f"{place}/in", f"http://127.0.0.1:{peers.port}/"]
        assert anyio.run(_asked, grant, urls, backend=loop) == ["hello", "S08", "S08"]
        assert {address for address, _ in peers.visits} == {PUBLIC}
