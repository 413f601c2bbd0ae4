"""The MCP server: the tools as a server of the official SDK, and its transport over newline-delimited JSON.

The response to a line that is not JSON is the error -32700 (JSON-RPC 2.0, 5.1). The SDK skips JSON that is
not an MCP message, and the session continues. If the client cancels a call, the connections of the call are
closed.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    PARSE_ERROR,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ErrorData,
    ImageContent,
    JSONRPCError,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    jsonrpc_message_adapter,
)

from resolver.adapters.mcp.tools import INSTRUCTIONS, TOOLS, ToolAnswer, ToolGrant, Tools

#: Maximum number of concurrent tool calls; further calls wait.
AT_ONCE = 8


class _McpSession:
    """The state that all tool calls of one session share."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self.turns = anyio.CapacityLimiter(AT_ONCE)


def server(grant: ToolGrant, *, version: str = "") -> Server[_McpSession]:
    """Return an MCP server with the tools, for any transport of the SDK.

    Each session has a separate connection pool.

    Args:
        grant: The permissions of the agents.
        version: The version that the server reports.
    """

    @asynccontextmanager
    async def lifespan(_: Server[_McpSession]) -> AsyncIterator[_McpSession]:
        async with grant.session() as session:
            yield _McpSession(Tools(grant, session))

    return Server(
        "resolve",
        version=version,
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
    )


async def _list_tools(
    context: ServerRequestContext[_McpSession], params: PaginatedRequestParams | None
) -> ListToolsResult:
    return ListToolsResult(tools=list(TOOLS))


async def _call_tool(
    context: ServerRequestContext[_McpSession], params: CallToolRequestParams
) -> CallToolResult:
    session = context.lifespan_context
    if params.name not in {tool.name for tool in TOOLS}:
        raise MCPError(INVALID_PARAMS, f"unknown tool {params.name[:100]!r}")
    async with session.turns:
        answer = await session.tools.call(params.name, params.arguments or {})
    return CallToolResult(
        content=[_words(answer), *_content(answer)],
        structured_content=answer.record,
        is_error=answer.failed,
    )


def _words(answer: ToolAnswer) -> ContentBlock:
    """Return the record as text, because many clients pass only the text to their model."""
    return TextContent(text=json.dumps(answer.record, ensure_ascii=False))


def _content(answer: ToolAnswer) -> list[ContentBlock]:
    content = answer.content
    if content is None:
        return []
    if isinstance(content, str):
        return [TextContent(text=content)]
    media_type, data = str(answer.record["media_type"] or ""), b64encode(content).decode()
    whole = len(content) == answer.record["total"]
    if whole and media_type.startswith("image/"):
        return [ImageContent(data=data, mime_type=media_type)]
    blob = BlobResourceContents(uri=str(answer.record["url"]), mime_type=media_type or None, blob=data)
    return [EmbeddedResource(resource=blob)]


async def serve(
    grant: ToolGrant,
    lines: AsyncIterator[bytes | None],
    put: Callable[[bytes], Awaitable[None]],
    *,
    version: str = "",
) -> None:
    """Serve one client until the iterator `lines` ends.

    Args:
        grant: The permissions of the agents.
        lines: The lines from the client, each with one JSON message; None stands for a line above the size
            limit.
        put: Sends one or more complete lines to the client.
        version: The version that the server reports.
    """
    served = server(grant, version=version)
    heard_in, heard = anyio.create_memory_object_stream[SessionMessage | Exception]()
    said, said_out = anyio.create_memory_object_stream[SessionMessage]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_hear, lines, heard_in, said.clone())
        tasks.start_soon(_say, said_out, put)
        async with heard, said:
            await served.run(heard, said, served.create_initialization_options())


async def _hear(
    lines: AsyncIterator[bytes | None],
    heard: ObjectSendStream[SessionMessage | Exception],
    said: ObjectSendStream[SessionMessage],
) -> None:
    async with heard, said:
        async for line in lines:
            try:
                message = _message(line)
                if message is None:
                    await said.send(SessionMessage(_NOT_JSON))
                else:
                    await heard.send(message)
            except anyio.BrokenResourceError:  # the server no longer reads messages
                return


_NOT_JSON = JSONRPCError(
    jsonrpc="2.0",
    id=None,
    error=ErrorData(code=PARSE_ERROR, message="expected one JSON message a line, within the length limit"),
)


def _message(line: bytes | None) -> SessionMessage | Exception | None:
    """Return the message in a line; None if the line is not JSON or is above the size limit."""
    if line is None:
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:  # not JSON, or JSON that is not an MCP message
        return error if _is_json(line) else None


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


async def _say(said: ObjectReceiveStream[SessionMessage], put: Callable[[bytes], Awaitable[None]]) -> None:
    async with said:
        async for each in said:
            await put(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
