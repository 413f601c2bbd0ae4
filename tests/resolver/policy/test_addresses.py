"""S08: the scope of addresses, and the origins that may connect to them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.contract import Origin
from resolver import Policy, Referrer, Refused, check, parse
from resolver.policy.addresses import AddressScope, classify, literal_addresses
from resolver.policy.judgment import judge_credentials, sift_addresses
from resolver.policy.subject import NewsServer, Subject
from tests.resolver.policy.rows import CAUTIOUS, DEFAULT, PUBLIC, UNTRUSTED, Row

ADDRESSES: dict[AddressScope, tuple[str, ...]] = {
    AddressScope.PUBLIC: (
        PUBLIC,
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.255.255",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2001:200::1",
        "2606:4700::1111",
        "3ffe:ffff::1",
        "::ffff:1.1.1.1",
        "::ffff:0:1.1.1.1",
        "2002:0101:0101::",
        "64:ff9b::1.1.1.1",
        "2606:4700::5efe:101:101",  # ISATAP
    ),
    AddressScope.PRIVATE: (
        "10.0.0.0",
        "10.255.255.255",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.0",
        "100.127.255.255",
        "198.18.0.1",
        "198.19.255.255",
        "fc00::1",
        "fdff::1",
        "fec0::1",
        "::ffff:10.0.0.1",
        "::10.0.0.1",
        "2002:0a00:0001::1",
        "64:ff9b::c0a8:101",
        "fd00:ec2::255",
        # Not public: addresses that IANA reserves for special purposes, and unassigned addresses.
        "192.0.0.1",
        "192.0.0.193",
        "192.0.2.1",
        "192.88.99.1",
        "198.51.100.1",
        "203.0.113.255",
        "::ffff:192.0.2.1",
        "100::1",
        "2001:1::1",
        "2001:2::1",
        "2001:1ff:ffff::1",
        "2001:db8::1",
        "2620:4f:8000::1",
        "3fff:fff::1",
        "4000::1",
        "5f00::1",
        "64:ff9c::7f00:1",
        "fe00::1",
        "64:ff9b:1::1.1.1.1",  # a local NAT64 translator
        "64:ff9b:1::",
        "2001:0:1:1::fefe:fefe",  # Teredo, of 1.1.1.1
        "2606:4700::200:5efe:10.0.0.1",
        "::ffff:0:192.168.0.1",
    ),
    AddressScope.LINK_LOCAL: (
        "169.254.169.254",
        "169.254.0.1",
        "fe80::1",
        "febf::1",
        "fe80::1%eth0",
        "100.100.100.200",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "2002:a9fe:a9fe::",
        "64:ff9b::100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "::ffff:168.63.129.16",
        "64:ff9b:1::a9fe:a9fe",
        "2001:0:1:1::5601:5601",  # Teredo, of 169.254.169.254
        "2606:4700::5efe:169.254.169.254",
        "::ffff:0:169.254.169.254",
    ),
    AddressScope.LOOPBACK: (
        "127.0.0.1",
        "127.255.255.255",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "::127.0.0.1",
        "2002:7f00:1::",
        "64:ff9b::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b:1::7f00:1",
        "64:ff9b:1:7f00:0:100::",  # the prefix of 48 bits (RFC 6052 2.2)
        "64:ff9b:1:7f:0:1::",  # … of 56, of 64 bits
        "64:ff9b:1:0:7f:0:100:0",
        "2001:0:1:1::80ff:fffe",  # Teredo
        "2606:4700::5efe:7f00:1",  # ISATAP
        "2606:4700::200:5efe:127.0.0.1",
    ),
    AddressScope.NEVER: (
        "0.0.0.0",
        "0.1.2.3",
        "::",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "ff02::1",
        "::ffff:0.0.0.0",
        "::2",  # IPv4-compatible: 0.0.0.2
        "64:ff9b::",
        "no address",
        "",
    ),
}
EACH = [(address, reach) for reach, addresses in ADDRESSES.items() for address in addresses]
INSIDE = {
    AddressScope.PUBLIC: PUBLIC,
    AddressScope.PRIVATE: "10.1.1.1",
    AddressScope.LINK_LOCAL: "169.254.7.7",
    AddressScope.LOOPBACK: "127.0.0.1",
    AddressScope.NEVER: "0.0.0.0",
}
URL = parse("http://h.example/")


def verdict_on(
    address: str, policy: Policy = DEFAULT, origin: Origin = "user", came_from: str | None = None
) -> str:
    referrer = Referrer("http://page.example/", came_from)
    left, verdict = sift_addresses(Subject(URL, policy, origin, referrer), [address])
    assert left == (() if verdict.action == "refuse" else (address,))
    assert verdict.rules == (() if verdict.action == "allow" else ("S08",))
    return verdict.action


@pytest.mark.parametrize(("address", "reach"), EACH)
def test_classify_returns_scope_of_address(address: str, reach: AddressScope) -> None:
    assert classify(address) is reach


#: Addresses that are open to everyone; the owner chooses the last bits.
CHOSEN = ("2606:4700::5efe:127.0.0.1", "2002:7f00:1::1", "2002:a00:1::1", "2001:0:1:1::80ff:fffe")


@pytest.mark.parametrize("address", CHOSEN)
def test_referrer_address_that_embeds_internal_one_gives_no_access(address: str) -> None:
    """The scope limits connections to the address; as a referrer it gives no access to internal addresses."""
    for there in ("127.0.0.1", "169.254.169.254", "::1"):
        assert verdict_on(there, origin="derived", came_from=address) == "refuse"
    assert judge_credentials(URL, address, CAUTIOUS, tls=False).action == "refuse"


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6, network="2000::/3"), st.ip_addresses(v=6)))
def test_classify_public_agrees_with_ipaddress(address: IPv4Address | IPv6Address) -> None:
    """Python's tables differ and depend on the Python version."""
    embedded = address.version == 6 and address.packed[:2] in (b"\0\0", b"\0\x64", b"\x20\x02")
    if classify(str(address)) is AddressScope.PUBLIC and not embedded:
        assert address.is_global


