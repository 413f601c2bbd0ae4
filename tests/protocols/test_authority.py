"""Tests of the authority `//user:password@host:port`: user information, host and port.

A text with more than one reading is an error.
"""

from __future__ import annotations

import pytest

from protocols.authority import build_host, build_port, build_userinfo, is_hostname
from protocols.location import ComponentSpan
from resolver import InvalidUrl, parse
from tests.protocols.url_rows import Bad, Good, check_bad, check_good

GOOD = [
    # Absent is not empty.
    Good("ftp://h/", {"user": None, "password": None}),
    Good("ftp://@h/", {"user": "", "password": None}),
    Good("ftp://:@h/", {"user": "", "password": ""}),
    Good("ftp://:p@h/", {"user": "", "password": "p"}),
    Good("ftp://u:@h/", {"user": "u", "password": ""}),
    # The split is at the first colon; either part may hold reserved characters and is decoded once.
    Good("ftp://u:a:b:c@h/", {"user": "u", "password": "a:b:c"}, "userinfo-colon"),
    Good("ftp://u%3Av:%2541@h/", {"user": "u:v", "password": "%41"}),
    Good("ftp://a;b&c=d:e;f&g=h@h/", {"user": "a;b&c=d", "password": "e;f&g=h"}),
    Good("ftp://u~:p|@h/", {"user": "u~", "password": "p|"}, "unsafe-char"),
    Good("ftp://u%00%FF+@h/", {"user": "u\x00\xff+"}),
    Good("ftp://u%40@h.dom:2121/", {"user": "u@", "port": 2121}),
    # The authority may end at the end of the text or at the fragment.
    Good("ftp://u@h", {"user": "u", "host": "h", "name": None}),
    Good("ftp://u@h#f", {"user": "u", "host": "h", "fragment": "f"}),
    Good("ftp://h#/@f", {"host": "h", "fragment": "/@f"}),  # an `@` after the first slash of the fragment
    Good("ftp://h/#@f", {"host": "h", "fragment": "@f"}),  # the path separates the host from the fragment
    Good("http://h?a/b@c", {"host": "h", "search": "a/b@c"}, "missing-slash reserved-char"),
    # User information in a scheme that does not allow it is a finding.
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
    # Readers disagree about the host.
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
    # The ambiguity check runs first.
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
def test_authorities_are_parsed(row: Good) -> None:
    check_good(row)


@pytest.mark.parametrize("row", BAD, ids=lambda row: row.text[:60])
def test_authorities_are_refused(row: Bad) -> None:
    check_bad(row)


def test_places_include_every_part_of_authority() -> None:
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


def test_findings_are_in_order_of_detection() -> None:
    assert parse("<http://u:p:q@a_b:/~#x#>").findings == (
        "wrapper",
        "unsafe-char",  # the second `#` of the fragment, which is split off first
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
def test_build_userinfo_escapes(user: bytes | None, password: bytes | None, written: str) -> None:
    assert build_userinfo(user, password) == written


@pytest.mark.parametrize(("port", "written"), [(None, ""), (70, ""), (71, ":71"), (65535, ":65535")])
def test_build_port_omits_default(port: int | None, written: str) -> None:
    assert build_port(port, 70) == written


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_build_port_refuses_invalid_port(port: int) -> None:
    with pytest.raises(InvalidUrl, match="bad-port"):
        build_port(port, None)


# Hosts: names, IPv4 addresses and IPv6 literals. Forms about which software disagrees are errors.

LABEL = "a" * 63
NAME = ".".join([LABEL, LABEL, LABEL, "a" * 61])  # 253 bytes

HOST_GOOD = [
    # IPv6 literals are stored without brackets and in lower case, and are otherwise unchanged.
    Good("http://[::]/", {"host": "::"}, "ipv6-literal"),
    Good("http://[2001:DB8:0:0::A]:8/", {"host": "2001:db8:0:0::a", "port": 8}, "ipv6-literal"),
    Good("http://[::FFFF:192.0.2.1]", {"host": "::ffff:192.0.2.1"}, "ipv6-literal"),
    # Escapes in a host are decoded once, before every other check.
    Good("http://%48%6fst/", {"host": "host"}, "encoded-host"),
    Good("http://192.0.2%2e7/", {"host": "192.0.2.7"}, "encoded-host"),
    Good("http://a%5Fb/", {"host": "a_b"}, "encoded-host host-syntax"),
    # Names.
    Good("http://localhost/", {"host": "localhost"}),
    Good("http://A-b.C9/", {"host": "a-b.c9"}),
    Good("http://9a.b/", {"host": "9a.b"}),
    Good("http://xn--mnchen-3ya.example/", {"host": "xn--mnchen-3ya.example"}),
    Good(f"http://{LABEL}/", {"host": LABEL}),
    Good(f"http://{NAME}/", {"host": NAME}),
    Good(f"http://{NAME}./", {"host": NAME + "."}, "host-syntax"),  # the final dot does not count
    Good("http://-a.b/", {"host": "-a.b"}, "host-syntax"),
    Good("http://a-.b/", {"host": "a-.b"}, "host-syntax"),
    Good("http://a.b-/", {"host": "a.b-"}, "host-syntax"),
    Good("http://-/", {"host": "-"}, "host-syntax"),
    Good("http://_/", {"host": "_"}, "host-syntax"),
    Good("http://a.1b/", {"host": "a.1b"}, "host-syntax"),
    Good("http://a.0xg/", {"host": "a.0xg"}, "host-syntax"),
    Good("http://0x7f.a/", {"host": "0x7f.a"}),  # only the last label can make a host a number
    Good("http://1.2.3.4.a/", {"host": "1.2.3.4.a"}),
    # IPv4 addresses.
    Good("http://0.0.0.0/", {"host": "0.0.0.0"}),
    Good("http://255.255.255.255:1/", {"host": "255.255.255.255"}),
]

HOST_BAD = [
    # Text in brackets.
    Bad("http://→[]/", "bad-host"),
    Bad("http://→[::1/", "bad-host"),
    Bad("http://→[::1]x/", "bad-host"),
    Bad("http://a→[1]/", "bad-host"),
    Bad("http://→[1.2.3.4]/", "bad-host"),
    Bad("http://→[v1.a]/", "bad-host"),
    Bad("http://→[::1%25eth0]/", "bad-host"),
    Bad("http://→[::%31]/", "bad-host"),
    Bad("http://→[1::2::3]/", "bad-host"),
    Bad("http://→[12345::]/", "bad-host"),
    # Characters that a host cannot contain, literal or decoded.
    *(Bad(f"http://a→{wrong}b/", "bad-host") for wrong in "$!&'()*+,;=~{}|^`"),
    *(
        Bad(f"http://a→%{octet:02X}b/", "bad-host")
        for octet in (0x00, 0x0A, 0x20, 0x23, 0x25, 0x2F, 0x3A, 0x3F, 0x40, 0x5B, 0x5C, 0x80, 0xFF)
    ),
    Bad("http://%61→%2541/", "bad-host"),
    # Labels.
    Bad("http://→./", "bad-host"),
    Bad("http://→.a/", "bad-host"),
    Bad("http://→a../", "bad-host"),
    Bad("http://→a..b/", "bad-host"),
    Bad("http://→a%2E%2Eb/", "bad-host"),
    Bad(f"http://→{LABEL}a/", "bad-host"),
    Bad(f"http://→{NAME}a/", "bad-host"),
    # Numbers in any form except four decimal groups.
    *(
        Bad(f"http://→{number}/", "bad-host")
        for number in (
            "1",
            "0",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.256",
            "1.2.3.04",
            "1.2.3.00",
            "1.2.3.4.",
            "01.2.3.4",
            "0x1.2.3.4",
            "1.2.3.0x4",
            "0X7F000001",
            "0x",
            "a.b.c.4",
            "a.0x1f",
            "a.9.",
            "999.1.1.1",
            "1.2.3.%34.",
        )
    ),
]


@pytest.mark.parametrize("row", HOST_GOOD, ids=lambda row: row.text[:60])
def test_hosts_are_parsed(row: Good) -> None:
    check_good(row)


@pytest.mark.parametrize("row", HOST_BAD, ids=lambda row: row.text[:60])
def test_hosts_are_refused(row: Bad) -> None:
    check_bad(row)


def test_host_place_is_the_written_text() -> None:
    assert parse("http://H%6Fst:80/").place("host") == ComponentSpan("host", 7, 13)
    assert parse("http://[::1]/").place("host") == ComponentSpan("host", 8, 11)


@pytest.mark.parametrize("host", ["host.example", "192.0.2.1", "my_host", "[::1]"])
def test_build_host_keeps_valid_hosts(host: str) -> None:
    assert build_host(host.strip("[]")) == host


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("", "no-host"),
        ("a/b", "bad-host"),
        ("a@b", "bad-host"),
        ("a%41", "bad-host"),
        ("[::1]", "bad-host"),
        ("a:80", "bad-host"),
        ("::1%1", "bad-host"),
        ("1.2.3", "bad-host"),
        ("a\r\nb", "bad-host"),
        ("h\xf6st", "bad-host"),
        ("a..b", "bad-host"),
    ],
)
def test_build_host_refuses_invalid_host(host: str, kind: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        build_host(host)
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("host", "verdict"),
    [
        *((host, True) for host in ("a", "a.b-c.D1", "1a.b")),
        *((host, False) for host in ("", "a.", "a..b", "a_b", "-a", "a-", "a.1b", "1.2.3.4", "é")),
    ],
)
def test_is_hostname_follows_rfc_1738(host: str, verdict: bool) -> None:
    assert is_hostname(host) is verdict
