"""Tools for agents, by the Model Context Protocol: fetch, list, info, explain, check.

An agent fetches what strangers wrote, and what it reads may tell it where to go next. So the policy is
always `untrusted`: the operator who starts the server may make it milder for some place (`ToolGrant`), an
agent never can. Whatever a tool gives is bounded and given page by page, and text is made safe to show (S15).

`serve` speaks over lines of JSON, wherever they come from (`resolve mcp` has them from the standard streams);
`server` is the same as a `Server` of the official SDK, for other transports.
"""

from resolver.adapters.mcp.server import serve, server
from resolver.adapters.mcp.tools import ToolGrant, limit_body

__all__ = ["ToolGrant", "limit_body", "serve", "server"]
