"""httpx through our gate: any `httpx.AsyncClient(transport=HttpxTransport(policy=…))` has the safety layer.

Policy, pinned addresses, port rules, limits and kept connections are the gate's; what is said and heard is
http's own dialogue (`protocols.http.relay`), in HTTP/2 too, where the extra is installed and a request has no
body. No URL that httpx has parsed decides anything (S01). Nothing outside this folder imports httpx.

What httpx has no word for stands in `extensions`. A request's `target` goes out as it is; its `origin` and
`referrer` are those of `resolver.check`. A redirect that the client follows is judged as `derived`, and
counted (S16); of its headers only harmless ones go to another place than the first was for (S11), so no
cookies either, not even the client's own for that place. A response has `findings`, `verified` and `peer`.
Content codings are undone here, within the bounds of S16, and the headers that speak of them are left out.
"""

from resolver.http_transport.faults import RequestRefused
from resolver.http_transport.transport import HttpxTransport

__all__ = ["HttpxTransport", "RequestRefused"]
