"""prospero: RFC 1738 3.11 (the URL), the Prospero protocol over ARDP."""

from __future__ import annotations

from protocols.prospero.url import ProsperoUrl, build, parse
from protocols.scheme import Scheme

__all__ = ["PROSPERO", "ProsperoUrl"]

PROSPERO = Scheme(
    name="prospero",
    names="link to other URLs",
    default_port=1525,
    parse=parse,
    build=build,
    transport="udp",
)
