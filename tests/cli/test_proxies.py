"""What the command does with a proxy: options before variables, and `explain` says what `get` does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import resolve
from tests.resolver.gate.peers import closed_port

_SECRET = "s3cret"


@pytest.fixture
def nobody() -> Iterator[str]:
    """The place of a proxy that is not there."""
    with closed_port() as port:
        yield f"127.0.0.1:{port}"


@pytest.mark.parametrize("scheme", ["http", "socks5", "socks5h"])
def test_the_option_comes_before_the_variables(
    scheme: str, at: dict[str, str], nobody: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{at['http']}/about.txt"
    monkeypatch.setenv("http_proxy", f"{scheme}://me:{_SECRET}@{nobody}")
    done = resolve("cat", "-t", "1", url)
    assert (done.status, f"the proxy {scheme}://{nobody}: " in done.told) == (4, True)
    assert _SECRET not in done.told
    direct = resolve("cat", "--proxy", "none", url)
    assert (direct.status, direct.told) == (0, "")
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert resolve("cat", "--proxy", f"{scheme}://{nobody}", url).status == 0, (
        "no_proxy is for the option too"
    )


@pytest.mark.parametrize("value", ["ftp://h", f"http://me:{_SECRET}@h:99999", "", f"http://me:{_SECRET}@h?x"])
def test_what_is_no_proxy_is_a_wrong_word(value: str, at: dict[str, str], folder: Path) -> None:
    done = resolve("cat", "--proxy", value, f"{at['http']}/about.txt")
    assert (done.status, done.out) == (2, b"")
    assert ": --proxy " in done.told
    assert _SECRET not in done.told


@pytest.mark.parametrize("verb", ["get", "cat", "info", "explain"])
def test_a_variable_that_names_none_is_a_wrong_setting_in_every_verb(
    verb: str, at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("all_proxy", f"gopher://me:{_SECRET}@h")
    done = resolve(verb, f"{at['http']}/about.txt")
    assert done.status == 2
    assert all(word in done.told for word in ("all_proxy", "'gopher'"))
    assert _SECRET not in done.told
    assert not list(folder.iterdir())


@pytest.mark.parametrize("verb", ["get", "cat", "info", "explain"])
def test_untrusted_refuses_it_in_every_verb(
    verb: str, at: dict[str, str], nobody: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://{nobody}")
    url = "http://h.example/about.txt"
    done = resolve(verb, "--policy", "untrusted", url)
    assert (done.status, "S09: http_proxy " in done.told) == (9, True)
    trusted = resolve(verb, "-t", "1", "--policy", "untrusted", "--trusted-proxy", f"http://{nobody}", url)
    assert trusted.status == (0 if verb == "explain" else 4)


@pytest.mark.parametrize("policy", ["default", "cautious"])
def test_what_is_not_read_is_told_once_a_run(
    policy: str, at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://me:{_SECRET}@proxy.example:3128")
    url = f"{at['http']}/about.txt"
    port = url.split(":")[2].split("/")[0]
    done = resolve("cat", "--policy", policy, "--allow-port", port, url, url)
    assert done.status == (0 if policy == "default" else 9)
    if policy == "default":
        assert done.told.count("warning (S09): HTTP_PROXY ") == 1
    assert "HTTP_PROXY " in done.told
    assert _SECRET not in done.told


def test_a_plan_shows_what_is_said_to_the_proxy(folder: Path) -> None:
    words = ("--proxy", f"http://me:{_SECRET}@proxy.example:3128")
    (plan,) = resolve("explain", "--json", *words, "ftp://h.example/a").records
    connects = [step["host"] for step in plan["steps"] if step["action"] == "connect"]
    sent = [step["octets"] for step in plan["steps"] if step["action"] == "send"]
    assert (plan["proxy"], connects) == ("http://proxy.example:3128", ["proxy.example"] * 2)
    assert sent[0] == "CONNECT h.example:21 HTTP/1.1\r\nHost: h.example:21\r\n\r\n"
    assert [octets for octets in sent if octets.startswith("CONNECT")][1].startswith("CONNECT h.example:0 ")
    (plan,) = resolve("explain", "--json", *words, "http://h.example:8080/a?b#c").records
    sent = [step["octets"] for step in plan["steps"] if step["action"] == "send"]
    assert sent[0].startswith("GET http://h.example:8080/a?b HTTP/1.1\r\nHost: h.example:8080\r\n")
    assert _SECRET not in str(plan)


@pytest.mark.parametrize(
    ("scheme", "host", "octets"),
    [
        ("socks5h", "h.example", "\x05\x01\x00\x03\x09h.example\x00F"),
        ("socks5h", "10.0.0.1", "\x05\x01\x00\x01\x0a\x00\x00\x01\x00F"),
        ("socks5", "h.example", "\x05\x01\x00\x01\x00\x00\x00\x00\x00F"),
        ("socks5", "[::1]", "\x05\x01\x00\x04" + "\x00" * 15 + "\x01\x00F"),
    ],
)
def test_a_plan_shows_the_octets_of_socks(scheme: str, host: str, octets: str, folder: Path) -> None:
    words = ("--proxy", f"{scheme}://me:{_SECRET}@proxy.example")
    (plan,) = resolve("explain", "--json", *words, f"gopher://{host}/0a").records
    sent = [step["octets"] for step in plan["steps"] if step["action"] == "send"]
    assert sent[:3] == ["\x05\x02\x00\x02", octets, "a\r\n"]
    notes = " ".join(step["text"] for step in plan["steps"] if step["action"] == "note")
    assert ("looked up here" in notes) is (scheme == "socks5" and host == "h.example")
    assert ("the proxy's to find" in notes) is (scheme == "socks5h")
    assert _SECRET not in str(plan)
