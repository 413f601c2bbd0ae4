"""http and https: RFC 1738 3.3 (the URL), RFC 9110 and 9112.

From the URL to the octets: `request`. One request and its answer, by h11 within our limits: `exchange`,
`head`. What the answer holds: `statuses`, `dates`, `codings`. One retrieval as steps: `dialogue`; on a
connection: `answer` and `handler`.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from protocols.http.url import HttpUrl, build, parse
from protocols.scheme import Dialogue, Scheme

if TYPE_CHECKING:
    from protocols.contract import Gate, Options, Reply

__all__ = ["HTTP", "HTTPS", "HttpUrl"]


def _open(url: HttpUrl, gate: Gate) -> AbstractAsyncContextManager[Reply]:
    from protocols.http.handler import open_http  # parsing a URL needs none of it, nor h11

    return open_http(url, gate)


def _dialogue(url: HttpUrl, options: Options) -> Dialogue:
    from protocols.http.dialogue import retrieve  # as above

    return retrieve(url, options)


HTTP = Scheme(
    name="http",
    names="data object",
    default_port=80,
    parse=parse,
    build=build,
    resumes=True,
    open=_open,
    dialogue=_dialogue,
)
HTTPS = HTTP._replace(name="https", default_port=443, tls=True)
