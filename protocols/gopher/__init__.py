"""gopher and gophers: RFC 1738 3.4 (the URL), RFC 1436, Gopher+ (1993).

From the URL to the octets: `request`. From the octets to a reply: `framing`, `periods`, `refusals`,
`reading`. What replies hold: `item`, `menu`, `attributes`, `views`, `forms`. One transaction as steps:
`dialogue`; on a connection: `handler` and `answer`.
"""

from __future__ import annotations

from protocols.contract import Scheme
from protocols.gopher.dialogue import converse
from protocols.gopher.handler import open_gopher
from protocols.gopher.url import GopherUrl, build, parse

__all__ = ["GOPHER", "GOPHERS", "GopherUrl"]

_NAMES = "data object, menu, search or service, by its type"

GOPHER = Scheme(
    name="gopher",
    names=_NAMES,
    default_port=70,
    parse=parse,
    build=build,
    open=open_gopher,
    dialogue=converse,
)
GOPHERS = Scheme(
    name="gophers",
    names=_NAMES,
    default_port=70,
    parse=parse,
    build=build,
    tls=True,
    open=open_gopher,
    dialogue=converse,
)
