"""gopher and gophers: RFC 1738 3.4 (the URL), RFC 1436, Gopher+ (1993)."""

from __future__ import annotations

from protocols.contract import Scheme
from protocols.gopher.url import GopherUrl, build, parse

__all__ = ["GOPHER", "GOPHERS", "GopherUrl"]

_NAMES = "data object, menu, search or service, by its type"

GOPHER = Scheme(name="gopher", names=_NAMES, default_port=70, parse=parse, build=build)
GOPHERS = Scheme(name="gophers", names=_NAMES, default_port=70, parse=parse, build=build, tls=True)
