"""Sections of the configuration for one host: what wins over them, and what `config` tells of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from resolver import Host, Limits
from resolver.cli.arguments import read
from resolver.cli.config import hosts_of, mirrors_of
from tests.cli.command import resolve


@pytest.fixture
def own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    (folder / "config" / "resolve").mkdir(parents=True)
    return folder / "config" / "resolve" / "config.toml"


def write(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


ALL = """
idle_timeout = 20
connect_timeout = 9
[limits]
hops = 3
lines = 7
["h.example"]
idle_timeout = 7
max_size = "1k"
proxy = "http://me:sekret@proxy.example:3128"
cert = "ours.pem"
mirrors = "http://m.example/h"
limits = {lines = 5}
["h.example:81"]
proxy = "none"
limits = {hops = 1}
["i.example"]
user = "carl"
[[mirror]]
prefix = "http://H.example:80/pub"
mirrors = ["ftp://f.example/h", "http://me:sekret@m.example/x/"]
[[mirror]]
prefix = "http://h.example/pub/deep/"
mirrors = "http://n.example"
"""
PROXY = "http://me:sekret@proxy.example:3128"
OF_ALL = Limits(idle=7, connect=9, hops=3, lines=5, body=1024, body_everywhere=True)


@pytest.mark.parametrize(
    ("argv", "host", "at_port"),
    [
        (
            [],
            Host(limits=OF_ALL, proxy=PROXY, certfile="ours.pem", mirrors=("http://m.example/h",)),
            Host(
                limits=Limits(idle=7, connect=9, hops=1, lines=5, body=1024, body_everywhere=True),
                proxy="none",
            ),
        ),
        (
            [
                "--idle-timeout",
                "2",
                "--max-size",
                "9",
                "--limit",
                "lines=8",
                "--cert",
                "x",
                "--proxy",
                "none",
            ],
            Host(
                limits=Limits(idle=2, connect=9, hops=3, lines=8, body=9, body_everywhere=True),
                mirrors=("http://m.example/h",),
            ),
            Host(limits=Limits(idle=2, connect=9, hops=1, lines=8, body=9, body_everywhere=True)),
        ),
    ],
)
def test_the_command_line_then_the_section_then_the_rest_of_the_file(
    own: Path, argv: list[str], host: Host, at_port: Host
) -> None:
    write(own, ALL)
    command = read(["cat", *argv, "http://h.example/"])
    assert command is not None
    assert hosts_of(command.configuration) == {"h.example": host, "h.example:81": at_port}


def test_a_section_bounds_its_host_and_no_other(own: Path, at: dict[str, str], folder: Path) -> None:
    place = at["http"].removeprefix("http://")
    write(own, f'["{place}"]\nmax_size = 3\n')
    assert resolve("cat", f"{at['http']}/about.txt").status == 14
    assert resolve("cat", "--max-size", "1k", f"{at['http']}/about.txt").status == 0
    assert resolve("cat", f"{at['file']}/about.txt").status == 0
    write(own, f'max_size = 3\n["{place}"]\nmax_size = "1k"\n')
    assert resolve("cat", f"{at['http']}/about.txt").status == 0
    assert resolve("cat", f"{at['file']}/about.txt").status == 14
    assert resolve("cat", "--config", "none", f"{at['file']}/about.txt").status == 0


def test_a_section_without_a_login_hides_none(own: Path, at: dict[str, str], folder: Path) -> None:
    """Neither one of the host, nor one of the netrc file."""
    place = at["http"].removeprefix("http://")
    write(own, f'["127.0.0.1"]\nuser = "user"\npassword = "password"\n["{place}"]\nmax_size = "1k"\n')
    assert resolve("cat", f"{at['http']}/private").status == 0
    write(own, f'["{place}"]\nmax_size = "1k"\n')
    write(folder / "netrc", "machine 127.0.0.1 login user password password\n")
    assert resolve("cat", f"{at['http']}/private").status == 6
    assert resolve("cat", "--netrc-file", "netrc", f"{at['http']}/private").status == 0


def test_the_proxy_of_a_section_is_that_of_the_plan(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(own, ALL)
    monkeypatch.setenv("http_proxy", "http://env.example:3128")
    monkeypatch.setenv("no_proxy", "h.example")
    for url, proxy in (
        ("http://h.example/", b"connect  proxy.example port 3128"),
        ("http://h.example:81/", b"connect  h.example port 81"),
        ("http://other.example/", b"connect  env.example port 3128"),
    ):
        done = resolve("explain", url)
        assert proxy in done.out
        assert b"sekret" not in done.out


def held(*argv: str) -> dict[tuple[str | None, str], tuple[object, str]]:
    done = resolve("config", "--json", *argv)
    assert done.status == 0, done.told
    assert b"sekret" not in done.out
    return {(each["table"], each["name"]): (each["value"], each["source"]) for each in done.records}


def test_config_tells_of_a_url_what_holds_there(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = write(own, ALL)
    there = held("http://h.example/", "--connect-timeout", "4")
    assert there[None, "connect_timeout"] == (4, "the command line")
    assert there[None, "idle_timeout"] == (7, f"{name}, line 8")
    assert there[None, "max_size"] == (1024, f"{name}, line 9")
    assert there[None, "proxy"] == ("http://****@proxy.example:3128", f"{name}, line 10")
    assert there[None, "mirrors"] == (["http://m.example/h"], f"{name}, line 12")
    below = held("http://h.example/pub/a/b")[None, "mirrors"]
    assert below == (["ftp://f.example/h/a/b", "http://****@m.example/x/a/b"], f"{name}, line 20")
    assert held("http://h.example/pub/deep/b")[None, "mirrors"] == (
        ["http://n.example/b"],
        f"{name}, line 23",
    )
    assert there["limits", "lines"] == ("5", f"{name}, line 13")
    assert there["limits", "hops"] == ("3", f"{name}, line 4")
    assert held("http://h.example:81/")[None, "proxy"] == ("none", f"{name}, line 15")
    assert held("http://h.example:81/")["limits", "hops"] == ("1", f"{name}, line 16")
    assert held("http://other.example/")[None, "idle_timeout"] == (20, f"{name}, line 2")
    monkeypatch.setenv("ftp_proxy", "http://me:sekret@env.example")
    assert held("ftp://other.example/")[None, "proxy"] == ("http://env.example:1080", "ftp_proxy")
    assert held("--proxy", PROXY, "ftp://h.example/")[None, "proxy"][1] == "the command line"
    assert held()["h.example", "proxy"] == ("http://****@proxy.example:3128", f"{name}, line 10")
    assert resolve("config", "a b:").status == 12
    assert resolve("config", "x:").status == 2
    assert resolve("config", "http://h/", "http://i/").status == 2


def test_what_config_shows_is_the_same_configuration(own: Path, folder: Path) -> None:
    write(own, ALL.replace("me:sekret@", ""))
    before = read(["http://h.example/"])
    own.write_bytes(resolve("config").out)
    after = read(["http://h.example/"])
    assert before is not None
    assert after is not None
    assert hosts_of(after.configuration) == hosts_of(before.configuration)
    assert mirrors_of(after.configuration) == mirrors_of(before.configuration)
    assert len(mirrors_of(after.configuration)) == 2
    assert len(hosts_of(after.configuration)) == 2
