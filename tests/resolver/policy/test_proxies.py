"""The proxy for a URL, exempt hosts (curl's rules and a few more), proxy settings and their findings."""

from __future__ import annotations

import re

import pytest

from protocols.location import Origin
from resolver import NotConfigured, Plan, Policy, check, explain
from resolver.policy.proxies import is_exempt, proxy_variables, variable_for
from resolver.policy.proxy import parse_proxy
from resolver.policy.subject import Endpoint

P = "http://proxy.example:3128"

#: The environment, a scheme, and the variable that applies to its URLs.
MEANT: list[tuple[dict[str, str], str, str | None]] = [
    ({}, "http", None),
    ({"http_proxy": P}, "http", "http_proxy"),
    ({"HTTP_PROXY": P}, "http", "HTTP_PROXY"),  # ignored, with a finding
    ({"HTTP_PROXY": P, "http_proxy": P}, "http", "http_proxy"),
    ({"HTTP_PROXY": P, "all_proxy": P}, "http", "all_proxy"),
    ({"HTTP_PROXY": P, "REQUEST_METHOD": "GET"}, "http", None),  # a client's header `Proxy:` (httpoxy)
    ({"HTTP_PROXY": P, "GATEWAY_INTERFACE": "CGI/1.1"}, "http", None),
    ({"http_proxy": P, "REQUEST_METHOD": "GET"}, "http", "http_proxy"),
    ({"HTTPS_PROXY": P}, "https", "HTTPS_PROXY"),
    ({"https_proxy": P, "HTTPS_PROXY": P}, "https", "https_proxy"),
    ({"http_proxy": P}, "https", None),
    ({"http_proxy": P, "https_proxy": P}, "ftp", None),
    ({"http_proxy": P}, "gopher", None),
    ({"ftp_proxy": P}, "ftp", "ftp_proxy"),
    ({"FTP_PROXY": P}, "ftp", "FTP_PROXY"),
    ({"ftp_proxy": P}, "ftps", None),
    ({"ftps_proxy": P}, "ftps", "ftps_proxy"),
    ({"gopher_proxy": P}, "gopher", "gopher_proxy"),
    ({"all_proxy": P}, "wais", "all_proxy"),
    ({"ALL_PROXY": P}, "http", "ALL_PROXY"),
    ({"ALL_PROXY": P, "all_proxy": P}, "news", "all_proxy"),
    ({"http_proxy": "", "all_proxy": P}, "http", "all_proxy"),
    ({"http_proxy": "", "HTTP_PROXY": ""}, "http", None),
    ({"Http_Proxy": P, "proxy": P, "no_proxy": "*"}, "http", None),
]


@pytest.mark.parametrize(("environment", "scheme", "name"), MEANT)
def test_variable_for_scheme_follows_curl(environment: dict[str, str], scheme: str, name: str | None) -> None:
    assert variable_for(scheme, proxy_variables({**environment, "PATH": "/bin"})) == name


#: An entry of no_proxy, a host with its port, and whether the host is reached directly.
EXEMPT: list[tuple[str, str, int, bool]] = [
    ("example.test", "www.example.test", 80, True),
    ("EXAMPLE.TEST", "www.example.test", 80, True),
    ("example.test", "WWW.Example.Test", 80, True),
    ("example.test", "example.test", 80, True),
    ("example.test", "badexample.test", 80, False),
    (".example.test", "example.test", 80, True),
    (".example.test", "www.example.test", 80, True),
    ("example.test.", "example.test", 80, True),
    ("example.test", "example.test.", 80, True),
    ("*", "h.example", 80, True),
    ("other.test,*", "h.example", 80, True),
    ("*.example.test", "www.example.test", 80, False),
    ("example.test:8081", "example.test", 8081, True),
    ("example.test:8081", "example.test", 80, False),
    ("a.test example.test", "example.test", 80, True),
    (" a.test , example.test\t", "example.test", 80, True),
    ("127.0.0.0/8", "127.0.0.2", 80, True),
    ("::1", "::1", 80, True),
    ("[::1]", "::1", 80, True),
    ("[::1]:81", "::1", 80, False),
    ("[::1]:81", "::1", 81, True),
    ("::/64", "::1", 80, True),
    ("0:0:0:0:0:0:0:1", "::1", 80, True),
    ("0.0.2", "127.0.0.2", 80, False),
    ("127.0.0.1", "127.0.0.1", 80, True),
    ("127.0.0.1", "localhost", 80, False),
    ("localhost", "127.0.0.1", 80, False),
    ("http://example.test", "example.test", 80, False),
    ("10.0.0.0/33", "10.0.0.1", 80, False),
    (".", "h.example", 80, False),
    (",", "h.example", 80, False),
    ("", "h.example", 80, False),
]


