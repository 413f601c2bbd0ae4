"""Tools for agents, by the Model Context Protocol: fetch, list, info, explain, check.

An agent fetches untrusted content, which may tell it where to go next. The policy is therefore always
`untrusted`. Only the operator who starts the server can relax it for a host (`ToolGrant`). Results are
limited and returned page by page, and text is escaped for display (S15).

`serve` speaks lines of JSON over any streams (`resolve mcp` uses the standard streams). `server` is the same
as a `Server` of the official SDK, for other transports.
"""

from resolver.adapters.mcp.server import serve, server
from resolver.adapters.mcp.tools import ToolGrant, limit_body

__all__ = ["ToolGrant", "limit_body", "serve", "server"]
