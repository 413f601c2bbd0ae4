"""The schemes http and https: RFC 1738 3.3 (the URL), RFC 9110 and 9112.

- `request` composes the bytes of a request for a URL.
- `http1` sends one HTTP/1 request and reads the response within the limits. `h11_machine` parses heads that
  are not plain. `http2` sends a request and reads the response in HTTP/2 frames.
- `response` parses the head of a response, the status and dates. `codings` decodes content codings.
- `dialogue` performs one retrieval, with `auth` and `call`. Its function `relay` sends a request that the
  caller composed. `digest` parses challenges and proves a password.
- `index` parses the response to a directory URL into entries.
"""

from __future__ import annotations

from protocols.http.url import HttpUrl, as_directory, build, list_names, parse, with_name
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
    tree=Tree(list_names, as_directory),
    kept_as="exchange",
    converse="protocols.http.dialogue:retrieve",
)
HTTPS = HTTP._replace(name="https", default_port=443, tls="always", relayed=False)
