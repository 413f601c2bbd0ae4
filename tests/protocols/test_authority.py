"""`//user:password@host:port`: one reading or none."""

from __future__ import annotations

import pytest

from protocols.authority import build_port, build_userinfo
from resolver import InvalidUrl, parse
from tests.protocols.url_rows import Bad, Good, check_bad, check_good

GOOD = [
    # Absent is not empty.
    Good("ftp://h/", {"user": None, "password": None}),
    Good("ftp://@h/", {"user": "", "password": None}),
    Good("ftp://:@h/", {"user": "", "password": ""}),
    Good("ftp://:p@h/", {"user": "", "password": "p"}),
    Good("ftp://u:@h/", {"user": "u", "password": ""}),
    # Split at the first colon; data in either part; decoded once.
    Good("ftp://u:a:b:c@h/", {"user": "u", "password": "a:b:c"}, "userinfo-colon"),
    Good("ftp://u%3Av:%2541@h/", {"user": "u:v", "password": "%41"}),
    Good("ftp://a;b&c=d:e;f&g=h@h/", {"user": "a;b&c=d", "password": "e;f&g=h"}),
    Good("ftp://u~:p|@h/", {"user": "u~", "password": "p|"}, "unsafe-char"),
    Good("ftp://u%00%FF+@h/", {"user": "u\x00\xff+"}),
    Good("ftp://u%40@h.dom:2121/", {"user": "u@", "port": 2121}),
    # The authority may end at the text's end or at the fragment.
    Good("ftp://u@h", {"user": "u", "host": "h", "name": None}),
    Good("ftp://u@h#f", {"user": "u", "host": "h", "fragment": "f"}),
    Good("ftp://h#/@f", {"host": "h", "fragment": "/@f"}),  # an @ behind the fragment's first slash
    Good("ftp://h/#@f", {"host": "h", "fragment": "@f"}),  # the path keeps the two apart
    Good("http://h?a/b@c", {"host": "h", "search": "a/b@c"}, "missing-slash reserved-char"),
    # Who may not have user information has it noted.
    *(
        Good(f"{scheme}://u:p@h/{path}", {"host": "h"}, "userinfo-not-allowed")
        for scheme, path in [
            ("http", ""),
            ("https", ""),
            ("gopher", ""),
            ("gophers", ""),
            ("nntp", "g"),
            ("nntps", "g"),
            ("wais", "d"),
            ("prospero", "n"),
            ("file", "x"),
        ]
    ),
    *(Good(f"{scheme}://u:p@h/", {"user": "u", "password": "p"}) for scheme in ("ftps", "telnet", "telnets")),
    Good("news://u:p@h/g", {"user": "u", "password": "p"}, "news-server"),
    # Ports.
    Good("http://h:1/", {"port": 1, "default_port": 80}),
    Good("http://h:65535/", {"port": 65535}),
    Good("http://h:0000080/", {"port": 80}),
    Good(f"http://h:{'0' * 5000}8/", {"port": 8}),
    Good("http://h:", {"port": None, "path": None}, "empty-port"),
    Good("http://h:?x", {"port": None}, "empty-port missing-slash"),
    Good("http://[::1]:/", {"host": "::1", "port": None}, "ipv6-literal empty-port"),
]

