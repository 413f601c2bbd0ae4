"""The server for a news URL without one: the order of the settings, and invalid servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from resolver import NotConfigured, explain, parse
from resolver.policy.environment import (
    SYSTEM_FILE,
    NewsServerSetting,
    find_setting,
    first_word,
    needs_server,
    parse_server,
)
from resolver.policy.subject import NewsServer

FILE = "# a comment\n\n  news.file.example  # mine\nnews.other.example\n"
VARIABLE = {"NNTPSERVER": "news.variable.example"}

CHOICES = [
    ("news.option.example", VARIABLE, FILE, NewsServerSetting("news.option.example", "--news-server")),
    (None, VARIABLE, FILE, NewsServerSetting("news.variable.example", "NNTPSERVER")),
    ("", VARIABLE, FILE, NewsServerSetting("news.variable.example", "NNTPSERVER")),
    (None, {"NNTPSERVER": ""}, FILE, NewsServerSetting("news.file.example", SYSTEM_FILE)),
    (None, {}, FILE, NewsServerSetting("news.file.example", SYSTEM_FILE)),
    (None, {}, "# nothing\n\n", None),
    (None, {}, "", None),
]


@pytest.mark.parametrize(("option", "environment", "file", "setting"), CHOICES)
def test_news_server_choice_follows_precedence(
    option: str | None,
    environment: dict[str, str],
    file: str,
    setting: NewsServerSetting | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.environ", environment)
    monkeypatch.setattr("resolver.policy.environment._read_system_file", lambda: file)
    assert find_setting(option) == setting


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a\n", "a"),
        ("a b\n", "a"),
        ("\n \t\n#x\n # y\n\tb # c", "b"),
        ("", None),
        ("#\n", None),
        ("a#b", "a#b"),
    ],
)
def test_first_word_skips_comments(text: str, word: str | None) -> None:
    assert first_word(text) == word


SERVERS = [
    ("news.example", "news", NewsServer("news.example", 119)),
    ("news.example", "snews", NewsServer("news.example", 563)),
    ("news.example:1119", "news", NewsServer("news.example", 1119)),
    ("news.example:1119", "snews", NewsServer("news.example", 1119)),
    ("[::1]", "news", NewsServer("::1", 119)),
    ("[::1]:1119", "news", NewsServer("::1", 1119)),
    ("127.0.0.1", "news", NewsServer("127.0.0.1", 119)),
    ("NEWS.example", "news", NewsServer("news.example", 119)),
]


@pytest.mark.parametrize(("text", "scheme", "server"), SERVERS)
def test_server_of_parses_host_and_port(text: str, scheme: str, server: NewsServer) -> None:
    assert parse_server(NewsServerSetting(text, "NNTPSERVER"), scheme) == server


BAD = [
    "u:p@h",
    "h/x",
    "h?x",
    "h#x",
    "a b",
    "h:99999",
    "h:x",
    "::1",
    "[::1",
    "h\r\nQUIT",
    "",
    ":119",
    "ü.example",
]


@pytest.mark.parametrize("text", BAD)
def test_server_of_invalid_text_is_not_configured(text: str) -> None:
    with pytest.raises(NotConfigured, match="NNTPSERVER") as caught:
        parse_server(NewsServerSetting(text, "NNTPSERVER"), "news")
    assert caught.value.exit_code == 2


def test_server_of_none_is_not_configured() -> None:
    with pytest.raises(NotConfigured) as caught:
        parse_server(None, "news")
    assert all(way in caught.value.message for way in ("--news-server", "NNTPSERVER", SYSTEM_FILE))


def test_find_setting_reads_option_environment_and_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "server"
    path.write_bytes(b"# \xff\nnews.file.example\n")
    monkeypatch.setattr("resolver.policy.environment.SYSTEM_FILE", str(path))
    monkeypatch.setenv("NNTPSERVER", "news.variable.example")
    assert find_setting("x") == NewsServerSetting("x", "--news-server")
    assert find_setting(None) == NewsServerSetting("news.variable.example", "NNTPSERVER")
    monkeypatch.delenv("NNTPSERVER")
    assert find_setting(None) == NewsServerSetting("news.file.example", str(path))
    path.unlink()
    assert find_setting(None) is None


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("news:a.b", True),
        ("news:x@y", True),
        ("snews:a.b", True),
        ("news://h/a.b", False),
        ("nntp://h/a.b", False),
        ("http://h/", False),
        ("mailto:a@b", False),
    ],
)
def test_needs_server_only_for_news_urls_without_host(text: str, needed: bool) -> None:
    assert needs_server(parse(text)) is needed


def test_explain_connects_to_news_server() -> None:
    step = next(
        step for step in explain("news:a.b", news_server="[::1]:1119").steps if step["action"] == "connect"
    )
    assert (step["host"], step["port"], step["tls"]) == ("::1", 1119, False)


def test_explain_without_news_server_names_the_option() -> None:
    plan = explain("snews:a.b")
    first, connect = plan.steps[0], next(step for step in plan.steps if step["action"] == "connect")
    assert "--news-server" in str(first["text"])
    assert (plan.verdict, connect["host"], connect["port"], connect["tls"]) == ("allow", None, 563, True)
