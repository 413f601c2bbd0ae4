"""S02: bytes that would end a command, and long arguments; S07: names; S04 and S13: ports."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from resolver import Policy, Refused, check, parse
from resolver.policy.components import FETCH, SERVICE, check_data_port, find_objection
from resolver.policy.judgment import judge
from tests.resolver.policy.rows import CAUTIOUS, MENU, PAGE, UNTRUSTED, Row

#: URL templates with a place for a byte, the component that contains it, and the refused and warned bytes.
CONTROLS = (*range(1, 0x20), 0x7F)
LINE_END = (0x00, 0x0A, 0x0D)
FIELD_END = (0x00, 0x09, 0x0A, 0x0D)
HOLES = [
    ("ftp://a{}b@h.example/x", "user", LINE_END, CONTROLS),
    ("ftp://a:b{}@h.example/x", "password", LINE_END, CONTROLS),
    ("ftp://h.example/a/{}b/x", "cwds[1]", LINE_END, CONTROLS),
    ("ftp://h.example/a/x{}", "name", LINE_END, CONTROLS),
    ("ftps://h.example/a/x{};type=a", "name", LINE_END, CONTROLS),
    ("gopher://h.example/0a{}", "selector", (0x00, 0x0A, 0x0D), set(CONTROLS) - {9}),
    ("gophers://h.example/7a%09w{}", "search", (0x00, 0x0A, 0x0D), set(CONTROLS) - {9}),
    ("gopher://h.example/0a%09%09+te{}xt", "gopherplus", (), set(CONTROLS) - set(FIELD_END)),
    ("http://u{}:p@h.example/", "user", (*LINE_END, 0x3A), CONTROLS),
    ("https://u:p{}@h.example/", "password", LINE_END, CONTROLS),
    ("news://u{}@h.example/a.b", "user", LINE_END, (*CONTROLS, 0x20)),
    ("nntp://u:p{}@h.example/a.b", "password", LINE_END, (*CONTROLS, 0x20)),
    ("prospero://h.example/a{}", "hsoname", LINE_END, CONTROLS),
    ("prospero://h.example/a;b{}=c", "fields[0].name", LINE_END, CONTROLS),
    ("prospero://h.example/a;x=y;b=c{}", "fields[1].value", LINE_END, CONTROLS),
    ("wais://h.example/d{}", "database", (0x00, 0x1F, 0x40), ()),
    ("wais://h.example/d?{}", "search", (), ()),
    ("wais://h.example/d/T{}/x", "wtype", (), ()),
    ("wais://h.example/d/T/x{}", "wpath", (), ()),
    ("telnet://u{}@h.example/", "user", (), (0, *CONTROLS)),
    ("telnets://u:p{}@h.example/", "password", (), (0, *CONTROLS)),
]


@pytest.mark.parametrize(
    ("template", "component", "refused", "warned"), HOLES, ids=lambda value: str(value)[:40]
)
def test_s02_decides_each_byte_in_each_component(
    template: str, component: str, refused: tuple[int, ...], warned: tuple[int, ...]
) -> None:
    """Each of the 256 byte values is refused, warned or allowed, with its position in the text."""
    for octet in range(256):
        if octet == 0x09 and component == "gopherplus":
            continue  # S03 decides
        if octet == 0x09 and component in ("selector", "search"):
            continue  # a delimiter there: the component cannot contain it
        text = template.format(f"%{octet:02X}")
        decisions = [r for r in check(text, policy=Policy(allow_password=True)).decisions if r.rule == "S02"]
        if octet in refused:
            expected = "refuse"
        elif octet in warned:
            expected = "warn"
        elif octet in LINE_END and component == "gopherplus":
            continue
        else:
            expected = None
        assert [r.action for r in decisions] == ([] if expected is None else [expected]), (octet, text)
        for decision in decisions:
            assert decision.position == text.index(f"%{octet:02X}")
            assert f"byte {octet:02X} in {component}," in decision.detail
            assert f"position {decision.position} of the URL" in decision.detail


@pytest.mark.parametrize(
    "row",
    [
        Row("ftp://host/a%0D%0ADELE%20b", "refuse", ("S02",)),
        Row("ftp://host/a%0ADELE%20b", "refuse", ("S02",)),
        Row("ftp://host/a%00", "refuse", ("S02",)),
        Row("ftp://u%0D%0ASITE%20x@host/a", "refuse", ("S02",)),
        Row("gopher://h.example/0a%0D%0Ab", "refuse", ("S02",)),
        Row("gopher://h.example/7s%09a%0Ab", "refuse", ("S02",)),
        Row("gopher://h.example/0x%0D%0AQUIT", "refuse", ("S02",), origin="chosen", referrer=MENU),
        Row("ftp://host/a%07", "warn", ("S02",)),
        Row("ftp://host/a%07", "refuse", ("S02",), CAUTIOUS),
        Row("ftp://host/a%07", "warn", ("S02",), origin="chosen"),
        Row("ftp://host/a%07", "refuse", ("S02",), origin="derived"),
        Row("http://h.example/a%0D%0Ab?%00", "allow"),  # sent encoded, as written
        Row("wais://h.example/d%1Fe", "refuse", ("S02",)),
        Row("wais://h.example/other%40server", "refuse", ("S02",)),
        Row("file:///a%0A", "allow"),  # a file name may contain it; nothing is sent
        Row("ftp://h.example/%E9%20%FF%2F", "allow"),
        Row("mailto:a@b?subject=x%0D%0ABcc:%20c@d", "refuse", ("S02",)),
        Row("mailto:a@b?subject=x&x%0A=y", "refuse", ("S02",)),
        Row("mailto:a@b?BODY=one%0D%0Atwo&body=%00", "allow"),  # a body consists of lines
    ],
    ids=str,
)
def test_s02_decides_by_circumstances(row: Row) -> None:
    row.hold()


def test_s02_has_no_override() -> None:
    policy = Policy(
        allow_port=set(range(1, 65536)),
        allow_address={"0.0.0.0/0"},
        allow_form=True,
        allow_password=True,
        allow_raw=True,
    )
    assert check("ftp://h.example/a%0Db", policy=policy).rules == ("S02",)


def test_s02_refusal_points_at_the_escape() -> None:
    text = "<URL:ftp://h.example/a%2Fb/c%41%0dd>"
    error = check(text).error()
    assert isinstance(error, Refused)
    assert (error.rule, error.flag, error.position) == ("S02", None, text.index("%0d"))
    assert "byte 0D in name" in str(error)


def test_s02_mail_header_finding_points_at_the_escape() -> None:
    text = "mailto:a@b?body=x%0Ay&cc=c@d%0D"
    (decision,) = check(text).decisions
    assert (decision.position, "headers[1].value" in decision.detail) == (text.index("%0D"), True)


def test_s02_refusal_does_not_quote_password() -> None:
    verdict = check("ftp://u:sesame%0Dopen@h.example/")
    error = verdict.error(parse("ftp://u:sesame%0Dopen@h.example/"))
    assert error is not None
    assert "sesame" not in f"{error} {error.url} {verdict}"


def test_s02_checks_urls_that_were_not_parsed() -> None:
    """A URL built by a program has no positions, and no parser has checked it."""
    for text, change in [
        ("nntp://h.example/a.b", {"group": b"a.b\r\nPOST"}),
        ("news:a@b", {"message_id": b"a@b>\r\nQUIT"}),
        ("http://h.example/", {"path": "a b"}),
        ("http://h.example/", {"path": "a\r\nHost: x"}),
        ("http://h.example/?x", {"search": "\u212a"}),
        ("gopher://h.example/0", {"selector": b"a\tb"}),
    ]:
        changed = replace(parse(text), places=(), **change)  # type: ignore[arg-type]
        verdict = judge(changed, Policy.default())
        assert (verdict.action, verdict.rules) == ("refuse", ("S02",)), change
        assert verdict.decisions[0].position is None


@pytest.mark.parametrize(
    ("template", "longest"),
    [
        ("ftp://h.example/{}", 4000),
        ("ftp://h.example/{}/x", 4000),
        ("ftp://{}@h.example/", 4000),
        ("gopher://h.example/0{}", 4096),
        ("gopher://h.example/7ab%09{}", 4093),  # one line: selector, TAB, search
        ("gopher://h.example/0a%09%09+{}", 4092),
        ("wais://h.example/{}", 255),
        ("wais://h.example/d?{}", 4000),
        ("wais://h.example/d/{}/x", 64),
        ("wais://h.example/d/T/{}", 2048),
        ("news://{}@h.example/a.b", 496),
    ],
)
@pytest.mark.parametrize("spelling", ["a", "%61"])
def test_s02_argument_length_counts_decoded_bytes(template: str, longest: int, spelling: str) -> None:
    longest_url = template.format(spelling * longest)
    if "h.example" in template and len(longest_url) < 65_000:
        assert "S02" not in check(longest_url).rules
        verdict = check(template.format(spelling * (longest + 1)))
        assert (verdict.action, verdict.rules) == ("refuse", ("S02",))
        assert str(longest) in verdict.findings[0].detail or "4096" in verdict.findings[0].detail


# S07: names that look like other names.

APPLE = "xn--80ak6aa92e.com"  # five Cyrillic letters


def label_of(text: str) -> str:
    return "xn--" + text.encode("punycode").decode("ascii")


@pytest.mark.parametrize(
    "text",
    [
        "bücher",
        "münchen-2",
        "straße",
        "例え",  # Han and kana
        "日本語サイト",
        "東京abc",  # Han and Latin
        "ラーメンbar",
        "々木",
        "한국",
        "大韓민국",  # Han and Hangul
        "россия",  # я and others resemble no Latin letter
        "пример",
        "ελλάδα",
        "παράδειγμα",
        "עברית",
        "العربية",
        "भारत",
        "ไทย",
    ],
)
def test_s07_allows_labels_of_consistent_script(text: str) -> None:
    assert find_objection(label_of(text)) is None
    assert check(f"http://{label_of(text)}.example/", policy=UNTRUSTED).action == "allow"


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (APPLE.removesuffix(".com"), "letters"),
        (label_of("еріс"), "letters"),
        (label_of("сосо-2"), "letters"),  # digits and hyphens do not help
        (label_of("ανο"), "letters"),
        (label_of("pаypal"), "scripts"),  # one Cyrillic a
        (label_of("gοοgle"), "scripts"),  # Greek o
        (label_of("аνο"), "scripts"),  # Cyrillic and Greek
        (label_of("한국abc"), "scripts"),
        (label_of("한국カナ"), "scripts"),
        (label_of("a\u200db"), "characters"),
        (label_of("a\u202eb"), "characters"),
        (label_of("a\u0085b"), "characters"),
        (label_of("a\u0378b"), "characters"),  # unassigned
        (label_of("a\ue000b"), "characters"),  # private use
        ("xn--", "decode"),
        ("xn--a", "characters"),  # U+0080
        ("xn--99999999", "decode"),
        ("xn--abc-", "decode"),  # ASCII in disguise
        ("xn--zzzzzzzzzzzzzz", "decode"),
        (label_of("bÜcher"), "decode"),  # upper case: UTS 46 would map it
        (label_of("ﬁn"), "decode"),  # a ligature, likewise
        (label_of("i❤"), "decode"),  # not a letter under IDNA 2008
        (label_of("a。b"), "decode"),  # the ideographic stop would make two labels
    ],
)
def test_s07_warns_of_deceptive_labels(label: str, words: str) -> None:
    objection = find_objection(label)
    assert objection is not None
    assert words in objection
    assert check(f"http://www.{label}.example/").rules == ("S07",)


@pytest.mark.parametrize(
    "row",
    [
        Row(f"http://{APPLE}/", "warn", ("S07",)),
        Row(f"ftp://www.{APPLE.upper()}/", "warn", ("S07",)),
        Row(f"http://{APPLE}/", "refuse", ("S07",), CAUTIOUS),
        Row(f"http://{APPLE}/", "refuse", ("S07",), origin="derived", referrer=PAGE),
        Row(f"http://{APPLE}/", "warn", ("S07",), origin="chosen", referrer=PAGE),
        Row(f"http://{APPLE}/b", "warn", ("S07",), origin="derived", referrer=(f"http://{APPLE}/a", None)),
        Row(f"http://{APPLE}/", "allow", (), Policy(name="cautious", allow_name={APPLE.upper() + "."})),
        Row(f"http://{APPLE}./", "allow", (), Policy(allow_name={APPLE})),
        # the override is for the host, not a domain
        Row(f"http://www.{APPLE}/", "warn", ("S07",), Policy(allow_name={APPLE})),
        Row("http://xn-not-one.example/", "allow"),
        Row(f"file:///{APPLE}", "allow"),
        # Another parser may read an encoded host as a different host, and a filter before us may miss it.
        Row("http://%65vil.example/", "allow"),
        Row("http://%65vil.example/", "allow", (), CAUTIOUS),
        Row("http://%65vil.example/", "refuse", ("S07",), UNTRUSTED),
        Row("ftp://u@h%2Eexample:2121/", "refuse", ("S04", "S07"), UNTRUSTED),
        Row("news://%65vil.example/a.b", "refuse", ("S07",), UNTRUSTED),
        Row("news:1@%68.example", "allow", (), UNTRUSTED),  # no host, but part of a message ID
        Row("file://local%68ost/srv", "refuse", ("S07",), Policy(name="untrusted", file_root="/srv")),
        Row("http://%65vil.example/", "allow", (), Policy(name="untrusted", allow_name={"evil.example"})),
        Row("http://h.example/%65", "allow", (), UNTRUSTED),
    ],
    ids=str,
)
def test_s07_decides_by_circumstances(row: Row) -> None:
    row.hold()


def test_s07_refusal_shows_name_as_given_and_flag() -> None:
    error = check(f"http://{APPLE}/", policy=CAUTIOUS).error()
    assert isinstance(error, Refused)
    assert (error.rule, error.flag, error.position) == ("S07", f"--allow-name {APPLE}", 7)
    assert APPLE in str(error)
    assert str(error).isascii()


def test_idna_is_imported_only_for_encoded_labels() -> None:
    program = (
        "import sys; from resolver.policy.judgment import check; check('http://a.example/'); "
        "before = 'idna' in sys.modules; "
        "check('http://xn--bcher-kva.example/'); print(before, 'idna' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False True\n"


# S04: ports by scheme; S13: the port of FTP's data connection.

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
def test_s04_allows_default_port(scheme: str, port: int) -> None:
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
def test_s04_decides_port_by_scheme(schemes: tuple[str, ...], port: int, action: str) -> None:
    for scheme in schemes:
        verdict = check(url_of(scheme, port))
        assert (verdict.action, verdict.rules) == (action, () if action == "allow" else ("S04",)), scheme


def test_s04_refuses_both_port_lists_to_gopher_and_the_first_to_http() -> None:
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
        # A port that the user accepted is accepted for links at the same scheme, host and port, for each
        # origin …
        Row(
            "gopher://h.example:7070/0a",
            "warn",
            ("S04",),
            origin="derived",
            referrer=("gopher://h.example:7070/1", None),
        ),
        # … but not for another scheme, host or port, and not if it was also refused to the user.
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
def test_s04_decides_by_circumstances(row: Row) -> None:
    row.hold()


def test_s04_refusal_names_rule_and_flag_and_points_at_the_port() -> None:
    error = check("gopher://host.example:25/1").error()
    assert isinstance(error, Refused)
    assert (error.rule, error.flag, error.position, error.exit_code) == ("S04", "--allow-port 25", 22, 9)
    assert "S04" in str(error)
    assert error.setting == "allow_port 25"


@pytest.mark.parametrize("port", [0, 1, 21, 25, 1023])
def test_s13_refuses_data_port_below_1024(port: int) -> None:
    with pytest.raises(Refused) as caught:
        check_data_port(port, Policy.default())
    assert (caught.value.rule, caught.value.flag) == ("S13", f"--allow-port {port}")


@pytest.mark.parametrize("port", [1024, 6379, 6667, 65535])
def test_s13_ignores_port_lists(port: int) -> None:
    check_data_port(port, Policy.untrusted())


def test_s13_override_is_for_one_port() -> None:
    policy = Policy(allow_port={1000})
    check_data_port(1000, policy)
    with pytest.raises(Refused):
        check_data_port(999, policy)


ALLOWED = Policy(allowed_hosts={"a.example", "[::1]", "192.0.2.1", "gate.example"})


@pytest.mark.parametrize(
    "row",
    [
        Row("http://a.example/", "allow", (), ALLOWED),
        Row("gopher://A.Example.:70/0x", "allow", (), ALLOWED),
        Row("http://b.example/", "refuse", ("S22",), ALLOWED),
        Row("http://www.a.example/", "refuse", ("S22",), ALLOWED),
        Row("http://a.example.b.example/", "refuse", ("S22",), ALLOWED),
        Row("http://a.example@b.example/", "refuse", ("S22",), ALLOWED),
        Row("ftp://b.example/", "refuse", ("S22",), ALLOWED),
        Row("wais://b.example/d", "refuse", ("S22",), ALLOWED),
        Row("prospero://b.example/d", "refuse", ("S22",), ALLOWED),
        Row("nntp://b.example/a.b/1", "refuse", ("S22",), ALLOWED),
        Row("telnet://b.example/", "refuse", ("S22",), ALLOWED),
        Row("http://192.0.2.1/", "allow", (), ALLOWED),
        Row("http://192.0.2.2/", "refuse", ("S22",), ALLOWED),
        Row(
            "http://b.example/",
            "refuse",
            ("S22",),
            ALLOWED,
            origin="derived",
            referrer=("http://a.example/", None),
        ),
        Row("http://a.example/", "refuse", ("S22",), Policy(allowed_hosts=frozenset())),
        Row("http://a.example:25/", "refuse", ("S04",), ALLOWED),  # the list permits nothing
        Row("file:///srv", "allow", (), ALLOWED),
        Row("mailto:a@b.example", "allow", (), ALLOWED),
    ],
    ids=str,
)
def test_s22_refuses_hosts_outside_the_list(row: Row) -> None:
    row.hold()


def test_s22_applies_to_the_gateway_of_a_scheme() -> None:
    for gateway, action in (("http://gate.example/{url}", "allow"), ("http://b.example/{url}", "refuse")):
        assert check("nfs://h/x", policy=ALLOWED, gateways={"nfs": gateway}).action == action


def test_s22_refusal_names_host_position_and_flag() -> None:
    error = check("http://b.example/", policy=ALLOWED).error()
    assert isinstance(error, Refused)
    assert (error.rule, error.flag, error.position) == ("S22", "--allowed-hosts b.example", 7)
