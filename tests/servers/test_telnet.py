"""A transcript of a session with a real telnetd, which waits for the answer to each of its options."""

from __future__ import annotations

import asyncio

import pytest
import trio

import resolver
from resolver import Options, Policy, TelnetUrl, Transcript, Truncated, prompt
from tests.cli.command import resolve

PROMPT = prompt(rb"(login: |\$ )")


def options(*send: bytes, seconds: float | None = None) -> Options:
    return Options(transcript=Transcript(prompt=PROMPT, send=send, seconds=seconds))


def policy(url: str) -> Policy:
    parsed = resolver.parse(url)
    assert isinstance(parsed, TelnetUrl)
    assert parsed.port is not None
    return Policy(allow_port={parsed.port})


@pytest.mark.parametrize("run", [trio.run, lambda main: asyncio.run(main())], ids=["trio", "asyncio"])
def test_a_session_is_written_down(telnetd: str, run: object) -> None:
    async def main() -> resolver.Response:
        wanted = options(b"guest", b"size", seconds=60)
        return await resolver.fetch(telnetd, options=wanted, policy=policy(telnetd))

    assert callable(run)
    response = run(main)
    assert response.content == b"login: guest\nhello guest\n$ size\n24 80\ndumb\ncaf\xc3\xa9 \xff\n$ "
    assert (response.verified, response.findings) == (("terminator",), ())


async def test_it_leaves_before_all_was_said(telnetd: str) -> None:
    with pytest.raises(Truncated) as error:
        await resolver.fetch(telnetd, options=options(b"a", b"b", b"c", b"d"), policy=policy(telnetd))
    assert error.value.exit_code == 10


def test_from_the_shell(telnetd: str) -> None:
    port = telnetd.rstrip("/").rpartition(":")[2]
    done = resolve(
        *("cat", "-q", "--allow-port", port, "--until", "(login: |[$] )", "--send", "guest", telnetd)
    )
    assert (done.status, done.out) == (0, b"login: guest\nhello guest\n$ ")
