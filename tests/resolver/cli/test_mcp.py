"""`resolve mcp` with the client of the SDK.

The client uses the standard streams of a separate process, or memory streams if the transport is irrelevant.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client
from mcp.shared.memory import create_client_server_memory_streams
from mcp_types import CallToolResult, EmbeddedResource, TextContent

from fixtures.ports import serve_connections
from resolver.cli.arguments import read
from resolver.cli.streams import MAX_LINE
from resolver.cli.values import UsageError
from tests.begun import AGENTS, Program
from tests.fresh import environment
from tests.hang import HANG
from tests.resolver.cli.command import hide_library, resolve
from tests.resolver.cli.places import Places

CHECKOUT = Path(__file__).parents[3]
RUN = ["-W", "error", "-m", "resolver", "mcp", "--config", "none"]


def permission_options(places: Places) -> list[str]:
    """Return the options that allow agents to contact the servers of these tests."""
    ports = {url.rpartition(":")[2] for url in places.values()}
    options = [word for port in sorted(ports) if port.isdigit() for word in ("--allow-port", port)]
    return ["--allow-address", "127.0.0.0/8", *options]


@asynccontextmanager
async def process_session(*options: str) -> AsyncIterator[ClientSession]:
    parameters = StdioServerParameters(
        command=sys.executable, args=[*RUN, *options], cwd=CHECKOUT, env=environment()
    )
    with trio.fail_after(HANG):
        async with stdio_client(parameters) as (reader, message), ClientSession(reader, message) as session:
            await session.initialize()
            yield session


@asynccontextmanager
async def memory_session(*options: str) -> AsyncIterator[ClientSession]:
    """Start the server in this process, with memory streams: the messages are the same."""
    from resolver.adapters.mcp import server
    from resolver.cli.mcp import make_grant

    command = read(["mcp", "--config", "none", *options])
    assert command is not None
    served = server(make_grant(command))
    with trio.fail_after(HANG):
        async with create_client_server_memory_streams() as (here, there), trio.open_nursery() as nursery:
            nursery.start_soon(served.run, *there, served.create_initialization_options())
            async with ClientSession(*here) as session:
                await session.initialize()
                yield session
            nursery.cancel_scope.cancel()


def facts(result: CallToolResult) -> dict[str, Any]:
    """Return the record, which is also the first text for the model."""
    (first, *_) = result.content
    assert isinstance(first, TextContent)
    assert json.loads(first.text) == result.structured_content
    members: dict[str, Any] = result.structured_content
    return members


def body(result: CallToolResult) -> str:
    (_, second) = result.content
    assert isinstance(second, TextContent)
    return second.text


async def test_mcp_process_answers_tools_and_cancellation(places: Places) -> None:
    """Call every tool and cancel a call, all in one process: its start is the largest cost."""
    async with process_session(*permission_options(places)) as session:
        await try_every_tool(session, places)
        await cancel_a_call(session)
        about = f"{places['http']}/about.txt"
        assert facts(await session.call_tool("check", {"url": about}))["action"] == "allow"


async def try_every_tool(session: ClientSession, places: Places) -> None:
    assert [tool.name for tool in (await session.list_tools()).tools] == [
        *("fetch", "list", "info", "explain", "check")
    ]
    about = f"{places['http']}/about.txt"
    for url, text in (
        (about, "A text of two lines.\nThe second one.\n"),
        (f"{places['ftp']}/pub/a.txt", "line one\nline two\n\nlast line\n"),
        (f"{places['gopher']}/00/about", "A text of two lines.\nThe second one.\n"),
        (f"{places['prospero']}/AFTP/pub/hello.txt", "hello prospero\n"),
    ):
        fetched = await session.call_tool("fetch", {"url": url})
        assert (fetched.is_error, body(fetched)) == (False, text)
        assert facts(fetched)["requested_url"] == url
        assert facts(fetched)["next_cursor"] is None
    listed = facts(await session.call_tool("list", {"url": f"{places['ftp']}/pub/", "entries": 2}))
    names = [entry["name"] for entry in listed["entries"]]
    while listed["next_cursor"]:
        listed = facts(await session.call_tool("list", {"cursor": listed["next_cursor"], "entries": 2}))
        names += [entry["name"] for entry in listed["entries"]]
    assert names[:4] == ["a.bin", "a.txt", "bare-cr.txt", "crlf.txt"]
    assert len(names) == listed["total"]
    info = facts(await session.call_tool("info", {"url": about}))
    assert (info["kind"], info["size"]) == ("document", 37)
    plan = facts(await session.call_tool("explain", {"url": about}))
    assert (plan["verdict"], plan["steps"][1]["action"]) == ("allow", "connect")
    assert "GET /about.txt HTTP/1.1\\x0d\n" in plan["steps"][2]["octets"]
    assert facts(await session.call_tool("check", {"url": about}))["action"] == "allow"


async def cancel_a_call(session: ClientSession) -> None:
    """Cancel a call: its connection is closed, and the MCP server keeps running."""
    octets, rest = trio.Event(), trio.Event()

    async def never_answer(stream: trio.SocketStream) -> None:
        async with stream:
            while await stream.receive_some():
                octets.set()
        rest.set()

    async with trio.open_nursery() as nursery:
        url = f"http://127.0.0.1:{await serve_connections(nursery, never_answer)}/"
        async with trio.open_nursery() as calls:
            calls.start_soon(session.call_tool, "fetch", {"url": url})
            await octets.wait()
            calls.cancel_scope.cancel()
        await rest.wait()
        nursery.cancel_scope.cancel()


HOSTILE = "a\x1b]0;owned\x07\r\nb\u202ec\x9bd \U000e0069\U000e0067 é\n"
SHOWN = "a\\x1b]0;owned\\x07\nb\\u202ec\\x9bd \\U000e0069\\U000e0067 é\n"
#: A text, and a menu whose only item has a similar name.
TEXT = f"HTTP/1.0 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{HOSTILE}".encode()
MENU = "0a\u202eb \U000e0069\t/a\x9b\th.example\t70\r\n.\r\n".encode()


async def start_replying_peer(nursery: trio.Nursery, words: bytes) -> str:
    """Start a peer that replies `words` to any data, and return its host and port."""

    async def say(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(words)

    return f"127.0.0.1:{await serve_connections(nursery, say)}"


async def test_mcp_hostile_text_is_escaped_and_paged(nursery: trio.Nursery) -> None:
    text, menu = await start_replying_peer(nursery, TEXT), await start_replying_peer(nursery, MENU)
    long = await start_replying_peer(
        nursery, b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" + b"one line\n" * 9
    )
    port = menu.partition(":")[2]
    async with memory_session("--allow-address", "127.0.0.1", "--allow-port", port) as session:
        assert body(await session.call_tool("fetch", {"url": f"http://{text}/"})) == SHOWN
        (entry,) = facts(await session.call_tool("list", {"url": f"gopher://{menu}/1"}))["entries"]
        assert entry["name"] == "a\\u202eb \\U000e0069"
        assert entry["url"] == "gopher://h.example/0/a%C2%9B"
        page = await session.call_tool("fetch", {"url": f"http://{long}/", "characters": 20})
        pages = [body(page)]
        while cursor := facts(page)["next_cursor"]:
            page = await session.call_tool("fetch", {"cursor": cursor, "characters": 20})
            pages.append(body(page))
        assert pages == ["one line\n" * 2] * 4 + ["one line\n"]
    nursery.cancel_scope.cancel()


async def test_mcp_failures_have_code_and_rule(places: Places) -> None:
    async with memory_session(*permission_options(places), "--max-size", "30000") as session:
        for tool, url, code, status, rule in (
            ("fetch", f"{places['http']}/bomb", "LimitExceeded", 14, None),
            ("fetch", f"{places['short']}/", "Truncated", 10, None),
            ("fetch", f"{places['to_file']}/", "Refused", 15, "S10"),
            ("fetch", "file:///etc/passwd", "Refused", 9, "S12"),
            ("fetch", "http://10.0.0.1/", "Refused", 9, "S08"),
            ("fetch", "http://[::ffff:169.254.169.254]/", "Refused", 9, "S08"),
            ("list", "ftp://127.0.0.1:25/", "Refused", 9, "S04"),
            ("info", "http://0x7f000001/", "InvalidUrl", 12, "S01"),
            ("info", "gopher://127.0.0.1/0x%0D%0AQUIT", "Refused", 9, "S02"),
            ("fetch", "nosuch:thing", "UnsupportedScheme", 13, "S19"),
            ("fetch", f"{places['http']}/nothing/here", "NotFound", 8, None),
        ):
            failed = await session.call_tool(tool, {"url": url})
            assert failed.is_error, url
            error = facts(failed)["error"]
            assert (error["code"], facts(failed)["exit"], error.get("rule")) == (code, status, rule), url
        for misuse in (
            {},
            {"url": "x:", "cursor": "1-1"},
            {"cursor": "7-1"},
            {"url": 3},
            {"url": "x:", "a": 1},
        ):
            failed = await session.call_tool("fetch", misuse)
            assert (failed.is_error, facts(failed)["exit"]) == (True, 2), misuse
        with pytest.raises(MCPError, match="'delete'"):
            await session.call_tool("delete", {"url": "x:"})


async def test_mcp_does_not_contact_addresses_without_permission(
    nursery: trio.Nursery,
) -> None:
    """Other spellings of the address are refused, too."""
    visits = []

    async def visited(stream: trio.SocketStream) -> None:
        visits.append(stream)
        await stream.aclose()

    port = await serve_connections(nursery, visited)
    async with memory_session() as session:
        for host in ("127.0.0.1", "localhost", "a.localhost", "[::ffff:127.0.0.1]", "2130706433", "127.1"):
            for tool in ("fetch", "list", "info"):
                refused = await session.call_tool(tool, {"url": f"http://{host}:{port}/"})
                assert facts(refused)["error"]["rule"] in ("S01", "S08")
            verdict = await session.call_tool("check", {"url": f"http://{host}:{port}/"})
            assert facts(verdict)["action"] == "refuse"
    assert visits == []
    nursery.cancel_scope.cancel()


async def test_mcp_fetch_binary_returns_blob(places: Places) -> None:
    async with memory_session(*permission_options(places)) as session:
        image = await session.call_tool("fetch", {"url": f"{places['ftp']}/pub/a.bin"})
        assert facts(image)["form"] == "binary"
        (_, blob) = image.content
        assert isinstance(blob, EmbeddedResource)


def start(stdin: int | None = None) -> Program:
    words = ["mcp", "--config", "none"]
    return Program(words, loaded=AGENTS, environment=environment(), stdin=stdin)


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def encode_line(message: dict[str, object]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def call(tool: str, arguments: object) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return encode_line({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})


def answers(program: Program, wanted: int) -> list[dict[str, Any]]:
    return [json.loads(program.stdout.readline()) for _ in range(wanted)]


def test_mcp_invalid_json_is_answered_and_session_continues() -> None:
    with start() as program:
        for line in (b"garbage \x1b[31m", b"\xff\xfe\0", b"", b"[" * 9_000, b'"' + b"x" * MAX_LINE + b'"'):
            program.stdin.write(line + b"\n")
            program.stdin.flush()
            (answer,) = answers(program, 1)
            assert (answer["id"], answer["error"]["code"]) == (None, -32700)
        for line in (b"{}", b"[]", b'"' + b"\\u001b" * 100_000 + b'"'):
            program.stdin.write(line + b"\n")
        program.stdin.write(encode_line(INITIALIZE))
        program.stdin.write(encode_line({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        program.stdin.write(b"garbage again\n" + call("check", {"url": "http://h.example/\x1b"}))
        program.stdin.flush()
        result = {answer["id"]: answer for answer in answers(program, 3)}  # in any order
        assert result[None]["error"]["code"] == -32700
        first, second = result[1], result[2]
        assert first["result"]["serverInfo"]["name"] == "resolve"
        assert second["result"]["structuredContent"]["findings"][0]["rule"] == "S01"
        program.stdin.close()
        assert program.wait() == 0
        assert program.stderr.read() == b""


#: JSON texts of IDs, and of URLs, with which the SDK reads no request; and the ID in the answer.
INVALID_REQUESTS = [
    ("7", '"http://h.example/\\ud800"', 7),
    ('"a"', '"\\udfff"', "a"),
    ('"a\\ud800"', '""', None),
    ("true", '"\\ud800"', None),
    *((number, '"http://h.example/"', None) for number in ("null", "true", "1.5", "[1]", "{}")),
]


def test_mcp_invalid_request_is_answered() -> None:
    with start() as program:
        for sent, url, expected in INVALID_REQUESTS:
            arguments = b'{"name": "check", "arguments": {"url": %b}}' % url.encode()
            head = b'{"jsonrpc": "2.0", "id": %b, "method": "tools/call", "params": ' % sent.encode()
            program.stdin.write(head + arguments + b"}\n")
            program.stdin.flush()
            (answer,) = answers(program, 1)
            assert (answer["id"], answer["error"]["code"]) == (expected, -32600)


def test_mcp_with_closed_stdout_exits_silently() -> None:
    with start() as program:
        program.stdout.close()
        program.stdin.write(encode_line(INITIALIZE))
        program.stdin.flush()
        assert program.wait() == 141
        assert program.stderr.read() == b""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_mcp_listen_prints_url_and_token_until_signal(number: int, status: int) -> None:
    words = ["mcp", "--config", "none", "--listen", "127.0.0.1"]
    with Program(words, loaded=AGENTS, environment=environment(), stdin=None) as program:
        url = program.stdout.readline().decode().strip()
        name, _, token = program.stdout.readline().decode().strip().partition(": ")
        assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+/mcp", url)
        assert (name, token[:7]) == ("Authorization", "Bearer ")
        for headers, code in (({}, 401), ({name: token}, 400)):
            request = urllib.request.Request(url, b"{}", {**headers, "Content-Type": "application/json"})
            with pytest.raises(urllib.error.HTTPError) as refused, urllib.request.urlopen(request):
                pass
            with refused.value:
                assert refused.value.code in (code, 406)
                assert (refused.value.code == 401) == (code == 401)
        os.kill(program.pid, number)
        assert program.wait() == status


@pytest.mark.parametrize(
    ("output", "words"), [(" > /dev/full", "No space left on device"), (" >&-", "it is closed")]
)
def test_mcp_listen_without_output_fails(output: str, words: str) -> None:
    program = [sys.executable, "-W", "error", "-m", "resolver", "mcp", "--config", "none"]
    line = shlex.join([*program, "--listen", "127.0.0.1"]) + output
    done = subprocess.run(
        ["sh", "-c", line], cwd=CHECKOUT, env=environment(), stderr=subprocess.PIPE, text=True, check=False
    )
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--listen", "192.0.2.1"], "loopback"),
        (["--listen", "0.0.0.0"], "one address of this machine"),
        (["--port", "8080"], "--port needs --listen"),
    ],
)
def test_mcp_listen_needs_loopback_address(options: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read(["mcp", "--config", "none", *options])


def test_mcp_ignores_configured_listen_address(tmp_path: Path) -> None:
    (tmp_path / "config").write_text('listen = "127.0.0.1"\nport = 8080\n')
    command = read(["mcp", "--config", str(tmp_path / "config")])
    assert command is not None
    assert command.listen is None


def test_mcp_on_terminal_prints_hint() -> None:
    keyboard, terminal = os.openpty()
    with start(terminal) as program:
        os.close(terminal)
        assert program.stderr.readline().startswith(b"resolve: mcp: waiting for an MCP client")
        os.write(keyboard, b"help\n\x04")
        assert program.wait() == 0
        assert (program.stdout.read().count(b"\n"), program.stderr.read()) == (1, b"")
    os.close(keyboard)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_mcp_signal_ends_waiting_server(number: int, status: int) -> None:
    with start() as program:
        program.stdin.write(encode_line(INITIALIZE))
        program.stdin.flush()
        answers(program, 1)
        os.kill(program.pid, number)
        assert program.wait() == status
        assert program.stderr.read() == b""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--policy", "default"], "--policy.*untrusted"),
        (["--policy", "cautious"], "--policy"),
        (["-H", "Authorization: x"], "--header"),
        (["--user", "me"], "--user"),
        (["--netrc"], "--netrc"),
        (["--cut-dirs", "0"], "--cut-dirs"),
    ],
)
def test_mcp_options_that_override_policy_are_refused(options: Sequence[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read(["mcp", "--config", "none", *options])


def test_mcp_policy_is_always_untrusted(tmp_path: Path) -> None:
    from resolver.cli.mcp import make_grant

    (tmp_path / "config").write_text('policy = "default"\nallow_address = ["192.0.2.0/24"]\n')
    command = read(["mcp", "--config", str(tmp_path / "config"), "--allow-port", "8070", "--max-size", "1k"])
    assert command is not None
    grant = make_grant(command)
    assert grant.policy.name == "untrusted"
    assert (grant.policy.allow_address, grant.policy.allow_port) == ({"192.0.2.0/24"}, {8070})
    assert (grant.limits.body, grant.limits.body_everywhere) == (1024, True)
    assert grant.policy.allowed_hosts is None
    command = read(
        ["mcp", "--config", "none", "--allowed-hosts", "A.example", "--allowed-hosts", "b.example"]
    )
    assert command is not None
    assert make_grant(command).policy.allowed_hosts == {"a.example", "b.example"}


def test_mcp_without_extra_names_package(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_library(monkeypatch, "mcp", "resolver.adapters.mcp")
    done = resolve("mcp", "--config", "none")
    assert (done.status, done.out) == (13, b"")
    assert done.messages == "resolve: mcp needs mcp 2 or later (the extra mcp): pip install mcp\n"


@pytest.mark.parametrize("words", [["http://h.example/"], ["-i", "list"]])
def test_mcp_with_url_is_usage_error(words: list[str]) -> None:
    with pytest.raises(UsageError, match=r"^mcp .*\bURL\b"):
        read(["mcp", *words])
