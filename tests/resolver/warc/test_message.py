"""Heads of http as archives have them, without secrets."""

from __future__ import annotations

import pytest

from resolver.warc.http import mask_answer


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (b"http://u:sekret@h.example/", b"http://u:****@h.example/"),
        (b"s" * 200 + b"://u:sekret@h.example/", b"s" * 200 + b"://u:****@h.example/"),
        (b"s" * 250_000, b"s" * 250_000),  # the square of it would hang
    ],
)
def test_mask_answer_url_with_a_long_scheme_has_no_password(value: bytes, kept: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nLink: %b\r\n\r\n"
    masked, names = mask_answer(
        head % value, asked_secretly=False, keeps_cookies=False, hide=lambda each: each
    )
    assert masked == head % kept
    assert names == (["link"] if value != kept else [])
