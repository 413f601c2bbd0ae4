"""wais: RFC 1738 3.9 (the URL), RFC 1625, Z39.50-1988 as WAIS servers speak it.

Octets to values: `element`, `message`, `apdu`, `record`, `diagnostic`. What is in them: `document_id`,
`entries`, `source_description` (of `lists`), `media_types`, `text`. What is said: `exchange`, `retrieval`,
`dialogue`; on a connection: `chunks`, `handler`.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from protocols.scheme import Dialogue, Scheme
from protocols.wais.refinement import with_search
from protocols.wais.url import WaisUrl, build, parse

if TYPE_CHECKING:
    from protocols.contract import Gate, Options, Reply

__all__ = ["WAIS", "WaisUrl"]


def _open(url: WaisUrl, gate: Gate) -> AbstractAsyncContextManager[Reply]:
    from protocols.wais.handler import open_wais  # parsing a URL needs none of it

    return open_wais(url, gate)


def _dialogue(url: WaisUrl, options: Options) -> Dialogue:
    from protocols.wais.dialogue import converse  # as above

    return converse(url, hits=options.entries)


WAIS = Scheme(
    name="wais",
    names="database, result list or data object",
    default_port=210,
    parse=parse,
    build=build,
    resumes=True,
    open=_open,
    dialogue=_dialogue,
    refine={"search": with_search},
)
