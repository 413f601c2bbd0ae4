"""A server that is made of transcripts says what the one says whose client says the same."""

from __future__ import annotations

import ssl

import pytest
import trio

from resolver.testing import parse_transcript
from resolver.testing.contract import answering
from resolver.testing.contract.serving import TranscriptServer

ONE = parse_transcript("# made\nU: t://h/\nS: hi\nC: a\\r\\n\nS: one\nE: close\n", "one")
TWO = parse_transcript("# made\nU: t://h/\nS: hi\nC: b\\r\\n\nS: two\nC: c\\r\\n\nS: end\nE: close\n", "two")
CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


async def talk(port: int, *words: bytes) -> bytes:
    heard = b""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        for word in words:
            heard += bytes(await stream.receive_some())
            await stream.send_all(word)
        while octets := await stream.receive_some():
            heard += octets
    return heard


@pytest.mark.parametrize(
    ("words", "heard"),
    [((b"a\r\n",), b"hione"), ((b"b\r\n", b"c\r\n"), b"hitwoend"), ((b"x\r\n",), b"hi")],
)
async def test_it_answers(nursery: trio.Nursery, words: tuple[bytes, ...], heard: bytes) -> None:
    server = await answering(ONE, TWO)(nursery, CONTEXT)
    assert isinstance(server, TranscriptServer)
    assert [await talk(server.port, *words), await talk(server.port, *words)] == [heard, heard]
    assert server.heard == [b"".join(words)] * 2
    assert server.strange == ([b"x\r\n"] * 2 if heard == b"hi" else [])
