"""http and https: RFC 1738 3.3 (the URL), RFC 9110 and 9112.

From the URL to the octets: `request`. One request and its answer within our limits: `exchange`, with h11 in
`machine` for what is not `plain`, `framed_exchange` in the frames of HTTP/2; `head`. What the answer holds:
`statuses`, `dates`, `codings`. One retrieval as steps: `dialogue`, made of `call` and its `answer`; `relay`
is a request of a program's own.
What a directory is answered with, read as entries: `index`.
"""

from __future__ import annotations

from protocols.http.url import HttpUrl, as_directory, build, names_of, parse, with_name
from protocols.scheme import Scheme, Tree

__all__ = ["HTTP", "HTTPS", "HttpUrl"]


HTTP = Scheme(
    name="http",
    names="data object",
    default_port=80,
    parse=parse,
    build=build,
    resumes=True,
    stops=True,
    negotiates=True,
    suggests=True,
    relayed=True,
    named_by=("path",),
    told_apart_by=("search",),
    beside=with_name,
    tree=Tree(names_of, as_directory),
    kept_as="exchange",
    converse="protocols.http.dialogue:retrieve",
)
HTTPS = HTTP._replace(name="https", default_port=443, tls="always", relayed=False)
