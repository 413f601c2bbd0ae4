"""The command line: what is taken, what is refused with status 2."""

import pytest

from resolver.cli import main
from resolver.cli.arguments import read
from resolver.cli.bounds import limits_of
from resolver.cli.permissions import policy_of


def test_verb_may_be_left_out() -> None:
    bare, named = read(["gopher://h.example/"]), read(["get", "gopher://h.example/"])
    assert bare == named
    assert bare is not None
    assert bare.verb == "get"


def test_options_stand_anywhere() -> None:
    found = read(["cat", "-q", "gopher://a/", "--max-size", "2k", "gopher://b/", "--allow-port", "7070"])
    assert found is not None
    assert found.urls == ("gopher://a/", "gopher://b/")
    assert limits_of(found.found).body == 2048
    assert limits_of(found.found).body_everywhere
    assert policy_of(found.found).allow_port == frozenset({7070})


def test_limits_by_name() -> None:
    found = read(["cat", "x:", "--limit", "line=100", "--limit", "idle=0.5", "--connect-timeout", "3"])
    assert found is not None
    limits = limits_of(found.found)
    assert (limits.line, limits.idle, limits.connect) == (100, 0.5, 3.0)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["get"],
        ["cat", "--json"],
        ["x:", "--nonsense"],
        ["x:", "--allow-port", "0"],
        ["x:", "--allow-port", "65536"],
        ["x:", "--allow-port", "٣"],
        ["x:", "--allow-address", "10.0.0.0/99"],
        ["x:", "--allow-redirect", "file"],
        ["x:", "--limit", "line"],
        ["x:", "--limit", "colour=3"],
        ["x:", "--limit", "line=-1"],
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
        ["x:", "--max"],  # no abbreviations: a new option must never change what an old script means
    ],
)
def test_usage_errors(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("resolve: ")


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("resolve ")
    assert main(["--help"]) == 0
    assert "extract" in capsys.readouterr().out
