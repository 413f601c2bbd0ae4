"""Keys of the index: what pywb looks for."""

from __future__ import annotations

import pytest

from resolver.warc.index import key_of

# What the surt package makes of them, which pywb looks by.
KEYS = {
    "http://h.example/a": "example,h)/a",
    "http://h.example": "example,h)/",
    "http://www.h.example:80/A/": "example,h)/a",
    "gopher://www.h.example/a": "example,h)/a",
    "ftp://h.example/A": "example,h)/a",
    "ftp://u@ftp.h.example:2121/a%2Fb": "example,h,ftp:2121)/a/b",
    "http://h.example/?PHPSESSID=0123456789abcdef0123456789ABCDEF&x=1": "example,h)/?x=1",
    "http://h.example/?b=2&a=1": "example,h)/?a=1&b=2",
    "nntp://h.example/a.b/7": "example,h)/a.b/7",
    "http://127.0.0.1:8080/a": "1,0,0,127:8080)/a",
    "http://[::1]:8080/a": "::1:8080)/a",
    "news:X@H.example": "news:x@h.example",
    "file:///etc/motd": "file:/etc/motd",
}


@pytest.mark.parametrize(("url", "key"), KEYS.items())
def test_a_key_is_that_of_others(url: str, key: str) -> None:
    assert key_of(url) == key


@pytest.mark.parametrize(
    "url", ["http://h.example/a b", "http://h.example/\u00e9", "http://h.example/%0A%20"]
)
def test_a_key_is_one_word(url: str) -> None:
    assert key_of(url).isascii()
    assert len(key_of(url).split()) == 1
