"""S10, S18, S20: allowed targets of redirects and links; S06, S11: passwords and credentials."""

from __future__ import annotations

import pytest

from resolver import Policy, Refused, check, parse
from resolver.policy.judgment import judge_credentials
from resolver.policy.redirects import check_chain, may_carry_credentials
from tests.resolver.policy.rows import CAUTIOUS, DEFAULT, MENU, PAGE, PUBLIC, SECURE, UNTRUSTED, Row

URLS = {
    "http": "http://h.example/",
    "https": "https://h.example/",
    "ftp": "ftp://h.example/a",
    "ftps": "ftps://h.example/a",
    "gopher": "gopher://h.example/",
    "gophers": "gophers://h.example/",
    "wais": "wais://h.example/d",
    "news": "news:a.b",
    "snews": "snews://h.example/a.b",
    "nntp": "nntp://h.example/a.b",
    "nntps": "nntps://h.example/a.b",
    "prospero": "prospero://h.example/x",
    "file": "file:///x",
    "telnet": "telnet://h.example/",
    "telnets": "telnets://h.example/",
    "mailto": "mailto:a@b.example",
}
NEVER = {"file", "telnet", "telnets", "mailto"}
FROM_PROSPERO = {"ftp", "http", "https", "gopher", "wais", "news", "nntp", "prospero"}


def is_followed(start: str, target: str) -> bool:
    if start == target == "file":
        return True
    if target in NEVER or (start, target) == ("https", "http"):
        return False
    if start in ("http", "https"):
        return target in ("http", "https")
    return target in FROM_PROSPERO if start == "prospero" else target == start


@pytest.mark.parametrize("start", URLS)
@pytest.mark.parametrize("target", URLS)
def test_s10_follows_only_listed_scheme_pairs(start: str, target: str) -> None:
    verdict = check(URLS[target], origin="derived", referrer=(URLS[start], PUBLIC))
    assert ("S10" not in verdict.rules) == is_followed(start, target)
    for origin in ("user", "chosen"):
        assert "S10" not in check(URLS[target], origin=origin, referrer=(URLS[start], PUBLIC)).rules


@pytest.mark.parametrize(
    "row",
    [
        Row(
            "gopher://127.0.0.1:6379/_PING%0d%0a",
            "refuse",
            ("S10", "S02", "S04", "S08"),
            origin="derived",
            referrer=PAGE,
        ),
        Row("http://h.example/", "refuse", ("S10",), origin="derived", referrer=SECURE),
        Row("http://h.example/", "allow", origin="chosen", referrer=SECURE),
        Row("http://h.example/", "allow", (), Policy(allow_redirect={"http"}), "derived", SECURE),
        Row("ftp://h.example/", "allow", (), Policy(allow_redirect={"FTP"}), "derived", PAGE),
        Row(
            "ftp://h.example/", "allow", (), Policy(name="cautious", allow_redirect={"ftp"}), "derived", MENU
        ),
        Row("gopher://h.example/", "refuse", ("S10",), Policy(allow_redirect={"ftp"}), "derived", PAGE),
        Row("ftp://h.example:25/", "refuse", ("S04",), Policy(allow_redirect={"ftp"}), "derived", PAGE),
        Row("http://h.example/", "refuse", ("S10",), origin="derived", referrer=("no url", PUBLIC)),
        Row("http://h.example/", "allow", origin="derived"),  # without a known referrer
        Row("file:///etc/passwd", "refuse", ("S10", "S12"), origin="derived", referrer=PAGE),
        # S12 lets one local file lead to another, for every origin; S10's "never" covers ways into files.
        Row("file:///etc/passwd", "allow", origin="derived", referrer=("file:///etc/", None)),
        # The articles of a group are nntp://S/… also if the group was requested as news://S/….
        Row("nntp://h.example/a.b/1", "allow", origin="derived", referrer=("news://h.example/a.b", PUBLIC)),
        Row(
            "nntp://h.example:8119/a.b/1",
            "warn",
            ("S04",),
            origin="derived",
            referrer=("news://h.example:8119/a.b", PUBLIC),
        ),
        Row(
            "nntp://i.example/a.b/1",
            "refuse",
            ("S10",),
            origin="derived",
            referrer=("news://h.example/a.b", PUBLIC),
        ),
        Row(
            "nntps://h.example/a.b/1",
            "refuse",
            ("S10",),
            origin="derived",
            referrer=("news://h.example/a.b", PUBLIC),
        ),
        Row("mailto:a@b.example", "refuse", ("S10",), origin="derived", referrer=PAGE),
        Row("dict://127.0.0.1:6379/info", "refuse", ("S19", "S10"), origin="derived", referrer=PAGE),
    ],
    ids=str,
)
def test_s10_decides_by_circumstances(row: Row) -> None:
    row.hold()


def test_s10_refusal_has_exit_code_15() -> None:
    error = check("ftp://h.example/", origin="derived", referrer=PAGE).error()
    assert isinstance(error, Refused)
    assert (error.rule, error.flag, error.exit_code) == ("S10", "--allow-redirect ftp", 15)
    assert error.setting == "allow_redirect ftp"
    never = check("telnet://h.example/", origin="derived", referrer=PAGE).error()
    assert isinstance(never, Refused)
    assert (never.rule, never.flag, never.exit_code) == ("S10", None, 15)


