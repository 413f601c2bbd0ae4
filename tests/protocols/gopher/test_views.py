"""Views: identities to send back, sizes to smile at, and what a view asked for means."""

from __future__ import annotations

import pytest

from protocols.gopher.attributes import AlternateView, kind_of_view, parse_view
from resolver import Kind

PS = "application/postscript"
MENU = "application/gopher+-menu"
LINES: list[tuple[bytes, AlternateView]] = [
    (b"Text/plain En_US: <.0k>", AlternateView(b"Text/plain En_US", "Text/plain", "En_US", 0)),
    (
        b"application/postscript De_DE: <100k>",
        AlternateView(b"application/postscript De_DE", PS, "De_DE", 102_400),
    ),
    (b"image/tiff: <.5K>", AlternateView(b"image/tiff", "image/tiff", None, 512)),
    (b"application/gopher+-menu:", AlternateView(MENU.encode(), MENU, None, None)),
    (b"application/gopher+-menu: <512b>", AlternateView(MENU.encode(), MENU, None, 512)),
    (b"text/html: <1.5M>", AlternateView(b"text/html", "text/html", None, 1_572_864)),
    (b"text/html: <>", AlternateView(b"text/html", "text/html", None, None)),
    (b"text/html: <.>", AlternateView(b"text/html", "text/html", None, None)),
    (b"text/html: <huge>", AlternateView(b"text/html", "text/html", None, None)),
    (b"text/html: <12", AlternateView(b"text/html", "text/html", None, 12)),
    (
        b"text/html: <999999999999999999999999999>",
        AlternateView(b"text/html", "text/html", None, 999_999_999_999_999),
    ),
    (b"text/html", AlternateView(b"text/html", "text/html", None, None)),
    (b"", AlternateView(b"", "", None, None)),
    (b"a/b  Xx Yy : <1>", AlternateView(b"a/b  Xx Yy ", "a/b", "Xx Yy", 1)),
]


@pytest.mark.parametrize(("line", "view"), LINES)
def test_any_line_is_a_view(line: bytes, view: AlternateView) -> None:
    assert parse_view(line) == view


@pytest.mark.parametrize(
    ("view", "means"),
    [
        (b"", None),
        (b" ", None),
        (b"Text/plain En_US", (Kind.DOCUMENT, "text/plain")),
        (b"TEXT/HTML", (Kind.DOCUMENT, "text/html")),
        (b"application/gopher-menu", (Kind.DIRECTORY, "application/gopher-menu")),
        (b"application/gopher+-menu En_US", (Kind.DIRECTORY, "application/gopher+-menu")),
        (b"Directory/recursive", (Kind.DIRECTORY, "application/gopher-menu")),
        (b"Directory+/recursive", (Kind.DIRECTORY, "application/gopher+-menu")),
    ],
)
def test_what_a_view_means(view: bytes, means: tuple[Kind, str] | None) -> None:
    assert kind_of_view(view) == means
