"""The MCP server: the tools as a server of the official SDK, and a transport over newline-delimited JSON.

If a line is not JSON, the server responds with the error -32700, and with -32600 to an invalid request
(JSON-RPC 2.0, 5.1). Other JSON that is not an MCP message is ignored, and the session continues. If the
client cancels a tool call, the server closes the connections of the tool call. If a tool call has a progress
token, the server reports the received bytes.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple, TypeVar

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from anyio.streams.memory import MemoryObjectSendStream
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ErrorData,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    JSONRPCError,
    JSONRPCNotification,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    jsonrpc_message_adapter,
)
from starlette.applications import Starlette

import resolver
from resolver.adapters.mcp.tools import (
    INSTRUCTIONS,
    MAX_LENGTH,
    TOOLS,
    ToolAnswer,
    ToolGrant,
    Tools,
    describe_grant,
    listen_to_progress,
)

T = TypeVar("T")

#: Maximum number of concurrent tool calls; further calls wait.
AT_ONCE = 8
#: Minimum number of received bytes between two progress notifications of a tool call.
_STEP = 65_536


class _McpSession(NamedTuple):
    """The state that all tool calls of one MCP session share."""

    tools: Tools
    grant: ToolGrant
    turns: anyio.CapacityLimiter


def server(grant: ToolGrant, *, version: str = "") -> Server[_McpSession]:
    """Return an MCP server with the tools, for any transport of the SDK.

    Each MCP session has a separate connection pool. Over HTTP, all sessions of the server share one
    connection pool.

    Args:
        grant: The permissions of the agents.
        version: The version that the server reports.
    """

    @asynccontextmanager
    async def lifespan(_: Server[_McpSession]) -> AsyncIterator[_McpSession]:
        async with grant.session() as session:
            yield _McpSession(Tools(grant, session), grant, anyio.CapacityLimiter(AT_ONCE))

    return Server(
        "resolve",
        version=version,
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=partial(_return, ListToolsResult(tools=list(TOOLS))),
        on_call_tool=_call_tool,
        on_list_prompts=partial(_return, ListPromptsResult(prompts=[_PROMPT])),
        on_get_prompt=_get_prompt,
        on_list_resources=partial(_return, ListResourcesResult(resources=[_POLICY])),
        on_list_resource_templates=partial(
            _return, ListResourceTemplatesResult(resource_templates=[_ANY_URL])
        ),
        on_read_resource=_read_resource,
    )


def http_application(grant: ToolGrant, *, version: str = "") -> Starlette:
    """Return an ASGI application that serves the tools at `/mcp` (Streamable HTTP).

    The application accepts every request. Its server must check the client, and the headers `Host` and
    `Origin`.

    Args:
        grant: The permissions of the agents.
        version: The version that the server reports.
    """
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return server(grant, version=version).streamable_http_app(transport_security=unchecked)


async def _return(
    result: T, context: ServerRequestContext[_McpSession], params: PaginatedRequestParams | None
) -> T:
    """Return a list that is the same for each request."""
    return result


async def _call_tool(
    context: ServerRequestContext[_McpSession], params: CallToolRequestParams
) -> CallToolResult:
    if params.name not in {tool.name for tool in TOOLS}:
        raise MCPError(INVALID_PARAMS, f"unknown tool {params.name[:100]!r}")
    answer = await _call(context, params.name, params.arguments or {})
    return CallToolResult(
        content=[_words(answer), *_content(answer)],
        structured_content=answer.record,
        is_error=answer.failed,
    )


async def _call(
    context: ServerRequestContext[_McpSession], name: str, arguments: Mapping[str, object]
) -> ToolAnswer:
    """Call a tool; if the client sent a progress token, report the progress to the client."""
    session = context.lifespan_context
    sender, receiver = anyio.create_memory_object_stream[resolver.Progress](1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_report_progress, context, receiver)
        async with session.turns, sender:
            with listen_to_progress(partial(_send_latest, sender)):
                return await session.tools.call(name, arguments)
    raise AssertionError("the task group does not suppress errors")


def _send_latest(sender: MemoryObjectSendStream[resolver.Progress], event: resolver.Progress) -> None:
    """Pass a progress event to the reporting task, or drop it if the client reads too slowly."""
    with suppress(anyio.WouldBlock):
        sender.send_nowait(event)


async def _report_progress(
    context: ServerRequestContext[_McpSession], events: ObjectReceiveStream[resolver.Progress]
) -> None:
    """Send progress notifications; the progress value always increases, even after a retry."""
    reported = -_STEP
    async with events:
        async for event in events:
            if event.received >= reported + _STEP or reported < event.received == event.expected:
                reported = event.received
                await context.session.report_progress(event.received, event.expected, "bytes received")


def _words(answer: ToolAnswer) -> ContentBlock:
    """Return the metadata of a result as JSON text, because many clients pass only text to their model."""
    return TextContent(text=json.dumps(answer.record, ensure_ascii=False))


def _content(answer: ToolAnswer) -> list[ContentBlock]:
    content = answer.content
    if content is None:
        return []
    if isinstance(content, str):
        return [TextContent(text=content)]
    media_type, data = str(answer.record["media_type"] or ""), b64encode(content).decode()
    is_complete = len(content) == answer.record["total"]
    if is_complete and media_type.startswith("image/"):
        return [ImageContent(data=data, mime_type=media_type)]
    blob = BlobResourceContents(uri=str(answer.record["url"]), mime_type=media_type or None, blob=data)
    return [EmbeddedResource(resource=blob)]


# Prompts and resources of MCP. The user of the client chooses a prompt, and its text goes to the model. The
# client can attach a resource to a conversation.

_PROMPT = Prompt(
    name="fetch",
    title="Fetch a URL",
    description="Fetch a URL and add its first page of text to the conversation",
    arguments=[PromptArgument(name="url", description="absolute URL to fetch", required=True)],
)
_POLICY = Resource(
    uri="resolve:policy",
    name="policy",
    title="Security policy",
    description="What the operator of this server allows beyond the policy untrusted, and the limits",
    mime_type="application/json",
)
_ANY_URL = ResourceTemplate(
    uri_template="{+url}",
    name="url",
    title="Content of a URL",
    description="The content of a URL of http, https, ftp, ftps, gopher, nntp, news, wais or prospero",
)


async def _get_prompt(
    context: ServerRequestContext[_McpSession], params: GetPromptRequestParams
) -> GetPromptResult:
    if params.name != _PROMPT.name:
        raise MCPError(INVALID_PARAMS, f"unknown prompt {params.name[:100]!r}")
    answer = await _call(context, "fetch", dict(params.arguments or {}))
    messages = [
        PromptMessage(role="user", content=content) for content in (_words(answer), *_content(answer))
    ]
    return GetPromptResult(messages=messages)


async def _read_resource(
    context: ServerRequestContext[_McpSession], params: ReadResourceRequestParams
) -> ReadResourceResult:
    uri = params.uri
    if uri == _POLICY.uri:
        words = json.dumps(describe_grant(context.lifespan_context.grant))
        return ReadResourceResult(
            contents=[TextResourceContents(uri=uri, mime_type="application/json", text=words)]
        )
    answer = await _call(context, "fetch", {"url": uri, "characters": MAX_LENGTH})
    record = answer.record
    if answer.failed:
        error = record["error"]
        message = str(error["message"]) if isinstance(error, dict) else "the URL was not fetched"
        raise MCPError(INVALID_PARAMS, message, data=dict(record))
    if record["next_cursor"] is not None:  # a page is not the complete resource
        raise MCPError(INVALID_PARAMS, "resource is too long (read its pages with the tool fetch)")
    media_type = None if record["media_type"] is None else str(record["media_type"])
    if isinstance(answer.content, bytes):
        data = b64encode(answer.content).decode()
        return ReadResourceResult(contents=[BlobResourceContents(uri=uri, mime_type=media_type, blob=data)])
    if answer.content is None:
        text, media_type = json.dumps(record["entries"], ensure_ascii=False), "application/json"
    else:
        text = answer.content
        media_type = "text/markdown" if record["format"] == "markdown" else media_type
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=media_type, text=text)])


async def serve(
    grant: ToolGrant,
    lines: AsyncIterator[bytes | None],
    put: Callable[[bytes], Awaitable[None]],
    *,
    version: str = "",
) -> None:
    """Serve one MCP client until the iterator `lines` ends.

    Args:
        grant: The permissions of the agents.
        lines: The lines from the client, each with one JSON message. A line that exceeds the size limit is
            represented by None.
        put: Sends one or more complete lines to the client.
        version: The version that the server reports.
    """
    served = server(grant, version=version)
    requests_in, requests = anyio.create_memory_object_stream[SessionMessage | Exception]()
    replies, replies_out = anyio.create_memory_object_stream[SessionMessage]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_receive, lines, requests_in, replies.clone())
        tasks.start_soon(_send, replies_out, put)
        async with requests, replies:
            await served.run(requests, replies, served.create_initialization_options())


async def _receive(
    lines: AsyncIterator[bytes | None],
    requests: ObjectSendStream[SessionMessage | Exception],
    replies: ObjectSendStream[SessionMessage],
) -> None:
    async with requests, replies:
        async for line in lines:
            try:
                try:
                    message = jsonrpc_message_adapter.validate_json(line or b"", by_name=False)
                except ValueError:  # not JSON, or JSON that is not an MCP message
                    message = None
                # The SDK reads a request with an invalid id, such as null or 1.5, as a notification.
                has_id = not isinstance(message, JSONRPCNotification | None)
                error = None if has_id else _make_error(line)
                if error is not None:
                    await replies.send(SessionMessage(error))
                elif message is not None:
                    await requests.send(SessionMessage(message))
            except anyio.BrokenResourceError:  # the SDK's server no longer reads messages
                return


_NOT_JSON = JSONRPCError(
    jsonrpc="2.0",
    id=None,
    error=ErrorData(code=PARSE_ERROR, message="expected one JSON message a line, within the length limit"),
)


def _make_error(line: bytes | None) -> JSONRPCError | None:
    """Return the answer to an invalid request, or None for a notification and for other JSON.

    A client waits for the answer to each request. So a request that the SDK cannot read, for example with a
    lone surrogate, gets the error -32600 (JSON-RPC 2.0, 5.1).
    """
    try:
        members = json.loads(line or b"")
    except (ValueError, RecursionError):
        return _NOT_JSON
    match members:
        case {"method": _, "id": number}:
            known = type(number) is int or (isinstance(number, str) and number.isprintable())
            error = ErrorData(
                code=INVALID_REQUEST,
                message="expected an MCP request with a string or integer id, in valid Unicode",
            )
            return JSONRPCError(jsonrpc="2.0", id=number if known else None, error=error)
    return None


async def _send(queue: ObjectReceiveStream[SessionMessage], put: Callable[[bytes], Awaitable[None]]) -> None:
    async with queue:
        async for reply in queue:
            await put(reply.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
