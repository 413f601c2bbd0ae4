"""An error never repeats what a header says (S17): not in its words, not in those of what caused it."""

from __future__ import annotations

import traceback

import httpx
import pytest

from resolver import HttpxTransport, Options, ResolveError, Resolver
from tests.resolver.gate.peers import closed_port

_SECRET = "s3cret"

#: Whatever is wrong with them, or with what they stand in.
NAMES = [
    *("Authorization", "Cookie", "X-Api-Key", "User-Agent", "Host", "Content-Length", "Transfer-Encoding"),
    *("Connection", "Expect", "Upgrade", "TE", "Range", "Accept-Encoding", "no name", "Cookie\r\nX", ""),
]
_ODD = ("", "\0", "\r", "\n", "\r\n", "\v", "\f", "\x01", "\x7f", "\xff")
VALUES = [f"Bearer {_SECRET}{octet}x" for octet in _ODD]


def everything_told(error: BaseException) -> str:
    """What a log would have of it, and whatever hangs on it."""
    told = "".join(traceback.format_exception(error))
    chained = [each for each in (error.__cause__, error.__context__) if each is not None]
    return "".join([told, repr(error), *(everything_told(each) for each in chained)])


@pytest.mark.parametrize("name", NAMES)
async def test_of_a_client(name: str) -> None:
    with closed_port() as port:
        async with httpx.AsyncClient(transport=HttpxTransport()) as client:
            for value in VALUES:
                headers = httpx.Headers([(name.encode("latin-1"), value.encode("latin-1"))])
                with pytest.raises(httpx.TransportError) as caught:
                    await client.get(f"http://127.0.0.1:{port}/", headers=headers)
                assert _SECRET not in everything_told(caught.value)


@pytest.mark.parametrize("name", NAMES)
async def test_of_a_url(name: str) -> None:
    with closed_port() as port:
        for value in VALUES:
            options = Options(headers=((name.encode("latin-1"), value.encode("latin-1")),))
            async with Resolver(options=options) as session:
                with pytest.raises(ResolveError) as caught:
                    await session.fetch(f"http://127.0.0.1:{port}/")
            assert _SECRET not in everything_told(caught.value)
