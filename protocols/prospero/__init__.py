"""prospero: RFC 1738 3.11 (the URL), the Prospero protocol, version 5, over ARDP.

Octets: `packet` (one datagram), `ardp` (one request and its reply) with `peers` (whom to ask), `token`
(lines and quoting). What is said: `target` and `request`, `reply` with `link` and `attribute`,
`access_method` with `mapping`. What a URL comes to: `resolution` and `union`, as questions; `asking` puts
them to servers; `handler` makes a reply of it, with `contents` or `entries`; `dialogue` is the plan.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from protocols.prospero.url import ProsperoUrl, build, parse
from protocols.scheme import Dialogue, Scheme

if TYPE_CHECKING:
    from protocols.contract import Gate, Options, Reply

__all__ = ["PROSPERO", "ProsperoUrl"]


def _open(url: ProsperoUrl, gate: Gate) -> AbstractAsyncContextManager[Reply]:
    from protocols.prospero.handler import open_prospero  # parsing a URL needs none of it

    return open_prospero(url, gate)


def _dialogue(url: ProsperoUrl, options: Options) -> Dialogue:
    from protocols.prospero.dialogue import converse  # as above

    return converse(url, options.want)


PROSPERO = Scheme(
    name="prospero",
    names="link to other URLs",
    default_port=1525,
    parse=parse,
    build=build,
    transport="udp",
    open=_open,
    dialogue=_dialogue,
)
