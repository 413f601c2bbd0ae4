"""http and https: RFC 1738 3.3 (the URL), RFC 9110 and 9112."""

from __future__ import annotations

from protocols.http.url import HttpUrl, build, parse
from protocols.scheme import Scheme

__all__ = ["HTTP", "HTTPS", "HttpUrl"]

HTTP = Scheme(name="http", names="data object", default_port=80, parse=parse, build=build)
HTTPS = Scheme(name="https", names="data object", default_port=443, parse=parse, build=build, tls=True)
