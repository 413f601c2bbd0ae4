"""telnet and telnets: the URL (RFC 1738 3.8) and the service (RFC 854 and 855).

Options are BINARY (RFC 856), ECHO (857), SUPPRESS-GO-AHEAD (858), NAWS (1073) and TERMINAL-TYPE (1091). They
are negotiated by RFC 1143.

- `octets`: commands, options, and the parser of received bytes and line ends
- `terminal`: option negotiation, and the client side of a session
- `dialogue`: describes a service, or records a limited transcript of a session
"""

from __future__ import annotations

from protocols.scheme import Scheme
from protocols.telnet.url import TelnetUrl, build, parse

__all__ = ["TELNET", "TELNETS", "TelnetUrl"]


TELNET = Scheme(
    name="telnet",
    names="interactive service",
    default_port=23,
    parse=parse,
    build=build,
    userinfo=True,
    kept_as="words",
    converse="protocols.telnet.dialogue:converse",
    tls="on request",
)
TELNETS = TELNET._replace(name="telnets", default_port=992, tls="always")
