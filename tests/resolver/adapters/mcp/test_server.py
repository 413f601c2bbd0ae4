"""An MCP server in a user's program, with the SDK's client in the same process, on trio and on asyncio."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest
import trio
from mcp import Client, MCPError
from mcp_types import BlobResourceContents, TextContent, TextResourceContents

import fixtures.http
import resolver
from fixtures.http import HttpServer, Page, moved
from fixtures.ports import serve_connections
from protocols.text import Masked
from resolver.adapters.mcp import ToolGrant, server
from resolver.adapters.mcp.server import _report_progress
from resolver.adapters.mcp.tools import MAX_LENGTH, TOOLS
from tests.hang import HANG
from tests.resolver.adapters.guard.network import POLICY, PUBLIC, servers
from tests.resolver.adapters.mcp.half import serve_half


async def _asked(grant: ToolGrant, urls: list[str]) -> list[Any]:
    """Return the text of each URL, or the policy rule of its refusal."""
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


HERE = resolver.Policy(name="untrusted", allow_address=frozenset({"127.0.0.1"}))
LONG = 300_000
SITE = {
    "/page": Page(b"<title>T</title><main><p>text</p></main>", "text/html"),
    "/text": Page(b"plain"),
    "/image": Page(bytes(range(256)), "image/png"),
    "/long": Page(b"x" * LONG),
}


@asynccontextmanager
async def connected(nursery: trio.Nursery) -> AsyncIterator[tuple[Client, HttpServer]]:
    """Connect a client to an MCP server that may contact an HTTP server with the pages of `SITE`."""
    site = await fixtures.http.serve(nursery, site=SITE)
    with trio.fail_after(HANG):
        async with Client(server(ToolGrant(policy=HERE, environment={}))) as client:
            yield client, site
    nursery.cancel_scope.cancel()


async def test_results_match_their_output_schemas(nursery: trio.Nursery) -> None:
    """Each result matches its output schema, and the schema describes each member of the result."""
    known = {tool.name: set((tool.output_schema or {})["properties"]) for tool in TOOLS}
    async with connected(nursery) as (client, site):
        listed = await client.list_tools()
        assert [tool.output_schema for tool in listed.tools] == [tool.output_schema for tool in TOOLS]
        calls: list[tuple[str, dict[str, Any]]] = [
            *(("fetch", {"url": site.url(path)}) for path in SITE),
            ("fetch", {"url": site.url("/page"), "characters": 1}),
            *((tool.name, {"url": site.url("/text")}) for tool in TOOLS if tool.name != "list"),
            *((tool.name, {"url": "http://10.0.0.1/"}) for tool in TOOLS),
            *((tool.name, {"url": "x"}) for tool in TOOLS),
            *((tool.name, {"address": "x"}) for tool in TOOLS),
        ]
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            assert set(result.structured_content) <= known[name], (name, arguments)
        assert len(calls) == 24
        fetched = await client.call_tool("fetch", {"url": site.url("/text")})
        verified = (listed.tools[0].output_schema or {})["properties"]["verified"]
        assert (fetched.structured_content["verified"], verified["type"]) == (["length"], "array")
        assert (await client.call_tool("list", {"cursor": "2-1"})).structured_content["position"] == 1


async def test_list_result_matches_its_output_schema(nursery: trio.Nursery) -> None:
    async def send_menu(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(b"0a\t/a\th.example\t70\r\n1b\t/b\th.example\t70\r\n.\r\n")

    port = await serve_connections(nursery, send_menu)
    grant = ToolGrant(policy=replace(HERE, allow_port=frozenset({port})), environment={})
    with trio.fail_after(HANG):
        async with Client(server(grant)) as client:
            result = await client.call_tool("list", {"url": f"gopher://127.0.0.1:{port}/1", "entries": 1})
            more = await client.call_tool("fetch", {"cursor": "1-1"})  # an agent may call the other tool
    assert more.structured_content["complete"] is True
    record = result.structured_content
    assert (record["entries"][0]["name"], record["total"], record["position"]) == ("a", 2, 0)
    assert record["next"] == '1 of 2 returned; for more, call the same tool with {"cursor": "1-1"}'
    nursery.cancel_scope.cancel()


async def test_fetch_reports_progress(nursery: trio.Nursery) -> None:
    reports: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total))

    async with connected(nursery) as (client, site):
        await client.call_tool("fetch", {"url": site.url("/long")}, progress_callback=note)
    assert reports
    assert reports == sorted(set(reports))
    assert {total for _, total in reports} == {LONG}
    assert all(0 <= progress <= LONG for progress, _ in reports)


class Reports:
    """The session of a request, which records the progress notifications."""

    def __init__(self) -> None:
        self.session = self
        self.numbers: list[float] = []

    async def report_progress(self, progress: float, total: float | None, message: str) -> None:
        self.numbers.append(progress)


async def test_progress_increases_also_after_a_retry() -> None:
    sender, receiver = anyio.create_memory_object_stream[resolver.Progress](20)
    with sender:
        for received in (0, 10, 65_536, 130_000, 0, 65_536, 131_072, 131_080, 131_080):
            sender.send_nowait(resolver.Progress(Masked("http://h/"), received, 131_080))
    context: Any = Reports()
    await _report_progress(context, receiver)
    assert context.numbers == [0, 65_536, 131_072, 131_080]


async def test_cancelled_call_closes_connection_during_body(nursery: trio.Nursery) -> None:
    sent = trio.Event()
    url, closed = await serve_half(nursery, sent)
    with trio.fail_after(HANG):
        async with Client(server(ToolGrant(policy=HERE, environment={}))) as client:
            async with trio.open_nursery() as calls:
                calls.start_soon(client.call_tool, "fetch", {"url": url})
                await sent.wait()
                calls.cancel_scope.cancel()
            await closed.wait()
            verdict = await client.call_tool("check", {"url": url})
            assert verdict.structured_content["action"] == "allow"
    nursery.cancel_scope.cancel()


async def test_prompt_fetch_returns_first_page(nursery: trio.Nursery) -> None:
    async with connected(nursery) as (client, site):
        (prompt,) = (await client.list_prompts()).prompts
        assert [argument.name for argument in prompt.arguments or []] == ["url"]
        found = await client.get_prompt("fetch", {"url": site.url("/page")})
        record, text = (message.content for message in found.messages)
        assert isinstance(record, TextContent)
        assert isinstance(text, TextContent)
        assert (json.loads(record.text)["title"], text.text) == ("T", "text")
        (refused,) = (await client.get_prompt("fetch", {"url": "http://10.0.0.1/"})).messages
        assert isinstance(refused.content, TextContent)
        assert json.loads(refused.content.text)["error"]["rule"] == "S08"
        with pytest.raises(MCPError, match="unknown prompt 'other'"):
            await client.get_prompt("other", {})


async def test_resources_are_policy_and_content_of_urls(nursery: trio.Nursery) -> None:
    async with connected(nursery) as (client, site):
        (policy,) = (await client.list_resources()).resources
        (template,) = (await client.list_resource_templates()).resource_templates
        assert (policy.uri, template.uri_template) == ("resolve:policy", "{+url}")
        (found,) = (await client.read_resource("resolve:policy")).contents
        assert isinstance(found, TextResourceContents)
        told = json.loads(found.text)
        assert (told["policy"]["name"], told["policy"]["allow_address"]) == ("untrusted", ["127.0.0.1/32"])
        assert told["limits"] == {"body": 8_388_608, "total": 600.0}
        assert "file_root" not in told["policy"]
        for path, media_type, text in (
            ("/page", "text/markdown", "text"),
            ("/text", "text/plain", "plain"),
        ):
            (found,) = (await client.read_resource(site.url(path))).contents
            assert isinstance(found, TextResourceContents)
            assert (found.mime_type, found.text) == (media_type, text)
        (image,) = (await client.read_resource(site.url("/image"))).contents
        assert isinstance(image, BlobResourceContents)
        assert (image.mime_type, len(image.blob)) == ("image/png", 344)
        with pytest.raises(MCPError, match="too long"):
            await client.read_resource(site.url("/long"))
        with pytest.raises(MCPError, match="S08") as refused:
            await client.read_resource("http://10.0.0.1/")
        assert refused.value.data["exit"] == 9
        assert LONG > MAX_LENGTH


async def test_allowed_hosts_refuses_other_hosts_and_redirects(nursery: trio.Nursery) -> None:
    """A redirect to a host outside the list is refused, and nothing connects to the host."""
    visits: list[object] = []

    async def visited(stream: trio.SocketStream) -> None:
        visits.append(stream)
        await stream.aclose()

    other = f"http://127.0.0.2:{await serve_connections(nursery, visited, host='127.0.0.2')}/"
    site = await fixtures.http.serve(nursery, site={"/": Page(b"here"), "/away": moved(other)})
    allowed = frozenset({"127.0.0.1", "127.0.0.2"})
    policy = replace(HERE, allow_address=allowed, allowed_hosts=frozenset({"127.0.0.1"}))
    with trio.fail_after(HANG):
        async with Client(server(ToolGrant(policy=policy, environment={}))) as client:
            fetched = await client.call_tool("fetch", {"url": site.url("/")})
            assert not fetched.is_error
            for url in (other, site.url("/away")):
                refused = await client.call_tool("fetch", {"url": url})
                assert refused.structured_content["error"]["rule"] == "S22"
            verdict = await client.call_tool("check", {"url": other})
            assert verdict.structured_content["findings"][0]["rule"] == "S22"
    assert visits == []
    nursery.cancel_scope.cancel()
