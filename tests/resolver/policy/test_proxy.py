"""The value of a proxy's variable: what it names, and what is none."""

from __future__ import annotations

import pytest

from resolver import NotConfigured, explain
from resolver.policy.proxy import parse_proxy

#: A value; scheme, host and port; user and password.
GOOD: list[tuple[str, tuple[str, str, int], tuple[bytes, bytes] | None]] = [
    ("proxy.example", ("http", "proxy.example", 1080), None),
    ("proxy.example:3128", ("http", "proxy.example", 3128), None),
    ("http://proxy.example:3128/", ("http", "proxy.example", 3128), None),
    ("http://proxy.example:3128/what/ever", ("http", "proxy.example", 3128), None),
    ("HTTP://Proxy.Example", ("http", "proxy.example", 1080), None),
    ("https://proxy.example", ("https", "proxy.example", 443), None),
    ("HTTPS://bob:se%3Acret@[::1]:8443/", ("https", "::1", 8443), (b"bob", b"se:cret")),
    ("socks5://proxy.example", ("socks5", "proxy.example", 1080), None),
    ("socks5h://[::1]:9050", ("socks5h", "::1", 9050), None),
    ("bob:se%3Acret@10.0.0.1:8080", ("http", "10.0.0.1", 8080), (b"bob", b"se:cret")),
    ("http://bob@proxy.example", ("http", "proxy.example", 1080), (b"bob", b"")),
    ("socks5://b%20ob:p%40ss@h", ("socks5", "h", 1080), (b"b ob", b"p@ss")),
]


@pytest.mark.parametrize(("text", "place", "login"), GOOD)
def test_what_it_names(text: str, place: tuple[str, str, int], login: tuple[bytes, bytes] | None) -> None:
    proxy = parse_proxy(text, "all_proxy")
    assert (proxy.scheme, proxy.host, proxy.port) == place
    found = proxy.credentials
    assert (None if found is None else (found.user, found.password)) == login
    assert "@" not in proxy.shown
    assert login is None or repr(login[1]) not in repr(proxy)


BAD = [
    *("ftp://h", "wss://h", "socks://h", "socks4://h:1080", "socks4a://h", "gopher://h", "://h"),
    *("http://", "", "http:///x", "h:0", "h:65536", "h:99999", "h:x", "http://h:80:80", "h h", " h", "h\n"),
    *("http://h?x", "http://h/?", "http://h#x", "http://[::1", "http://a@b@c", "http://127.1", "h%00"),
    *("http://a%0D:b@h", "http://a:b%0A@h", "http://a%00:b@h", "http://a%3Ab:c@h"),
    *("socks5://bob@h", "socks5://:secret@h", f"socks5://bob:{'s' * 256}@h", f"socks5://{'b' * 256}:s@h"),
]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_proxy_is_a_wrong_setting_that_is_named(text: str) -> None:
    with pytest.raises(NotConfigured, match=r"^all_proxy ") as caught:
        parse_proxy(text, "all_proxy")
    assert caught.value.exit_code == 2
    plan = explain("ftp://h.example/a", environment={"all_proxy": text or "?"})
    assert isinstance(plan.error, NotConfigured)
    assert plan.steps == ()


@pytest.mark.parametrize(
    "text", ["http://u:s3cret@h:99999", "http://u:s3cret@h?x", "ftp://u:s3cret@h", "u:s3cret@h h"]
)
def test_what_is_wrong_with_it_does_not_show_its_password(text: str) -> None:
    with pytest.raises(NotConfigured) as caught:
        parse_proxy(text, "all_proxy")
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None
