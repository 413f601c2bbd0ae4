"""telnet and telnets: RFC 1738 3.8 (the URL), RFC 854 (the service, which this build only announces).

User and password are advice for the person at the terminal; they are never sent.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from protocols.scheme import Dialogue, Scheme
from protocols.telnet.url import TelnetUrl, build, parse

if TYPE_CHECKING:
    from protocols.contract import Gate, Options, Reply

__all__ = ["TELNET", "TELNETS", "TelnetUrl"]


def _open(url: TelnetUrl, gate: Gate) -> AbstractAsyncContextManager[Reply]:
    from protocols.telnet.handler import open_telnet  # parsing a URL needs none of it

    return open_telnet(url, gate)


def _dialogue(url: TelnetUrl, options: Options) -> Dialogue:
    from protocols.telnet.dialogue import announce  # as above

    return announce()


TELNET = Scheme(
    name="telnet",
    names="interactive service",
    default_port=23,
    parse=parse,
    build=build,
    open=_open,
    dialogue=_dialogue,
)
TELNETS = TELNET._replace(name="telnets", default_port=992, tls=True)
