"""Tests of `resolve mcp` with the official MCP inspector, against the mock server of http.

npx downloads the inspector from the registry of npm.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import trio

import fixtures.http
from fixtures.http.site import Page
from tests.elsewhere import served

INSPECTOR = ["npx", "--yes", "@modelcontextprotocol/inspector@2.12.0", "--cli"]
PAGE = Page(b"<title>A page</title><h1>Heading</h1><p>Some <b>text</b>.", "text/html")


def request(method: str, *arguments: str, port: int = 1) -> Any:
    """Return the answer of `resolve mcp` to a request of the inspector."""
    options = ["--allow-address", "127.0.0.1", "--allow-port", str(port)]
    command = [*INSPECTOR, sys.executable, "-m", "resolver", "mcp", *options, "--method", method, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("method", "member", "name"),
    [
        ("tools/list", "tools", "fetch"),
        ("prompts/list", "prompts", "fetch"),
        ("resources/templates/list", "resourceTemplates", "url"),
    ],
)
def test_inspector_lists_what_the_server_has(method: str, member: str, name: str) -> None:
    assert name in [row["name"] for row in request(method)[member]]


async def serve(nursery: trio.Nursery) -> Any:
    return await fixtures.http.serve(nursery, {"/page": PAGE})


def test_inspector_calls_fetch() -> None:
    with served(serve) as server:
        url = server.url("/page")
        answer = request("tools/call", "--tool-name", "fetch", "--tool-arg", f"url={url}", port=server.port)
    assert not answer.get("isError")
    assert "# Heading" in answer["content"][1]["text"]
    assert answer["structuredContent"]["url"] == url
