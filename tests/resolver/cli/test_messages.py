"""Messages contain the cause, the place and the fix, and never a password."""

import pytest

from resolver import InvalidUrl, LimitExceeded, LoginRequired, Refused, TimedOut
from resolver.cli import streams
from resolver.cli.messages import describe


@pytest.mark.parametrize(
    ("text", "position", "pointed"),
    [
        ("http://h.example/a b", 18, " "),
        ("ftp://u:secret@h.example/a b", 26, " "),  # after the password: the caret moves with the masked text
        ("ftp://u%zz:secret@h.example/", 7, "*"),  # not a URL: the text before the @ is masked
    ],
)
def test_message_caret_is_below_error_position(text: str, position: int, pointed: str) -> None:
    error = InvalidUrl("bad-char", position, "a character that no URL holds")
    _, shown, caret, *more = describe(error, text)
    assert shown[caret.index("^")] == pointed
    assert "secret" not in shown + "".join(more)


def test_message_shortens_long_url_around_position() -> None:
    text = "gopher://h.example/0" + "a" * 5_000 + "|" + "b" * 5_000
    _, shown, caret = describe(InvalidUrl("unsafe-char", text.index("|"), "x"), text)
    assert shown[caret.index("^")] == "|"
    assert len(shown) < 300


def test_message_of_refusal_names_rule() -> None:
    assert "S04" in describe(Refused("S04", "port 25 belongs to mail"), "gopher://h.example:25/")[0]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_message_of_refusal_names_help_on_terminal(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "is_terminal", lambda: is_terminal)
    lines = describe(Refused("S04", "port 25 belongs to mail"), "gopher://h.example:25/")
    assert lines[1:] == (["  resolve help S04 explains the rule"] if is_terminal else [])


@pytest.mark.parametrize(
    ("setting", "option"),
    [
        ("idle_timeout", "--idle-timeout"),
        ("limit head=S", "--limit head=S"),
        ("cacert FILE", "--cacert FILE"),
    ],
)
def test_setting_of_error_is_shown_as_option(setting: str, option: str) -> None:
    error = TimedOut("timed out: no data for 30 s").with_setting(setting)
    assert "--" not in str(error)
    assert describe(error, "gopher://h.example/")[0].endswith(f": timed out: no data for 30 s ({option})")


@pytest.mark.parametrize(
    ("setting", "advice"),
    [("user", "(log in with --user NAME and --password-file FILE)"), ("proxy", "(--proxy)")],
)
def test_message_advises_login_by_setting(setting: str, advice: str) -> None:
    error = LoginRequired("the peer requires a login").with_setting(setting)
    assert describe(error, "http://h.example/")[0].endswith(f" {advice}")


def test_setting_of_size_limit_is_shown_as_option() -> None:
    assert describe(LimitExceeded("body", "x"), "gopher://h.example/")[0].endswith(" (--max-size)")
    assert LimitExceeded("line", "x").setting is None


def test_message_without_position_has_no_caret() -> None:
    assert len(describe(Refused("S08", "a private address"), "gopher://h.example/")) == 1
