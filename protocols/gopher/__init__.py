"""gopher and gophers: RFC 1738 3.4 (the URL), RFC 1436, Gopher+ (1993).

From the URL to the octets: `request`. From the octets to a reply: `framing`, `periods`, `refusals`,
`reading`. What replies hold: `item`, `menu`, `attributes`, `views`, `forms`. One transaction as steps:
`dialogue`; on a connection: `handler` and `answer`.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from protocols.gopher.refinement import with_search, with_view
from protocols.gopher.url import GopherUrl, build, parse
from protocols.scheme import Dialogue, Scheme

if TYPE_CHECKING:
    from protocols.contract import Gate, Options, Reply

__all__ = ["GOPHER", "GOPHERS", "GopherUrl"]


def _open(url: GopherUrl, gate: Gate) -> AbstractAsyncContextManager[Reply]:
    from protocols.gopher.handler import open_gopher  # parsing a URL needs none of it

    return open_gopher(url, gate)


def _dialogue(url: GopherUrl, options: Options) -> Dialogue:
    from protocols.gopher.dialogue import converse  # as above

    return converse(url)


GOPHER = Scheme(
    name="gopher",
    names="data object, menu, search or service, by its type",
    default_port=70,
    parse=parse,
    build=build,
    open=_open,
    dialogue=_dialogue,
    refine={"search": with_search, "view": with_view},
)
GOPHERS = GOPHER._replace(name="gophers", tls=True)