BAD = [
    Bad("http:→h/", "no-authority"),
    Bad("telnet:→", "no-authority"),
    Bad("prospero:→/h/x", "no-authority"),
    # Where readings give different hosts.
    Bad("http://a→\\b/", "ambiguous-authority"),
    Bad("http://a→\\@b/", "ambiguous-authority"),
    Bad("ftp://u:p→\\w@h/", "ambiguous-authority"),
    Bad("ftp://a@b→@c/", "ambiguous-authority"),
    Bad("ftp://@→@c/", "ambiguous-authority"),
    Bad("http://a?b→@c", "ambiguous-authority"),
    Bad("http://a?→@c/d", "ambiguous-authority"),
    Bad("file://a?b→@c/d", "ambiguous-authority"),
    Bad("news://a?b→@c/d", "ambiguous-authority"),
    Bad("http://a#b→@c", "ambiguous-authority"),
    Bad("http://a#→@", "ambiguous-authority"),
    Bad("<http://a#→@>", "ambiguous-authority"),
    Bad("ftp://u@a#x→@c/d", "ambiguous-authority"),
    # It is the first thing that is looked at.
    Bad("ftp://a[b@c→@d:99999/", "ambiguous-authority"),
    Bad("ftp://u→[@h:0/", "bad-userinfo"),
    Bad("ftp://u:p→]@h/", "bad-userinfo"),
    Bad("http://→[::1]@h/", "bad-userinfo"),
    # No host.
    Bad("http://→", "no-host"),
    Bad("http://→/", "no-host"),
    Bad("http://→?x", "no-host"),
    Bad("http://→#x", "no-host"),
    Bad("http://→:", "no-host"),
    Bad("ftp://u:p@→:21/", "no-host"),
    # `?` ends an authority in http only.
    *(
        Bad(f"{scheme}://h→?x", "bad-host")
        for scheme in ("ftp", "gopher", "nntp", "telnet", "wais", "prospero", "news", "snews", "file")
    ),
    # Ports.
    *(
        Bad(f"http://h:{port}/", "bad-port")
        for port in ("→0", "→00000", "→65536", "→100000", "→+80", "→-0", "8→_0", "→%38", "80→a")
    ),
    Bad(f"http://h:→{'9' * 6000}/", "bad-port"),
    Bad("http://[::1]:→x/", "bad-port"),
    # More than one colon outside brackets.
    Bad("http://a:1→:2/", "bad-host"),
    Bad("http://a:→:/", "bad-host"),
    Bad("http://[::1]:8→:9/", "bad-host"),
    Bad("http://2001:db8→::1/", "bad-host"),
]


@pytest.mark.parametrize("row", GOOD, ids=lambda row: row.text[:60])
def test_authorities_are_read(row: Good) -> None:
    check_good(row)


@pytest.mark.parametrize("row", BAD, ids=lambda row: row.text[:60])
def test_authorities_are_refused(row: Bad) -> None:
    check_bad(row)


def test_the_place_of_each_part_is_kept() -> None:
    url = parse("<URL:ftp://us%65r:pass@Host.Example:021/>")
    shown = {place.name: url.text[place.start : place.end] for place in url.places}
    assert shown == {
        "scheme": "ftp",
        "user": "us%65r",
        "password": "pass",
        "port": "021",
        "host": "Host.Example",
        "name": "",
    }


def test_findings_are_in_the_order_met() -> None:
    assert parse("<http://u:p:q@a_b:/~#x#>").findings == (
        "wrapper",
        "unsafe-char",  # the second # of the fragment, which is cut off first
        "userinfo-not-allowed",
        "userinfo-colon",
        "empty-port",
        "host-syntax",
    )


@pytest.mark.parametrize(
    ("user", "password", "written"),
    [
        (None, None, ""),
        (b"", None, "@"),
        (b"u", None, "u@"),
        (b"u", b"", "u:@"),
        (None, b"p", ":p@"),
        (b"a:b@c/d", b"e:f@g~", "a%3Ab%40c%2Fd:e%3Af%40g%7E@"),
        (b";&=", b";&=", ";&=:;&=@"),
    ],
)
def test_user_information_is_written(user: bytes | None, password: bytes | None, written: str) -> None:
    assert build_userinfo(user, password) == written


@pytest.mark.parametrize(("port", "written"), [(None, ""), (70, ""), (71, ":71"), (65535, ":65535")])
def test_ports_are_written_unless_default(port: int | None, written: str) -> None:
    assert build_port(port, 70) == written


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_what_is_no_port_is_not_written(port: int) -> None:
    with pytest.raises(InvalidUrl, match="bad-port"):
        build_port(port, None)
