"""wais: RFC 1738 3.9 (the URL), RFC 1625, Z39.50-1988 as WAIS servers use it.

- `url`: the URL and the document id in it
- `dialogue`: the protocol exchange for a database, a search or a document
- `retrieval`: negotiation of the message size, one search, the chunks of a document
- `apdu`: messages, elements and APDUs
- `record`: the records of a response
- `listing`: listing entries for hits, metadata of a reply
- `source_description`: the description of a database
"""

from __future__ import annotations

from protocols.scheme import KeptListing, Scheme
from protocols.wais.url import WaisUrl, build, parse, with_search

__all__ = ["WAIS", "WaisUrl"]


WAIS = Scheme(
    name="wais",
    names="database, result list or data object",
    default_port=210,
    parse=parse,
    build=build,
    resumes=True,
    stops=True,
    listing_kept=KeptListing("last", "application/x-wais-messages"),
    named_by=("wpath", "search", "database"),
    converse="protocols.wais.dialogue:converse",
    refine={"search": with_search},
)
