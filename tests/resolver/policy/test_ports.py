"""S04: ports by scheme; S13: the port of FTP's second connection."""

from __future__ import annotations

import pytest

from resolver import Policy, Refused, check
from resolver.policy.components import FETCH, SERVICE, check_data_port
from tests.resolver.policy.rows import CAUTIOUS, MENU, PAGE, Row

TEXT_SCHEMES = ("ftp", "gopher", "nntp", "wais", "prospero", "ftps", "gophers", "nntps", "news", "snews")
PATHS = {
    "nntp": "/a.b",
    "nntps": "/a.b",
    "news": "/a.b",
    "snews": "/a.b",
    "wais": "/db",
    "prospero": "/x",
}
OWN = {
    "http": 80,
    "https": 443,
    "ftp": 21,
    "ftps": 990,
    "gopher": 70,
    "gophers": 70,
    "nntp": 119,
    "nntps": 563,
    "news": 119,
    "snews": 563,
    "telnet": 23,
    "telnets": 992,
    "wais": 210,
    "prospero": 1525,
}


def url_of(scheme: str, port: int) -> str:
    return f"{scheme}://host.example:{port}{PATHS.get(scheme, '/')}"


@pytest.mark.parametrize(("scheme", "port"), OWN.items())
def test_own_port_is_allowed_explicit_or_not(scheme: str, port: int) -> None:
    assert check(url_of(scheme, port)).action == "allow"
    assert check(f"{scheme}://host.example{PATHS.get(scheme, '/')}").action == "allow"


@pytest.mark.parametrize(
    ("schemes", "port", "action"),
    [
        (("http", "https"), 25, "refuse"),
        (("http", "https"), 10080, "refuse"),
        (("http", "https"), 21, "refuse"),  # privileged for ftp only
        (("http", "https"), 6379, "allow"),
        (("http", "https"), 9200, "allow"),
        (("http", "https"), 81, "warn"),
        (("http",), 443, "warn"),
        (("https",), 80, "warn"),
        (("http", "https"), 1023, "warn"),
        (("http", "https"), 1024, "allow"),
        (("http", "https"), 8080, "allow"),
        (TEXT_SCHEMES, 25, "refuse"),
        (TEXT_SCHEMES, 6379, "refuse"),
        (TEXT_SCHEMES, 27017, "refuse"),
        (TEXT_SCHEMES, 80, "refuse"),  # on no list, below 1024
        (TEXT_SCHEMES, 1024, "warn"),
        (TEXT_SCHEMES, 65535, "warn"),
        (("gopher",), 21, "refuse"),
        (("ftp",), 70, "refuse"),
        (("telnet", "telnets"), 25, "warn"),
        (("telnet", "telnets"), 6379, "warn"),
        (("telnet", "telnets"), 80, "warn"),
        (("telnet", "telnets"), 4000, "warn"),
    ],
)
def test_table_by_scheme(schemes: tuple[str, ...], port: int, action: str) -> None:
    for scheme in schemes:
        verdict = check(url_of(scheme, port))
        assert (verdict.action, verdict.rules) == (action, () if action == "allow" else ("S04",)), scheme


def test_every_listed_port_is_refused_to_gopher_and_only_the_first_list_to_http() -> None:
    for port in FETCH - {0, 70}:
        assert check(url_of("gopher", port)).rules == ("S04",)
        assert check(url_of("http", port)).action == ("allow" if port == 80 else "refuse")
    for port in SERVICE:
        assert check(url_of("gopher", port)).action == "refuse"
        assert check(url_of("http", port)).action == "allow"
    assert (len(FETCH), len(SERVICE)) == (83, 20)


@pytest.mark.parametrize(
    "row",
    [
        Row("gopher://127.0.0.1:6379/_flushall", "refuse", ("S04",)),
        Row("gopher://h.example:7070/1", "refuse", ("S04",), CAUTIOUS),
        Row("gopher://h.example:7070/1", "refuse", ("S04",), origin="derived", referrer=MENU),
        Row("gopher://h.example:7070/1", "warn", ("S04",), origin="chosen", referrer=MENU),
        Row("gopher://h.example:7070/1", "allow", (), Policy(allow_port={7070})),
        Row("gopher://h.example:25/1", "allow", (), Policy(name="cautious", allow_port={25})),
        Row("gopher://h.example:26/1", "refuse", ("S04",), Policy(allow_port={25})),
        # What lies in a place the person accepted is accepted too, however it was reached …
        Row(
            "gopher://h.example:7070/0a",
            "warn",
            ("S04",),
            origin="derived",
            referrer=("gopher://h.example:7070/1", None),
        ),
        # … but not for another scheme, host or port, and never what was refused to the person as well.
        Row(
            "gopher://h.example:7071/0a",
            "refuse",
            ("S04",),
            origin="derived",
            referrer=("gopher://h.example:7070/1", None),
        ),
        Row(
            "gopher://i.example:7070/0a",
            "refuse",
            ("S04",),
            origin="derived",
            referrer=("gopher://h.example:7070/1", None),
        ),
        Row(
            "http://h.example:81/b",
            "warn",
            ("S04",),
            origin="derived",
            referrer=("http://H.example:81/a", None),
        ),
        Row(
            "http://h.example:81/b",
            "refuse",
            ("S04",),
            origin="derived",
            referrer=("https://h.example:81/a", None),
            policy=Policy(allow_redirect={"http"}),
        ),
        Row(
            "http://h.example:25/b",
            "refuse",
            ("S04",),
            origin="chosen",
            referrer=("http://h.example:25/", None),
        ),
        Row("http://h.example:81/", "refuse", ("S04",), origin="derived", referrer=PAGE),
    ],
    ids=str,
)
def test_circumstances(row: Row) -> None:
    row.hold()


def test_refusal_names_rule_port_and_flag_and_points_at_the_port() -> None:
    error = check("gopher://host.example:25/1").error()
    assert isinstance(error, Refused)
    assert (error.rule, error.flag, error.position, error.exit_code) == ("S04", "--allow-port 25", 22, 9)
    assert "S04" in str(error)
    assert "--allow-port 25" in str(error)


@pytest.mark.parametrize("port", [0, 1, 21, 25, 1023])
def test_data_port_below_1024_is_refused(port: int) -> None:
    with pytest.raises(Refused) as caught:
        check_data_port(port, Policy.default())
    assert (caught.value.rule, caught.value.flag) == ("S13", f"--allow-port {port}")


@pytest.mark.parametrize("port", [1024, 6379, 6667, 65535])
def test_lists_do_not_apply_to_data_ports(port: int) -> None:
    check_data_port(port, Policy.untrusted())


def test_data_port_override_is_for_that_port() -> None:
    policy = Policy(allow_port={1000})
    check_data_port(1000, policy)
    with pytest.raises(Refused):
        check_data_port(999, policy)
