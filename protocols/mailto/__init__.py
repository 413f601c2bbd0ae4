"""mailto: RFC 1738 3.5, RFC 6068.

A mailto URL names no object: it gives an address, and perhaps a mail that could be sent there. Nothing is
sent, and no program is started.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from protocols.mailto.url import MailtoUrl, build, parse
from protocols.scheme import Dialogue, Scheme

if TYPE_CHECKING:
    from protocols.contract import Gate, Options, Reply

__all__ = ["MAILTO", "MailtoUrl"]


def _open(url: MailtoUrl, gate: Gate) -> AbstractAsyncContextManager[Reply]:
    from protocols.mailto.handler import open_mailto  # parsing a URL needs none of it

    return open_mailto(url, gate)


def _dialogue(url: MailtoUrl, options: Options) -> Dialogue:
    from protocols.mailto.draft import propose  # as above

    return propose(url)


MAILTO = Scheme(
    name="mailto",
    names="mail address",
    default_port=None,
    parse=parse,
    build=build,
    transport=None,
    open=_open,
    dialogue=_dialogue,
)
