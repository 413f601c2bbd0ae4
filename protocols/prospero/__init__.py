"""prospero: RFC 1738 3.11 (the URL), the Prospero protocol, version 5, over ARDP.

Octets: `packet` (one datagram), `ardp` (one request and its reply) with `candidates` (whom to ask), `token`
(lines and quoting). What is said: `target` and `question`, `reply` with `link` and `attribute`,
`access_method` with `mapping`. What a URL comes to: `dialogue`, with `resolution`; then `contents`, or
`entries` with `union`.
"""

from __future__ import annotations

from protocols.prospero.url import ProsperoUrl, as_directory, build, names_of, parse
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
    tree=Tree(names_of, as_directory),
    converse="protocols.prospero.dialogue:converse",
)
