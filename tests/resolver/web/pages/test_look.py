"""Previews and errors: the marked position, the buttons, and the breadcrumbs of a URL."""

from __future__ import annotations

import pytest

from protocols import errors
from protocols.text import Masked
from resolver import LimitExceeded, NotFound, Refused, ResolveError, parse
from resolver.web.pages.errors import ROWS, error_page, point_at
from resolver.web.pages.page import find_parent, make_breadcrumbs
from tests.resolver.web.pages.facts import preview_page
from tests.resolver.web.pages.skeleton import place, rendered, skeleton


@pytest.mark.parametrize(
    ("text", "shown", "position", "marked", "column", "words"),
    [
        ("gopher://h:25/1x%0D%0A", None, 16, "%0D%0A", 16, "positions 16 to 21"),
        ("gopher://h:25/1x", None, 11, "25", 11, "positions 11 to 12"),
        ("gopher://h/1\x1bx", None, 12, "\\x1b", 12, "position 12"),
        ("gopher://h/\x1b\u202ex", None, 13, "x", 21, "position 13"),
        ("ftp://a:b@h/\x00", "ftp://a:****@h/\x00", 12, "\\x00", 15, "position 15"),
        ("ftp://a:b@h/", "ftp://a:****@h/", 8, "****", 8, "positions 8 to 11"),
        ("x", None, 1, "", 1, "at the end"),
        ("", None, 0, "", 0, "at the end"),
        ("http://日本/\\", None, 10, "\\", 12, "position 10"),
    ],
)
def test_point_at_puts_carets_below_position(
    text: str, shown: str | None, position: int, marked: str, column: int, words: str
) -> None:
    line = point_at(text, text if shown is None else shown, position)
    assert line.marked == marked
    assert line.carets == " " * column + "^" * max(1, len(marked))
    assert line.words == words


def test_point_at_in_long_url_shows_context() -> None:
    line = point_at("x" * 5_000 + "\x1b" + "y" * 5_000, "x" * 5_000 + "\x1b" + "y" * 5_000, 5_000)
    assert line.before.startswith("…x")
    assert len(line.before) == len(line.after) == 101
    assert len(line.carets) == 105


@pytest.mark.parametrize("text", ["gopher://h:25/1x%0D%0A", "gopher//h", "nosuch://h/", "data:text/html,x"])
def test_preview_of_refused_url_has_no_open_button(text: str) -> None:
    parsed = skeleton(rendered(preview_page(text)))
    assert "/open" not in parsed.values
    assert "Open" not in "".join(parsed.text)


def test_preview_of_allowed_url_has_open_button() -> None:
    parsed = skeleton(rendered(preview_page("gopher://h.example/")))
    assert parsed.values.count("/open") == 1
    assert "gopher://h.example/" in parsed.values


def test_preview_has_password_only_in_hidden_field() -> None:
    """The form contains the URL as it was entered: a hidden field is not displayed."""
    parsed = skeleton(rendered(preview_page("ftp://me:secret@h.example/x")))
    assert "secret" not in "".join(parsed.text)
    assert [value for value in parsed.values if "secret" in value] == ["ftp://me:secret@h.example/x"]


def test_error_classes_have_a_status() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ResolveError)
    ]
    assert {kind for kind in kinds if not any(base in ROWS for base in kind.__mro__)} == set()
    assert {
        kind.__name__: ROWS[next(base for base in kind.__mro__ if base in ROWS)].status for kind in kinds
    } == {
        **dict.fromkeys(("ResolveError", "LocalError", "NotConfigured"), 500),
        **dict.fromkeys(("NetworkError", "Unreachable", "Disconnected", "TlsError", "ProtocolError"), 502),
        **dict.fromkeys(("IntegrityError", "Truncated", "Changed", "ChecksumMismatch"), 502),
        **dict.fromkeys(("Refused", "LoginRequired", "AccessDenied", "Declined"), 403),
        "InvalidUrl": 400,
        "NotFound": 404,
        "LimitExceeded": 413,
        "UnsupportedScheme": 501,
        "TryLater": 503,
        "TimedOut": 504,
    }


def test_error_page_of_refusal_names_rule_without_retry() -> None:
    error = Refused("S04", "S04: port 25 is not ours", flag="--allow-port 25", position=11)
    parsed = skeleton(rendered(error_page(error, "gopher://h:25/", place("gopher://h:25/"))))
    text = "".join(parsed.text)
    assert "Nothing was sent" in text
    assert "start resolve with --allow-port 25." in text
    assert "/help#S04" in parsed.values
    assert "/open" not in parsed.values
    assert "Try again" not in text


def test_error_page_of_redirect_names_its_target() -> None:
    error = Refused("S10", "S10: not followed", position=2, url=Masked("file:///etc/passwd"))
    text = "".join(skeleton(rendered(error_page(error, "http://h/", place("http://h/")))).text)
    assert "The URL led to file:///etc/passwd" in text
    assert error_page(LimitExceeded("body", "x"), "x", place("x")).status == 413


def test_error_page_quotes_server_once() -> None:
    for text in ("No such file", "something else"):
        error = NotFound("RETR x: the server said 550 No such file", code="550", text=text)
        markup = rendered(error_page(error, "x", place("x")))
        assert markup.count("No such file") == 1


@pytest.mark.parametrize(
    ("text", "steps", "parent"),
    [
        (
            "ftp://me:pw@h.example/pub/a%20b/c.txt;type=a",
            ["ftp://me@h.example/", "ftp://me@h.example/pub/", "ftp://me@h.example/pub/a%20b/", None],
            "ftp://me@h.example/pub/a%20b/",
        ),
        ("ftp://h.example/", [None], None),
        (
            "http://h.example:8080/a/b?q/x#f",
            ["http://h.example:8080/", "http://h.example:8080/a/", None],
            "http://h.example:8080/a/",
        ),
        (
            "gopher://h.example/0/docs/x.txt",
            ["gopher://h.example/1", "gopher://h.example/1/docs", None],
            "gopher://h.example/1/docs",
        ),
        ("gopher://h.example/1order%09%09?", ["gopher://h.example/1", None], "gopher://h.example/1"),
        ("nntp://h.example/g/12", [None, "nntp://h.example/g", None], "nntp://h.example/g"),
        ("news:a@h.example", [], None),
        ("wais://h.example/db?words", [None], None),
        ("mailto:a@h.example", [], None),
    ],
)
def test_crumbs_of_url_are_its_parents(text: str, steps: list[str | None], parent: str | None) -> None:
    url = parse(text)
    assert [crumb.href for crumb in make_breadcrumbs(url, str)] == steps
    assert find_parent(url) == parent
    assert not any("pw" in f"{crumb}" for crumb in make_breadcrumbs(url, str))
