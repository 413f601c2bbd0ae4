"""prospero: RFC 1738 3.11 (the URL), the Prospero protocol, version 5, over ARDP.

- `ardp`: packets, server addresses, and one request with its reply.
- `objects`: objects, links and attributes; the quoting of tokens.
- `access_method`: the URLs of an object.
- `message`: requests and replies.
- `resolution`: the search for the object that a URL names.
- `dialogue`: the protocol exchange for a URL.
"""

from __future__ import annotations

from protocols.prospero.url import ProsperoUrl, build, list_names, parse
from protocols.scheme import KeptListing, Scheme, Tree

__all__ = ["PROSPERO", "ProsperoUrl"]


PROSPERO = Scheme(
    name="prospero",
    names="link to other URLs",
    default_port=1525,
    parse=parse,
    build=build,
    transport="udp",
    listing_kept=KeptListing("packets", "text/x-prospero-answer"),
    named_by=("hsoname",),
    tree=Tree(list_names),
    converse="protocols.prospero.dialogue:converse",
)
