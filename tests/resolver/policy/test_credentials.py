"""S06: names and passwords in URLs and in clear; S11: where credentials may go."""

from __future__ import annotations

import pytest

from resolver import Policy, Refused, check, parse
from resolver.policy.judgement import judge_credentials
from resolver.policy.redirects import may_carry_credentials
from tests.resolver.policy.rows import CAUTIOUS, DEFAULT, MENU, PUBLIC, UNTRUSTED, Row

ALLOWED = Policy(allow_password=True)


@pytest.mark.parametrize(
    "row",
    [
        Row("ftp://u:p@h.example/", "warn", ("S06",)),
        Row("ftps://u:p@h.example/", "warn", ("S06",)),
        Row("telnet://u:p@h.example/", "warn", ("S06",)),
        Row("news://u:p@h.example/a.b", "warn", ("S06",)),
        Row("ftp://u:p@h.example/", "refuse", ("S06",), CAUTIOUS),
        Row("ftp://u:p@h.example/", "warn", ("S06",), origin="chosen"),
        Row("ftp://u:p@h.example/", "refuse", ("S06",), origin="derived"),
        Row("ftp://u:p@h.example/", "allow", (), ALLOWED),
        Row("ftp://u:p@h.example/", "allow", (), Policy(name="cautious", allow_password=True), "derived"),
        Row("ftp://u@h.example/", "allow"),
        Row("ftp://u:@h.example/", "allow"),  # present and empty
        Row("ftp://@h.example/", "allow"),
        Row("telnet://u@h.example/", "allow", (), CAUTIOUS),
        # User information where there is none: another host is meant than the eye sees.
        Row("http://www.bank.example@evil.example/", "warn", ("S06",)),
        Row("http://www.bank.example@evil.example/", "warn", ("S06",), ALLOWED),  # passwords only
        Row("http://www.bank.example@evil.example/", "refuse", ("S06",), UNTRUSTED),
        Row("https://@h.example/", "warn", ("S06",)),
        Row("gopher://u@h.example/", "warn", ("S06",)),
        Row("nntp://u@h.example/a.b", "warn", ("S06",)),
        Row("wais://u:p@h.example/d", "warn", ("S06",), ALLOWED),
        Row("prospero://u@h.example/x", "warn", ("S06",)),
        Row(
            "gophers://u@h.example/",
            "refuse",
            ("S06",),
            origin="derived",
            referrer=("gophers://m.example/", None),
        ),
        Row("http://h.example/a@b", "allow"),
    ],
    ids=str,
)
def test_user_information(row: Row) -> None:
    row.hold()


def test_warning_says_which_host_is_meant() -> None:
    (finding,) = check("http://www.bank.example@evil.example/").findings
    assert "'evil.example'" in finding.detail


def test_password_of_a_scheme_unknown_here_counts_and_is_not_shown() -> None:
    verdict = check("x-foo://u:sesame@h/", gateways={"x-foo": "http://gw.example/?u="})
    assert (verdict.action, verdict.rules) == ("warn", ("S06",))
    assert "sesame" not in repr(verdict)


def test_refusal_names_the_flag() -> None:
    error = check("ftp://u:p@h.example/", policy=CAUTIOUS).error()
    assert isinstance(error, Refused)
    assert (error.rule, error.flag, error.position) == ("S06", "--allow-password", 8)
    assert "S06" in str(error)
    assert "--allow-password" in str(error)


@pytest.mark.parametrize(
    ("address", "tls", "policy", "action"),
    [
        (PUBLIC, False, DEFAULT, "warn"),
        ("10.0.0.1", False, DEFAULT, "warn"),
        ("2001:db8::1", False, DEFAULT, "warn"),
        (PUBLIC, False, CAUTIOUS, "refuse"),
        (PUBLIC, True, CAUTIOUS, "allow"),
        ("127.0.0.1", False, CAUTIOUS, "allow"),
        ("::1", False, CAUTIOUS, "allow"),
        ("::ffff:127.0.0.1", False, CAUTIOUS, "allow"),
        (PUBLIC, False, Policy(name="cautious", allow_password=True), "allow"),
    ],
)
def test_password_in_clear(address: str, tls: bool, policy: Policy, action: str) -> None:
    verdict = judge_credentials(parse("ftp://u@h.example/"), address, policy, tls=tls)
    assert (verdict.action, verdict.rules) == (action, () if action == "allow" else ("S06",))


def test_password_in_clear_on_a_derived_url_is_refused() -> None:
    verdict = judge_credentials(parse("ftp://h.example/"), PUBLIC, DEFAULT, tls=False, origin="derived")
    assert verdict.action == "refuse"


@pytest.mark.parametrize(
    ("start", "target", "same"),
    [
        ("http://u:p@a.example/", "http://a.example/x", True),
        ("http://a.example/", "http://a.example:80/", True),
        ("http://a.example/", "http://A.EXAMPLE/", True),
        ("http://a.example/", "http://a.example./", True),
        ("http://a.example./", "http://a.example/", True),
        ("http://u:p@a.example/", "http://a.example:8081/", False),
        ("http://a.example/", "https://a.example/", False),
        ("https://a.example/", "http://a.example/", False),
        ("http://a.example/", "http://b.a.example/", False),
        ("http://b.a.example/", "http://a.example/", False),
        ("http://a.example/", "http://a.example.evil.example/", False),
        ("http://a.example/", "ftp://a.example:80/", False),
        ("ftp://a.example/", "ftp://a.example/", True),
        ("http://a.example/", "file:///etc/passwd", False),
        ("news:a@b", "news:a@b", False),  # no server named: there is no place to compare
        ("nntp://h.example/a.b", "nntp://h.example:119/c.d/1", True),
    ],
)
def test_credentials_stay_where_they_were_given(start: str, target: str, same: bool) -> None:
    assert may_carry_credentials(parse(start), parse(target), DEFAULT) is same


def test_credentials_may_go_to_a_host_that_was_named_and_no_other() -> None:
    policy = Policy(allow_forward={"B.example."})
    start = parse("http://u:p@a.example/")
    assert may_carry_credentials(start, parse("https://b.example:8443/"), policy)
    assert not may_carry_credentials(start, parse("http://c.b.example/"), policy)
    assert not may_carry_credentials(start, parse("http://a.example:81/"), policy)


def test_override_of_s11_is_not_one_of_s06() -> None:
    assert (
        check("ftp://u:p@h.example/", policy=Policy(allow_forward={"h.example"}), referrer=MENU).action
        == "warn"
    )
