"""wais: RFC 1738 3.9 (the URL), RFC 1625, Z39.50-1988 as WAIS servers speak it.

Octets to values: `element`, `message`, `apdu`, `record`, `diagnostic`. What is in them: `document_id`,
`entries`, `source_description` (of `lists`), `media_types`, `text`. What is said: `exchange`, `retrieval`,
`dialogue`; what is known by then: `facts`.
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
