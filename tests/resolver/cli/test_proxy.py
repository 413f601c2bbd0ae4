"""The command `proxy`: its options, its output and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import product
from urllib.parse import urlsplit

import pytest
import trio

from resolver.cli.arguments import read
from resolver.cli.help import page
from resolver.cli.values import UsageError
from tests.hang import HANG
from tests.resolver.cli.command import fill_pipe
from tests.sampled import sampled

RUN = (sys.executable, "-W", "error", "-m", "resolver", "proxy", "--config", "none")


async def refuse(url: str) -> bytes:
    """Ask the proxy for a private address, and return its answer."""
    place = urlsplit(url)
    async with await trio.open_tcp_stream(str(place.hostname), int(place.port or 0)) as stream:
        await stream.send_all(b"CONNECT 10.0.0.1:443 HTTP/1.1\r\nHost: 10.0.0.1:443\r\n\r\n")
        return b"".join([part async for part in stream])


ENDS = ((signal.SIGINT, 130), (signal.SIGTERM, 143))


ROWS = sampled(product([(), ("--json",), ("-q",)], ENDS), lambda row: row[0])


@pytest.mark.parametrize(("options", "end"), ROWS)
async def test_proxy_refuses_private_address_and_ends_on_signal(
    options: tuple[str, ...], end: tuple[signal.Signals, int]
) -> None:
    number, status = end
    with trio.fail_after(HANG):
        process = await trio.lowlevel.open_process(
            [*RUN, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stderr is not None
        first = b""
        while not first.endswith(b"\n"):
            first += await process.stdout.receive_some()
        url = json.loads(first)["url"] if "--json" in options else first.decode().strip()
        answer = await refuse(url)
        process.send_signal(number)
        out = b"".join([part async for part in process.stdout])
        errors = b"".join([part async for part in process.stderr])
        assert await process.wait() == status
    assert answer.startswith(b"HTTP/1.1 403 ")
    if "--json" in options:
        record = json.loads(out)
        assert (record["action"], record["rule"], record["host"], record["port"]) == (
            "refused", "S08", "10.0.0.1", 443
        )  # fmt: skip
        assert errors == b""
    elif "-q" in options:
        assert (out, errors) == (b"", b"")
    else:
        assert out == b""
        assert errors.startswith(b"refused CONNECT 10.0.0.1 port 443 for 127.0.0.1: S08: ")


async def test_proxy_with_unread_output_serves_and_ends() -> None:
    """A decision waits until its JSON line is written. Other clients and signals do not wait."""
    unread, full = os.pipe()
    with trio.fail_after(HANG):
        process = await trio.lowlevel.open_process([*RUN, "--json"], stdout=full)
        await trio.lowlevel.wait_readable(unread)
        url = json.loads(os.read(unread, 4_096))["url"]
        fill_pipe(full)
        os.close(full)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refuse, url)
            for _ in range(20):
                place = urlsplit(url)
                async with await trio.open_tcp_stream(str(place.hostname), int(place.port or 0)) as stream:
                    await stream.send_eof()
                    assert await stream.receive_some() == b""
            process.terminate()
            assert await process.wait() == 143
    os.close(unread)


@pytest.mark.parametrize(
    "words",
    [
        ["http://h.example/"],
        ["--listen", "192.0.2.1", "--policy", "default"],
        ["--proxy", "http://h.example"],
    ],
)
def test_proxy_rejects_options_without_effect(words: list[str]) -> None:
    with pytest.raises(UsageError):
        read(["proxy", "--config", "none", *words])


@pytest.mark.parametrize(("words", "policy"), [([], "untrusted"), (["--policy", "default"], "default")])
def test_proxy_has_policy_untrusted_by_default(words: list[str], policy: str) -> None:
    command = read(["proxy", "--config", "none", *words])
    assert command is not None
    assert command.policy == policy


@pytest.mark.parametrize(("verb", "policy"), [("proxy", "untrusted"), ("serve", "default")])
def test_help_marks_default_policy_of_command(verb: str, policy: str) -> None:
    line = next(line for line in page((verb,), 100).splitlines() if "--policy NAME" in line)
    assert f"{policy} (default)" in line
    assert line.count("(default)") == 1
