"""COMPRESS DEFLATE (RFC 8054) for what will be long: the overview of many articles, the list of all groups.

An article or a short listing is never worth the two commands more. A connection that is compressed stays so;
who has to log in, or wants TLS, goes on with another one, so that no secret is compressed along with what a
peer chose (RFC 8054 section 6).
"""

from __future__ import annotations

from protocols.errors import ProtocolError
from protocols.news.commands import NntpCommand, NntpVerb
from protocols.news.response import NntpResponse
from protocols.news.session import NntpSession
from protocols.step import Dialogue, StartPacking

#: Articles of which the overview is worth it: some 160 kB, which become 14 (measured with INN).
WORTH = 1_000


def compress(session: NntpSession, user: bytes | None) -> Dialogue[None]:
    """Ask for it where nothing speaks against it: not for the `user` of a URL, who may have to log in yet,
    and not where MODE READER may still be needed. A server that has none, or refuses, is spoken to without.
    """
    state = session.state
    if not session.may_pack or state.packed is not None or (user and not state.logged_in):
        return
    if state.capabilities is None and not state.old:
        yield from session.hear_capabilities(willing=b"COMPRESS DEFLATE")
    offered = state.capabilities
    if offered is None or offered.in_transit or not offered.has(b"COMPRESS", b"DEFLATE"):
        return
    command = NntpCommand(NntpVerb.COMPRESS_DEFLATE)
    response = yield from session.request(command, NntpResponse(206))
    state.packed = False
    if response.refused:
        return
    if response.code != 206:
        raise ProtocolError(f"{response.shown} is no answer to {command}")
    from protocols.news.deflate import Deflate  # brings zlib, which short answers need not

    yield StartPacking(Deflate(state.limits.ratio))
    state.packed = True
