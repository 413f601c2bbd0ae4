"""Hosts: names, four groups, IPv6 literals, and nothing that software disagrees about."""

from __future__ import annotations

import pytest

from protocols.authority import build_host, is_hostname
from protocols.location import ComponentSpan
from resolver import InvalidUrl, parse
from tests.protocols.url_rows import Bad, Good, check_bad, check_good

LABEL = "a" * 63
NAME = ".".join([LABEL, LABEL, LABEL, "a" * 61])  # 253 octets

GOOD = [
    # IPv6 literals: without brackets, lower case, otherwise as written.
    Good("http://[::]/", {"host": "::"}, "ipv6-literal"),
    Good("http://[2001:DB8:0:0::A]:8/", {"host": "2001:db8:0:0::a", "port": 8}, "ipv6-literal"),
    Good("http://[::FFFF:192.0.2.1]", {"host": "::ffff:192.0.2.1"}, "ipv6-literal"),
    # Escapes in a host are decoded, once, before anything else is looked at.
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
    Good(f"http://{NAME}./", {"host": NAME + "."}, "host-syntax"),  # the dot does not count
    Good("http://-a.b/", {"host": "-a.b"}, "host-syntax"),
    Good("http://a-.b/", {"host": "a-.b"}, "host-syntax"),
    Good("http://a.b-/", {"host": "a.b-"}, "host-syntax"),
    Good("http://-/", {"host": "-"}, "host-syntax"),
    Good("http://_/", {"host": "_"}, "host-syntax"),
    Good("http://a.1b/", {"host": "a.1b"}, "host-syntax"),
    Good("http://a.0xg/", {"host": "a.0xg"}, "host-syntax"),
    Good("http://0x7f.a/", {"host": "0x7f.a"}),  # only the last label makes a number
    Good("http://1.2.3.4.a/", {"host": "1.2.3.4.a"}),
    # Four groups.
    Good("http://0.0.0.0/", {"host": "0.0.0.0"}),
    Good("http://255.255.255.255:1/", {"host": "255.255.255.255"}),
]

BAD = [
    # What stands in brackets.
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
    # Characters that no host has, written or decoded.
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
    # Numbers of any form but one.
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


@pytest.mark.parametrize("row", GOOD, ids=lambda row: row.text[:60])
def test_hosts_are_read(row: Good) -> None:
    check_good(row)


@pytest.mark.parametrize("row", BAD, ids=lambda row: row.text[:60])
def test_hosts_are_refused(row: Bad) -> None:
    check_bad(row)


def test_the_place_is_that_of_the_host_as_written() -> None:
    assert parse("http://H%6Fst:80/").place("host") == ComponentSpan("host", 7, 13)
    assert parse("http://[::1]/").place("host") == ComponentSpan("host", 8, 11)


@pytest.mark.parametrize("host", ["host.example", "192.0.2.1", "my_host", "[::1]"])
def test_hosts_are_written(host: str) -> None:
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
def test_what_is_no_host_is_not_written(host: str, kind: str) -> None:
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
def test_host_names_of_rfc_1738(host: str, verdict: bool) -> None:
    assert is_hostname(host) is verdict
