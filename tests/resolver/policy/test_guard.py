"""`guard`: the addresses of a host that other clients may connect to, by the same rules as for URLs."""

from __future__ import annotations

import pytest

import resolver
from resolver import InvalidUrl, Policy, Refused, Unreachable, guard
from resolver.policy.addresses import LOCALHOST

PUBLIC, PUBLIC_6 = "93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"


def test_guard_returns_allowed_addresses_in_order() -> None:
    found = ["10.0.0.1", PUBLIC_6, "127.0.0.1", PUBLIC, "::1", "fe80::1%eth0", "no address"]
    assert guard("h.example", found) == (PUBLIC_6, PUBLIC)
    here = Policy(name="untrusted", allow_address=frozenset({"10.0.0.0/8"}))
    assert guard("h.example", iter(found), policy=here) == ("10.0.0.1", PUBLIC_6, PUBLIC)
    assert guard("h.example", found, policy=Policy.default())[:4] == (
        "10.0.0.1",
        PUBLIC_6,
        "127.0.0.1",
        PUBLIC,
    )


@pytest.mark.parametrize("host", [PUBLIC, PUBLIC_6, f"[{PUBLIC_6}]"])
def test_guard_literal_host_ignores_given_addresses(host: str) -> None:
    """A given lookup result is ignored."""
    assert guard(host, ["127.0.0.1"]) == (host.strip("[]"),)


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "LOCALHOST."])
def test_guard_localhost_ignores_given_addresses(host: str) -> None:
    assert guard(host, [PUBLIC], policy=Policy.default()) == LOCALHOST
    with pytest.raises(Refused):
        guard(host, [PUBLIC])


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("h.example", ["127.0.0.1"]),
        ("h.example", ["::ffff:127.0.0.1"]),
        ("h.example", ["::ffff:10.0.0.1", "0.0.0.0", "169.254.169.254", "64:ff9b::a00:1", "::"]),
        ("127.0.0.1", []),
        ("0.0.0.0", []),
        ("[::ffff:127.0.0.1]", []),
        ("::ffff:7f00:1", []),
        ("::", []),
    ],
)
def test_guard_refuses_internal_addresses(host: str, found: list[str]) -> None:
    with pytest.raises(Refused) as caught:
        guard(host, found)
    assert caught.value.rule == "S08"


@pytest.mark.parametrize(
    "host",
    [
        *("2130706433", "0x7f000001", "0x7f.1", "017700000001", "127.1", "0177.0.0.1", "127.0.0.01"),
        *("", " ", "h.example ", "a b", "é.example", "127。0。0。1", "h.example\r\nx", "h\0"),
        *("a@h.example", "h.example:80", "h.example/x", "h.example?x", "h.example#x", "u:p@h.example"),
        *("[::1", "::1]", "[h.example]", "[[::1]]", "1.2.3.4.5", "256.0.0.1", "%31%32%37.0.0.1"),
    ],
)
def test_guard_refuses_invalid_hosts(host: str) -> None:
    with pytest.raises((InvalidUrl, Refused)):
        guard(host, [PUBLIC])


@pytest.mark.parametrize(
    ("port", "scheme", "rule"),
    [(25, "http", "S04"), (6379, "ftp", "S04"), (22, "https", "S04"), (81, "http", "S04")],
)
def test_guard_refuses_ports_of_other_services(port: int, scheme: str, rule: str) -> None:
    with pytest.raises(Refused) as caught:
        guard("h.example", [PUBLIC], port=port, scheme=scheme)
    assert caught.value.rule == rule
    allowed = Policy(name="untrusted", allow_port=frozenset({port}))
    assert guard("h.example", [PUBLIC], port=port, scheme=scheme, policy=allowed) == (PUBLIC,)


def test_guard_refuses_deceptive_names() -> None:
    with pytest.raises(Refused) as caught:
        guard("xn--80ak6aa92e.com", [PUBLIC])
    assert caught.value.rule == "S07"


def test_guard_host_without_addresses_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        guard("h.example", [])


def test_guard_agrees_with_check() -> None:
    """`guard` and `check` agree for every valid host and each of these addresses."""
    addresses = ["10.0.0.1", PUBLIC, "::1", "::ffff:1.2.3.4", "0.0.0.0", "100.64.0.1", "2002:7f00:1::"]
    policies = [Policy.default(), Policy.cautious(), Policy.untrusted()]
    for policy in policies:
        for address in addresses:
            for host in ("h.example", f"[{address}]" if ":" in address else address):
                verdict = resolver.check(
                    f"http://{host}:8080/", policy=policy, resolves={"h.example": [address]}
                )
                try:
                    allowed = bool(guard(host, [address], port=8080, policy=policy))
                except resolver.ResolveError:
                    allowed = False
                assert allowed == (verdict.action != "refuse"), (policy.name, host, address)