@given(st.text())
def test_classify_accepts_any_text(text: str) -> None:
    assert classify(text) in AddressScope


@pytest.mark.parametrize(("address", "reach"), EACH)
def test_user_origin_warns_of_link_local_and_refuses_never(address: str, reach: AddressScope) -> None:
    expected = {AddressScope.LINK_LOCAL: "warn", AddressScope.NEVER: "refuse"}.get(reach, "allow")
    assert verdict_on(address) == expected
    assert verdict_on(address, CAUTIOUS) == ("allow" if expected == "allow" else "refuse")


@pytest.mark.parametrize(("address", "reach"), EACH)
@pytest.mark.parametrize("origin", ["user", "chosen", "derived"])
def test_untrusted_allows_public_addresses_only(address: str, reach: AddressScope, origin: Origin) -> None:
    expected = "allow" if reach is AddressScope.PUBLIC else "refuse"
    assert verdict_on(address, UNTRUSTED, origin, came_from="127.0.0.1") == expected


@pytest.mark.parametrize("origin", ["chosen", "derived"])
@pytest.mark.parametrize("reach", AddressScope)
@pytest.mark.parametrize("came_from", [None, *INSIDE])
def test_link_scope_is_limited_by_referrer_address(
    origin: Origin, reach: AddressScope, came_from: AddressScope | None
) -> None:
    start = None if came_from is None else INSIDE[came_from]
    depth = AddressScope.PUBLIC if came_from in (None, AddressScope.NEVER) else came_from
    fits = reach in (AddressScope.PRIVATE, AddressScope.LOOPBACK) and reach <= depth
    expected = "allow" if reach is AddressScope.PUBLIC or fits else "refuse"
    assert verdict_on(INSIDE[reach], DEFAULT, origin, start) == expected


@pytest.mark.parametrize(
    ("allowed", "address", "action"),
    [
        ("10.0.0.0/8", "10.1.2.3", "allow"),
        ("10.0.0.0/8", "11.0.0.1", "allow"),
        ("10.0.0.0/8", "192.168.0.1", "refuse"),
        ("10.0.0.0/8", "::ffff:10.1.2.3", "allow"),
        ("::ffff:0:0/96", "::ffff:10.1.2.3", "allow"),
        ("::ffff:0:0/96", "10.1.2.3", "refuse"),
        ("127.0.0.1", "127.0.0.1", "allow"),
        ("127.0.0.1", "127.0.0.2", "refuse"),
        ("127.0.0.1", "::1", "refuse"),
        ("169.254.169.254", "169.254.169.254", "allow"),
        ("169.254.169.254", "169.254.169.253", "refuse"),
        ("0.0.0.0/0", "0.0.0.0", "allow"),
    ],
)
@pytest.mark.parametrize("policy", ["default", "cautious", "untrusted"])
@pytest.mark.parametrize("origin", ["chosen", "derived"])
def test_allow_address_overrides_only_its_range(
    allowed: str, address: str, action: str, policy: str, origin: Origin
) -> None:
    overridden = Policy(name=Policy.named(policy).name, allow_address={allowed})
    assert verdict_on(address, overridden, origin) == action