@pytest.mark.parametrize(
    "row",
    [
        Row("telnet://h.example/", "allow", policy=UNTRUSTED),
        Row("telnet://h.example/", "warn", ("S18",), origin="chosen", referrer=MENU),
        Row("telnet://h.example/", "refuse", ("S18",), CAUTIOUS, "chosen", MENU),
        Row(
            "telnet://h.example/",
            "refuse",
            ("S10", "S18"),
            origin="derived",
            referrer=("telnet://h.example/", None),
        ),
        Row("telnet://-oProxyCommand/", "refuse", ("S18",)),
        Row("telnets://-l/", "refuse", ("S18",)),
        Row("telnet://a-b/", "allow"),
        Row("telnet://u%1Bx@h.example/", "warn", ("S02",)),
    ],
    ids=str,
)
def test_s18_decides_telnet_by_circumstances(row: Row) -> None:
    row.hold()


OFFERED = {"http", "https", "ftp", "gopher", "gophers", "news", "nntp", "wais", "telnet"}


@pytest.mark.parametrize("target", [*URLS, "dict"])
def test_s20_limits_schemes_of_gopher_menu_items(target: str) -> None:
    verdict = check(URLS.get(target, "dict://h/"), origin="chosen", referrer=MENU)
    assert ("S20" in verdict.rules) == (target not in OFFERED)
    assert "S20" not in check(URLS.get(target, "dict://h/"), referrer=MENU).rules
    assert "S20" not in check(URLS.get(target, "dict://h/"), origin="chosen", referrer=PAGE).rules


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("hURL:http://a.example/", False),
        ("h/URL:telnet://a.example/", False),
        ("hURL:file:///etc/passwd", True),
        ("h/URL:javascript:x", True),
        ("hURL:http://a%20b/", True),
        ("hURL:", True),
        ("hurl:file:///etc/passwd", False),  # not a link: an ordinary selector
        ("0URL:file:///etc/passwd", False),
    ],
)
def test_s20_limits_targets_of_url_items(path: str, refused: bool) -> None:
    for scheme in ("gopher", "gophers"):
        verdict = check(f"{scheme}://h.example/{path}")
        assert (verdict.action, verdict.rules) == (("refuse", ("S20",)) if refused else ("allow", ()))


def test_check_chain_ends_at_loop_and_limit() -> None:
    chain = [f"http://h.example/{number}" for number in range(11)]
    check_chain(chain[:10], "http://h.example/x", 10)
    for links, target, flag in (
        (chain, "http://h.example/x", "--limit hops=11"),
        (chain[:2], chain[0], None),
    ):
        with pytest.raises(Refused) as caught:
            check_chain(links, target, 10)
        assert (caught.value.rule, caught.value.flag, caught.value.exit_code) == ("S10", flag, 15)


# S06: names and passwords in URLs and in clear text; S11: hosts that may receive credentials.

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
        # User information in a scheme without it can make the URL look like another host.
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
def test_s06_decides_user_information(row: Row) -> None:
    row.hold()


def test_s06_warning_names_the_actual_host() -> None:
    (finding,) = check("http://www.bank.example@evil.example/").findings
    assert "'evil.example'" in finding.detail


def test_s06_password_of_unknown_scheme_is_found_and_hidden() -> None:
    verdict = check("x-foo://u:sesame@h/", gateways={"x-foo": "http://gw.example/?u="})
    assert (verdict.action, verdict.rules) == ("warn", ("S06",))
    assert "sesame" not in repr(verdict)


def test_s06_refusal_names_the_flag() -> None:
    error = check("ftp://u:p@h.example/", policy=CAUTIOUS).error()
    assert isinstance(error, Refused)
    assert (error.rule, error.flag, error.position) == ("S06", "--allow-password", 8)
    assert "S06" in str(error)
    assert error.setting == "allow_password"


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
def test_s06_decides_password_in_clear_text(address: str, tls: bool, policy: Policy, action: str) -> None:
    verdict = judge_credentials(parse("ftp://u@h.example/"), address, policy, tls=tls)
    assert (verdict.action, verdict.rules) == (action, () if action == "allow" else ("S06",))


def test_s06_refuses_password_in_clear_text_for_derived_url() -> None:
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
        ("news:a@b", "news:a@b", False),  # no server name: the hosts cannot be compared
        ("nntp://h.example/a.b", "nntp://h.example:119/c.d/1", True),
    ],
)
def test_s11_allows_credentials_only_for_same_origin(start: str, target: str, same: bool) -> None:
    assert may_carry_credentials(parse(start), parse(target), DEFAULT) is same


def test_s11_override_allows_only_the_named_host() -> None:
    policy = Policy(allow_forward={"B.example."})
    start = parse("http://u:p@a.example/")
    assert may_carry_credentials(start, parse("https://b.example:8443/"), policy)
    assert not may_carry_credentials(start, parse("http://c.b.example/"), policy)
    assert not may_carry_credentials(start, parse("http://a.example:81/"), policy)


def test_s11_override_does_not_affect_s06() -> None:
    assert (
        check("ftp://u:p@h.example/", policy=Policy(allow_forward={"h.example"}), referrer=MENU).action
        == "warn"
    )
