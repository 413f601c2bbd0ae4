"""wais: RFC 1738 3.9 (the URL), RFC 1625."""

from __future__ import annotations

from protocols.scheme import Scheme
from protocols.wais.url import WaisUrl, build, parse

__all__ = ["WAIS", "WaisUrl"]

WAIS = Scheme(
    name="wais", names="database, result list or data object", default_port=210, parse=parse, build=build
)