@pytest.mark.parametrize(("entry", "host", "port", "exempt"), EXEMPT)
def test_is_exempt_follows_no_proxy(entry: str, host: str, port: int, exempt: bool) -> None:
    endpoint = Endpoint(host, port, 80)
    assert is_exempt(endpoint, {"no_proxy": entry}) is exempt
    assert is_exempt(endpoint, {"NO_PROXY": entry}) is exempt
    both = {"no_proxy": entry, "NO_PROXY": "*"}  # lower case wins; an empty variable counts as unset
    assert is_exempt(endpoint, both) is (exempt or not entry)


ALL = {"all_proxy": "http://me:secret@proxy.example"}


#: The environment, a URL, and the expected finding.
SAID: list[tuple[dict[str, str], str, str]] = [
    ({"HTTP_PROXY": P}, "http://h.example/", "HTTP_PROXY .*not used"),
    (
        {"http_proxy": P, "REQUEST_METHOD": "GET"},
        "http://h.example/",
        "http_proxy .*S17",
    ),
    ({**ALL, "GATEWAY_INTERFACE": "CGI/1.1"}, "ftp://h.example/a", "all_proxy .*S17"),
    (
        {**ALL, "no_proxy": "*.example.test"},
        "http://h.example/",
        r"'\*\.example\.test' of no_proxy",
    ),
    (
        {**ALL, "no_proxy": "a.test,http://u:secret@b.test"},
        "http://h.example/",
        r"'http://\*{4}@b\.test' of no_proxy",
    ),
    ({**ALL, "no_proxy": "10.0.0.0/33"}, "http://h.example/", "'10.0.0.0/33' of no_proxy"),
]


@pytest.mark.parametrize("policy", [Policy.default(), Policy.cautious()])
@pytest.mark.parametrize("origin", ["user", "chosen", "derived"])
@pytest.mark.parametrize(("environment", "url", "words"), SAID)
def test_ignored_proxy_setting_is_reported(
    environment: dict[str, str], url: str, words: str, policy: Policy, origin: Origin
) -> None:
    """A redirect is not refused because of the finding: its first hop got the same warning."""
    action = "refuse" if policy.refuses_warnings else "warn"
    for verdict in (
        check(url, policy=policy, origin=origin, environment=environment),
        explain(url, policy=policy, origin=origin, environment=environment),
    ):
        found = [finding for finding in verdict.findings if finding.rule == "S09"]
        assert [finding.action for finding in found] == [action]
        assert re.search(words, found[0].detail)
        assert "secret" not in found[0].detail


@pytest.mark.parametrize("url", ["http://h.example/", "https://h.example/", "ftp://h.example/a"])
@pytest.mark.parametrize("policy", [Policy.default(), Policy.cautious()])
def test_used_proxy_is_not_a_finding(url: str, policy: Policy) -> None:
    plan = explain(url, policy=policy, environment=ALL)
    assert (plan.verdict, plan.findings, plan.proxy) == ("allow", (), "http://proxy.example:1080")
    assert _hosts(plan)[0] == "proxy.example"
    direct = explain(url, policy=policy, environment=ALL, proxy="none")
    assert (direct.proxy, _hosts(direct)[0]) == (None, "h.example")


def _hosts(plan: Plan) -> list[object]:
    return [step["host"] for step in plan.steps if step["action"] == "connect"]


