"""Tools for AI agents over the Model Context Protocol (MCP): fetch, list, info, explain, check.

An agent fetches untrusted content, which may contain instructions to fetch other URLs (prompt injection,
SSRF). Therefore, the policy for URLs is always `untrusted`. Only the operator of the server can relax the
policy for a host (`ToolGrant`). Long results are paginated. Control characters in texts are escaped (S15).

`serve` is a server for newline-delimited JSON over any streams; `resolve mcp` uses standard input and output.
`server` returns a `Server` of the official SDK, for other transports. `http_application` returns an ASGI
application for an HTTP server.
"""

from resolver.adapters.mcp.server import http_application, serve, server
from resolver.adapters.mcp.tools import ToolGrant, limit_body

__all__ = ["ToolGrant", "http_application", "limit_body", "serve", "server"]
