"""The command line: accepted arguments, and usage errors with status 2."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from fixtures.http import serve
from resolver.cli import main
from resolver.cli.arguments import read
from resolver.cli.session_settings import make_limits, make_policy
from resolver.cli.values import BadValue, count, seconds, size
from tests.resolver.cli.command import resolve


def test_read_without_command_defaults_to_get() -> None:
    bare, named = read(["gopher://h.example/"]), read(["get", "gopher://h.example/"])
    assert bare is not None
    assert named is not None
    assert vars(bare) == vars(named)
    assert bare is not None
    assert bare.verb == "get"


@pytest.mark.parametrize(
    ("argv", "verb", "urls"),
    [
        (["-q", "cat", "gopher://h.example/"], "cat", ("gopher://h.example/",)),
        (["--max-size", "2k", "ls", "-q", "gopher://h.example/"], "ls", ("gopher://h.example/",)),
        # the value of -O, not a command
        (["-O", "ls", "gopher://h.example/"], "get", ("gopher://h.example/",)),
        (["gopher://h.example/", "ls"], "get", ("gopher://h.example/", "ls")),
        (["cat", "cat"], "cat", ("cat",)),
        (["cat", "--", "-x:", "--"], "cat", ("-x:", "--")),
        (["--", "-q"], "get", ("-q",)),
        (["extract"], "extract", ()),
    ],
)
def test_read_first_argument_selects_command(argv: list[str], verb: str, urls: tuple[str, ...]) -> None:
    command = read(argv)
    assert command is not None
    assert (command.verb, command.urls) == (verb, urls)


def test_read_accepts_options_in_any_position() -> None:
    command = read(["cat", "-q", "gopher://a/", "--max-size", "2k", "gopher://b/", "--allow-port", "7070"])
    assert command is not None
    assert command.urls == ("gopher://a/", "gopher://b/")
    assert make_limits(command).body == 2048
    assert make_limits(command).body_everywhere
    assert make_policy(command).allow_port == frozenset({7070})


def test_limit_option_sets_named_limits() -> None:
    command = read(["cat", "x:", "--limit", "line=100", "--limit", "idle=0.5", "--connect-timeout", "3"])
    assert command is not None
    limits = make_limits(command)
    assert (limits.line, limits.idle, limits.connect) == (100, 0.5, 3.0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2.0),
        ("0.5", 0.5),
        (".25", 0.25),
        ("500ms", 0.5),
        ("90s", 90.0),
        ("2m", 120.0),
        ("1.5h", 5_400.0),
        ("1h30m", 5_400.0),
        ("1d2h3m4s5ms", 93_784.005),
        ("1m500ms", 60.5),
    ],
)
def test_duration_options_accept_units(text: str, value: float) -> None:
    names = ("--max-time", "--connect-timeout", "--idle-timeout", "--retry-delay", "--for")
    options = [word for name in names for word in (name, text)]
    command = read(["cat", "telnet://h/", *options, "--limit", f"head={text}"])
    assert command is not None
    limits = make_limits(command)
    assert (limits.total, limits.connect, limits.idle, limits.head) == (value,) * 4
    assert (command.retry_delay, command.during) == (value, value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "m",
        "0m",
        "0h0s",
        "5 m",
        "5M",
        "5min",
        "30m1h",
        "1h1h",
        "-1s",
        "1e3s",
        "٣s",
        "1.m",
        "1h 30m",
        "1h30",
    ],
)
@pytest.mark.parametrize("option", ["--max-time", "--retry-delay"])
def test_invalid_duration_is_usage_error(option: str, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([f"{option}={text}", "http://127.0.0.1:1/"]) == 2
    assert option in capfd.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["get"],
        ["cat", "--json"],
        ["x:", "--nonsense"],
        ["gte", "x:"],
        ["nonsense"],
        ["", "x:"],
        ["--", "gte", "x:"],
        ["GET", "x:"],
        ["x:", "--allow-port", "0"],
        ["x:", "--allow-port", "65536"],
        ["x:", "--allow-port", "٣"],
        ["x:", "--allow-address", "10.0.0.0/99"],
        ["x:", "--allow-redirect", "file"],
        ["x:", "--limit", "line"],
        ["x:", "--limit", "color=3"],
        ["x:", "--limit", "line=-1"],
        ["x:", "--limit", "head=0"],
        ["x:", "--limit", "total=inf"],
        ["x:", "--limit", "quota=0"],  # no quota in wget
        ["bulk", "list", "--dry-run", "--limit", "quota=1M"],
        ["x:", "--max-size", "k"],
        ["x:", "--max-size", "9" * 30],
        ["x:", "--idle-timeout", "0"],
        ["x:", "--idle-timeout", "nan"],
        ["x:", "--max-time", "inf"],
        ["x:", "-j", "0"],
        ["x:", "--policy", "none"],
        ["x:", "--origin", "me"],
        ["x:", "--gateway", "x-foo"],
        ["x:", "-4", "-6"],
        ["x:", "y:", "-O", "file"],
        ["x:", "-O", ""],
        ["x:", "y:", "--mirror", "http://h/x"],
        ["-i", "list", "--mirror", "http://h/x"],
        ["-r", "x:", "--mirror", "http://h/x"],
        ["x:", "--ledger", "a", "--failed", "./a"],
        ["ledger", "a", "--failed=a"],
        ["x:", "--warc", "a.warc", "-O", "a.warc"],
        ["x:", "--trace", "a", "--trace-html", "a"],
        ["x:", "--failed", "-"],
        ["x:", "--trace", "-"],
        ["x:", "--ledger", "-"],
        ["x:", "-O", "a", "-d", "b", "--failed", "b/a"],
        ["x:", "-d", ""],
        ["x:", "-i", ""],
        ["x:", "--cacert", ""],  # an unset variable of a script: the default trust must not apply
        ["x:", "--referrer", "nonsense"],
        ["x:", "--gateway", "x foo=http://h.example/"],
        ["x:", "--gateway", "ftp=http://h.example/"],  # the user would expect ftp URLs to go to the gateway
        ["x:", "--gateway", "x-foo=nonsense"],
        ["x:", "--gateway", "x-foo="],
        ["cat", "x:", "-O", "file"],
        ["ls", "x:", "-d", "folder"],
        ["schemes", "ftp"],
        ["x:", "--trace", "a\0b"],
        ["x:", "--max"],  # no abbreviations: a new option must not change the meaning of an old script
    ],
)
def test_invalid_arguments_exit_with_status_2(argv: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("resolve: ")


@pytest.mark.parametrize("words", ["bulk list --out out --warc", "ledger file --failed"])
def test_option_without_file_is_accepted(words: str) -> None:
    assert read(words.split()) is not None


@pytest.mark.parametrize(
    "words",
    [
        ["-x", "PROXY", "URL"],
        ["-xPROXY", "URL"],
        ["-x=PROXY", "URL"],
        ["-qx", "PROXY", "URL"],
        ["-qxPROXY", "URL"],
        ["cat", "URL", "-x", "PROXY"],
        ["URL", "-x"],
    ],
)
async def test_curl_proxy_short_option_sends_nothing(
    words: list[str], nursery: trio.Nursery, tmp_path: Path
) -> None:
    server, proxy = await serve(nursery), await serve(nursery)
    urls = {"URL": server.url("/data"), "PROXY": proxy.url("").replace("//", "//user:secret@")}
    argv = [word.replace("PROXY", urls["PROXY"]).replace("URL", urls["URL"]) for word in words]
    done = await trio.to_thread.run_sync(partial(resolve, *argv, folder=tmp_path))
    assert (done.status, done.out) == (2, b"")
    assert b"-x; did you mean --proxy URL, or --segments N?" in done.err
    assert b"secret" not in done.err
    assert (server.connections, proxy.connections, os.listdir(tmp_path)) == (0, 0, [])


NUMBERS = (
    "--max-size",
    "--min-rate",
    "--entries",
    "-t",
    "-j",
    "--retry-delay",
    "--max-time",
    "--idle-timeout",
)
NO_NUMBERS = ("", "-1", "nan", "inf", "x", " 1", "1 ", "1_0", "+1", "1e3", "0x1", "١", "9" * 40, "1.", "k")


@pytest.mark.parametrize("kind", [count, size, seconds])
@pytest.mark.parametrize("text", NO_NUMBERS)
def test_invalid_number_raises_bad_value(kind: Callable[[str], object], text: str) -> None:
    with pytest.raises(BadValue, match=r"expected .* got "):
        kind(text)


@pytest.mark.parametrize("flag", NUMBERS)
def test_numeric_option_with_invalid_value_names_option(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cat", "x:", flag, "1_0"]) == 2
    message = capsys.readouterr().err
    assert flag in message
    assert "got '1_0'" in message


def test_option_value_with_dash_requires_equals_sign(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cat", "x:", "--search", "-v"]) == 2
    assert "OPTION=VALUE" in capsys.readouterr().err
    command = read(["cat", "x:", "--search=-v"])
    assert command is not None
    assert command.url_options == [("search", "-v")]


def test_gateway_scheme_is_lowercased() -> None:
    command = read(["X-Foo:a", "--gateway", "X-Foo=http://h.example/?u="])
    assert command is not None
    assert command.gateways == {"x-foo": "http://h.example/?u="}


def test_policy_error_names_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cat", "x:", "--allow-address", "everywhere"]) == 2
    assert "--allow-address: 'everywhere'" in capsys.readouterr().err


def test_help_and_version_exit_with_status_0(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capfd.readouterr().out.startswith("resolve ")
    assert main(["--help"]) == 0
    assert "extract" in capfd.readouterr().out
