"""The schemes http and https: RFC 1738 3.3 (the URL), RFC 9110 and 9112.

- `request`: the URL as the bytes of a request.
- `http1`: one HTTP/1 request and its response within the limits. h11 (in `h11_machine`) handles heads that
  are not plain. `http2`: the same in HTTP/2 frames.
- `response`: the head of a response, its statuses and dates; `codings`: content codings.
- `dialogue`: one retrieval as steps, which uses `auth` and `call`. Its `relay` sends a request that the
  caller composed.
- `index`: the response to a directory URL, read as entries.
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