@pytest.mark.parametrize(
    ("origin", "addresses", "left", "action"),
    [
        ("chosen", (PUBLIC, "10.0.0.1"), (PUBLIC,), "allow"),
        ("derived", ("127.0.0.1", PUBLIC, "::1", "1.1.1.1"), (PUBLIC, "1.1.1.1"), "allow"),
        ("derived", ("10.0.0.1", "127.0.0.1"), (), "refuse"),
        ("user", ("fe80::1", PUBLIC), ("fe80::1", PUBLIC), "warn"),
        ("user", ("0.0.0.0", PUBLIC), (PUBLIC,), "allow"),
        ("derived", ("fe80::1", PUBLIC), (PUBLIC,), "allow"),
        ("user", (), (), "allow"),  # nothing to refuse, and nothing to connect to
    ],
)
def test_sift_addresses_drops_refused_and_decides_by_the_rest(
    origin: Origin, addresses: tuple[str, ...], left: tuple[str, ...], action: str
) -> None:
    found, verdict = sift_addresses(Subject(URL, DEFAULT, origin), addresses)
    assert (found, verdict.action) == (left, action)


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("localhost", ("::1", "127.0.0.1")),
        ("LocalHost.", ("::1", "127.0.0.1")),
        ("a.b.localhost", ("::1", "127.0.0.1")),
        ("notlocalhost", None),
        ("localhost.example", None),
        ("127.0.0.1", ("127.0.0.1",)),
        ("::1", ("::1",)),
        ("h.example", None),
        ("1.example", None),
    ],
)
def test_literal_addresses_of_literals_and_localhost(host: str, addresses: tuple[str, ...] | None) -> None:
    assert literal_addresses(host) == addresses


@pytest.mark.parametrize(
    "row",
    [
        Row("http://169.254.169.254/latest/meta-data/", "warn", ("S08",)),
        Row(
            "http://169.254.169.254/x",
            "refuse",
            ("S08",),
            origin="derived",
            referrer=("http://p.example/", PUBLIC),
        ),
        Row(
            "http://169.254.169.254/x",
            "refuse",
            ("S08",),
            origin="derived",
            referrer=("http://p/", "127.0.0.1"),
        ),
        Row("http://[::ffff:127.0.0.1]/", "allow"),
        Row("http://[::ffff:127.0.0.1]/", "refuse", ("S08",), UNTRUSTED),
        Row(
            "http://[::ffff:127.0.0.1]/", "refuse", ("S08",), origin="derived", referrer=("http://p/", PUBLIC)
        ),
        Row("http://localhost/", "allow"),
        Row("http://x.localhost/", "refuse", ("S08",), UNTRUSTED),
        Row("http://localhost/", "refuse", ("S08",), origin="chosen", referrer=("http://p.example/", PUBLIC)),
        Row("http://localhost/", "allow", (), origin="derived", referrer=("http://localhost/", "::1")),
        Row("http://localhost/", "allow", (), Policy(name="untrusted", allow_address={"127.0.0.0/8"})),
        Row("http://localhost/", "refuse", ("S08",), origin="chosen"),  # without a known referrer
        Row("http://0.0.0.0/", "refuse", ("S08",)),
        Row("http://[::]/", "refuse", ("S08",)),
        Row("ftp://255.255.255.255/", "refuse", ("S08",)),
        Row("http://h.example/", "allow", (), UNTRUSTED),  # a name is checked after its DNS lookup
        Row("file:///x", "allow"),
    ],
    ids=str,
)
def test_check_literal_address_without_lookup(row: Row) -> None:
    row.hold()


def test_check_uses_given_lookup_results() -> None:
    name = "http://rebind.example/"
    assert check(name, origin="derived", resolves={"rebind.example": [PUBLIC]}).action == "allow"
    inside = check(name, origin="derived", resolves={"Rebind.Example": ["127.0.0.1"]})
    assert (inside.action, inside.rules) == ("refuse", ("S08",))
    dotted = check("http://rebind.example./", origin="derived", resolves={"rebind.example": ["127.0.0.1"]})
    assert dotted.rules == ("S08",)
    assert check(name, origin="derived", resolves={"other.example": ["127.0.0.1"]}).action == "allow"
    both = check("gopher://h.example:25/1", policy=UNTRUSTED, resolves={"h.example": ["10.0.0.1"]})
    assert both.rules == ("S04", "S08")
    literal = check("http://127.0.0.1/", policy=UNTRUSTED, resolves={"127.0.0.1": [PUBLIC]})
    assert literal.rules == ("S08",)  # the literal address takes precedence


def test_configured_news_server_address_has_user_origin() -> None:
    own = Subject(parse("news:a.b"), DEFAULT, "derived", server=NewsServer("n.example", 119))
    left, verdict = sift_addresses(own, ["10.0.0.1"])
    assert (left, verdict.action) == (("10.0.0.1",), "allow")
    assert sift_addresses(Subject(parse("news://s/a.b"), DEFAULT, "derived"), ["10.0.0.1"])[0] == ()


def test_s08_refusal_names_the_flag() -> None:
    error = check("http://10.0.0.1/", policy=UNTRUSTED).error()
    assert isinstance(error, Refused)
    assert (error.rule, error.flag) == ("S08", "--allow-address 10.0.0.1")
    assert error.setting == "allow_address 10.0.0.1"