#: The only allowed proxy; the user information in a proxy's URL does not matter.
TRUSTED = "http://gate.example:3128"


@pytest.mark.parametrize(
    ("proxy", "action"),
    [
        (TRUSTED, "allow"),
        ("http://me:secret@GATE.example:3128/", "allow"),
        ("gate.example:3128", "allow"),
        ("http://gate.example:3129", "refuse"),
        ("http://gate.example", "refuse"),
        ("http://gate.example.test:3128", "refuse"),
        ("https://gate.example:3128", "refuse"),
        ("socks5://gate.example:3128", "refuse"),
        ("http://gate.example:3128?", "refuse"),
        ("none", "allow"),
    ],
)
def test_untrusted_allows_only_the_trusted_proxy(proxy: str, action: str) -> None:
    policy = Policy(name="untrusted", trusted_proxy=TRUSTED)
    assert check("http://h.example/", policy=policy, proxy=proxy).action == action
    plan = explain("http://h.example/", policy=Policy.untrusted(), environment={"all_proxy": proxy})
    assert plan.verdict == ("refuse" if proxy != "none" else plan.verdict)
    if plan.verdict == "refuse":
        assert "all_proxy" in plan.findings[0].detail
        assert "secret" not in plan.findings[0].detail


@pytest.mark.parametrize("policy", [Policy.default(), Policy(name="untrusted", trusted_proxy=TRUSTED)])
def test_proxy_for_datagrams_is_refused(policy: Policy) -> None:
    for settings in ({"environment": {"all_proxy": TRUSTED}}, {"proxy": TRUSTED}):
        verdict = check("prospero://h.example/a", policy=policy, **settings)
        assert (verdict.action, verdict.rules) == ("refuse", ("S09",))
        assert "UDP" in verdict.findings[0].detail
    assert check("prospero://h.example/a", policy=policy, environment={"http_proxy": P}).action == "allow"


@pytest.mark.parametrize("url", ["file:///etc/hosts", "mailto:me@h.example", "nfs://h.example/x", "x-y://h/"])
def test_scheme_without_connection_has_no_proxy(url: str) -> None:
    assert "S09" not in check(url, environment=ALL).rules


def test_gateway_url_decides_the_proxy() -> None:
    gateways = {"nfs": "http://gateway.example/?u="}
    (finding,) = check("nfs://h.example/x", gateways=gateways, environment={"HTTP_PROXY": P}).findings
    assert (finding.rule, finding.detail.partition(":")[0]) == ("S09", "the gateway's URL")
    assert explain("nfs://h.example/x", gateways=gateways, environment={"http_proxy": P}).proxy == P
    exempt = {"http_proxy": P, "no_proxy": "gateway.example"}
    assert explain("nfs://h.example/x", gateways=gateways, environment=exempt).proxy is None


def test_check_without_environment_reads_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", P)
    assert check("http://h.example/").action == "allow"
    assert explain("http://h.example/").verdict == "allow"


# Parsing of the value of a proxy variable.

#: A value; its scheme, host and port; its user and password.
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
def test_parse_proxy_returns_host_port_and_login(
    text: str, place: tuple[str, str, int], login: tuple[bytes, bytes] | None
) -> None:
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
def test_parse_proxy_invalid_value_is_not_configured(text: str) -> None:
    with pytest.raises(NotConfigured, match=r"^all_proxy ") as caught:
        parse_proxy(text, "all_proxy")
    assert caught.value.exit_code == 2
    plan = explain("ftp://h.example/a", environment={"all_proxy": text or "?"})
    assert isinstance(plan.error, NotConfigured)
    assert plan.steps == ()


@pytest.mark.parametrize(
    "text", ["http://u:s3cret@h:99999", "http://u:s3cret@h?x", "ftp://u:s3cret@h", "u:s3cret@h h"]
)
def test_parse_proxy_error_does_not_show_password(text: str) -> None:
    with pytest.raises(NotConfigured) as caught:
        parse_proxy(text, "all_proxy")
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None
