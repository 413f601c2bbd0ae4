"""All rules together: invalid URLs, unknown schemes, order, overrides, forms, any text, long URLs."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import resolver.policy
from protocols.contract import Origin
from resolver import InvalidUrl, Policy, Refused, UnsupportedScheme, Verdict, check, parse
from resolver.policy import judgment
from resolver.policy.components import judge_name, judge_octets, judge_port
from resolver.policy.judgment import judge
from resolver.policy.redirects import judge_hop, judge_session, judge_user_information
from resolver.policy.subject import NewsServer, Subject
from resolver.url import registry
from resolver.url.parsing import MAX_URL
from tests.fresh import environment
from tests.resolver.policy.rows import CAUTIOUS, DEFAULT, MENU, PAGE, PUBLIC, UNTRUSTED, Row
from tests.sampled import FULL, examples

ORIGINS: tuple[Origin, ...] = get_args(Origin)
GATEWAYS = {"x-foo": "http://gw.example/?u=", "x-in": "http://10.0.0.1/?u=", "x-bad": "no gateway"}


@pytest.mark.parametrize(
    "row",
    [
        Row("", "refuse", ("S01",)),
        Row("http://h.example/a b", "refuse", ("S01",)),
        Row(r"http://127.0.0.1:8099\@127.0.0.1:8098/", "refuse", ("S01",)),
        Row("http://127.0.0.1:73635/", "refuse", ("S01",)),
        Row("http://127。0。0。1/", "refuse", ("S01",)),
        Row("http://0x7f000001/", "refuse", ("S01",)),
        Row("http://0177.0.0.1/", "refuse", ("S01",)),
        Row("http://2130706433/", "refuse", ("S01",)),
        Row("ftp://u:p@ss@host/", "refuse", ("S01",)),
        Row("dict://127.0.0.1:6379/info", "refuse", ("S19",)),
        Row("x-foo:bar", "refuse", ("S19",)),
        Row("afs://h/x", "refuse", ("S19",)),
        Row("local_file:///etc/passwd", "refuse", ("S01",)),  # a scheme cannot contain an underscore
        Row("local-file:///etc/passwd", "refuse", ("S19",)),
        Row("mailto:a@b.example", "allow", (), UNTRUSTED),
        Row("news:a.b", "allow", (), UNTRUSTED),
        Row("http://h.example/", "allow", (), UNTRUSTED),
        Row("http://h.example/", "allow", (), UNTRUSTED, "derived", PAGE),
        # Several rules fire, in their order, and only those of the strictest level are reported.
        Row("gopher://u:p@127.0.0.1:25/0a%0Ab", "refuse", ("S02", "S04")),
        Row("gopher://u:p@127.0.0.1:25/0a%0Ab", "refuse", ("S02", "S04", "S06", "S08"), UNTRUSTED),
        Row("ftp://u:p@xn--80ak6aa92e.com:8021/a%07", "warn", ("S02", "S04", "S06", "S07")),
    ],
    ids=str,
)
def test_check_combines_rules_in_order(row: Row) -> None:
    row.hold()


def test_check_invalid_url_keeps_parser_error() -> None:
    verdict = check("http://h.example/a b")
    error = verdict.error()
    assert isinstance(error, InvalidUrl)
    assert (error.kind, error.position) == ("bad-char", 18)
    assert verdict.decisions[0].position == 18
    assert "ss" not in check("ftp://u:p@ss@host/").findings[0].detail


@pytest.mark.parametrize(
    ("text", "action", "rules"),
    [
        ("x-foo:bar", "allow", ()),
        ("X-FOO:bar", "allow", ()),
        ("x-foo://u:p@h/", "warn", ("S06",)),
        ("x-bar:x", "refuse", ("S19",)),  # the gateway is for exactly one scheme
        ("x-bad:x", "refuse", ("S19",)),
        ("x-in:x", "allow", ()),  # the user's own gateway may be inside
    ],
)
@pytest.mark.parametrize("origin", ["user", "chosen"])
def test_gateway_allows_its_scheme(text: str, action: str, rules: tuple[str, ...], origin: Origin) -> None:
    verdict = check(text, origin=origin, gateways=GATEWAYS)
    assert (verdict.action, verdict.rules) == (action, rules)


def test_gateway_url_is_checked() -> None:
    assert check("x-in:x", gateways=GATEWAYS, policy=UNTRUSTED).rules == ("S08",)
    elsewhere = check("x-foo:x", gateways={"x-foo": "gopher://gw.example:25/0"})
    assert elsewhere.rules == ("S04",)
    assert elsewhere.decisions[0].position is None  # the port is not in the given text
    assert check("x-foo:x", gateways={"x-foo": "dict://gw.example/"}).rules == ("S19",)
    # a gateway's URL gets no gateway
    assert check("x-foo:x", gateways={"x-foo": "x-foo://gw/"}).rules == ("S19",)
    assert check("x-foo:x", gateways=GATEWAYS, origin="derived", referrer=PAGE).rules == ("S10",)


def test_gateway_does_not_replace_a_handler() -> None:
    assert check("gopher://h.example:25/1", gateways={"gopher": "http://gw.example/?u="}).rules == ("S04",)


def test_s19_refusal_names_the_flag() -> None:
    error = check("afs://h/x").error(parse("afs://h/x"))
    assert isinstance(error, UnsupportedScheme)
    assert error.scheme == "afs"
    assert "S19" in str(error)
    assert error.setting == "gateway afs=URL"
    assert "Andrew" in str(error)


def test_configured_news_server_is_checked_with_user_origin() -> None:
    url = parse("news:a.b")
    for server, action in ((NewsServer("s.example", 119), "allow"), (NewsServer("s.example", 25), "refuse")):
        assert judge(url, DEFAULT, server=server).action == action
    unusual = judge(url, DEFAULT, origin="derived", referrer=None, server=NewsServer("s.example", 1119))
    assert (unusual.action, unusual.rules) == ("warn", ("S04",))
    inside = judge(url, DEFAULT, origin="chosen", server=NewsServer("127.0.0.1", 119))
    assert inside.action == "allow"
    assert judge(url, UNTRUSTED, server=NewsServer("127.0.0.1", 119)).rules == ("S08",)
    named = judge(parse("news://s.example/a.b"), DEFAULT, server=NewsServer("127.0.0.1", 25))
    assert named.action == "allow"  # the URL's own server takes precedence


FORM = "gopher://h.example/0f%09%09+%091%0D%0A+-1%0D%0Ax%0D%0A.%0D%0A"
#: An override, a URL that it allows in the strictest circumstances, and its rule.
OVERRIDES: list[tuple[dict[str, Any], str, str]] = [
    ({"allow_port": {7070}}, "gopher://h.example:7070/", "S04"),
    ({"allow_address": {"10.0.0.0/8"}}, "gopher://10.1.2.3/", "S08"),
    ({"allow_name": {"xn--80ak6aa92e.com"}}, "gopher://xn--80ak6aa92e.com/", "S07"),
    ({"allow_redirect": {"ftp"}}, "ftp://h.example/", "S10"),
    ({"allow_password": True}, "ftp://u:p@h.example/", "S06"),
    ({"allow_form": True}, FORM, "S05"),
]
OTHERS = [
    ("gopher://h.example/0a%0Db", "S02"),
    ("gopher://h.example/0a%09%09+%0D", "S03"),
    ("http://u@h.example/", "S06"),
    ("file://h.example/", "S12"),
    ("telnet://-x/", "S18"),
    ("dict://h/", "S19"),
]


@pytest.mark.parametrize(("override", "text", "rule"), OVERRIDES)
def test_override_allows_its_rule_in_every_policy_and_origin(
    override: dict[str, Any], text: str, rule: str
) -> None:
    referrer = ("gopher://menu.example/", PUBLIC)
    for policy in (DEFAULT, CAUTIOUS, UNTRUSTED):
        for origin in ORIGINS:
            allowed = check(text, policy=replace(policy, **override), origin=origin, referrer=referrer)
            assert rule not in allowed.rules
    strict = check(text, policy=UNTRUSTED, origin="derived", referrer=referrer)
    assert rule in strict.rules


@pytest.mark.parametrize(("override", "text", "rule"), OVERRIDES)
def test_override_affects_no_other_rule(override: dict[str, Any], text: str, rule: str) -> None:
    refused = [(other, fired) for _, other, fired in OVERRIDES if fired != rule]
    for other, fired in [*refused, *OTHERS]:
        if fired == "S10":
            continue  # needs a referrer: below
        loose, tight = replace(UNTRUSTED, **override), UNTRUSTED
        assert check(other, policy=loose).rules == check(other, policy=tight).rules
    for policy in (replace(DEFAULT, **override), DEFAULT):
        followed = check("wais://h.example/d", policy=policy, origin="derived", referrer=PAGE)
        assert followed.rules == ("S10",)


def texts() -> st.SearchStrategy[str]:
    """Return a strategy for any text and for text that resembles a URL."""
    schemes = st.sampled_from(
        [
            "http",
            "https",
            "ftp",
            "gopher",
            "news",
            "nntp",
            "wais",
            "prospero",
            "telnet",
            "file",
            "mailto",
            "x-a",
            "afs",
        ]
    )
    hosts = st.sampled_from(
        [
            "h.example",
            "127.0.0.1",
            "[::1]",
            "[fe80::1]",
            "localhost",
            "xn--80ak6aa92e",
            "xn--",
            "-o",
            "0.0.0.0",
            "",
        ]
    )
    ports = st.sampled_from(["", ":", ":25", ":70", ":6379", ":8080", ":65535"])
    users = st.sampled_from(["", "@", "u@", "u:p@", "u%3A:%0D@", ":p@"])
    rest = st.text(st.sampled_from("/?;:@=&%#.+09AD1a-"), max_size=30)
    return st.text() | st.builds(
        lambda s, u, h, p, r: f"{s}://{u}{h}{p}/{r}", schemes, users, hosts, ports, rest
    )


@settings(max_examples=examples(300))
@given(texts(), st.sampled_from(ORIGINS), st.none() | st.tuples(texts(), st.none() | texts()))
def test_check_returns_verdict_for_any_text(
    text: str, origin: Origin, referrer: tuple[str, str | None] | None
) -> None:
    for policy in (DEFAULT, UNTRUSTED):
        verdict = check(text, policy=policy, origin=origin, referrer=referrer, gateways={"x-a": "http://g/?"})
        assert verdict.action in ("allow", "warn", "refuse")
        assert (verdict.findings == ()) == (verdict.action == "allow")
        assert all(finding.action == verdict.action for finding in verdict.findings)
        assert (verdict.error() is not None) == (verdict.action == "refuse")
        assert json.dumps([finding.detail for finding in verdict.findings])


@settings(max_examples=examples(300))
@given(texts(), st.none() | st.tuples(texts(), st.none() | texts()))
def test_check_is_not_looser_for_links_or_stricter_policies(
    text: str, referrer: tuple[str, str | None] | None
) -> None:
    severity = ("allow", "warn", "refuse").index
    policies = (DEFAULT, CAUTIOUS, UNTRUSTED)
    grid = [
        [severity(check(text, policy=policy, origin=origin, referrer=referrer).action) for origin in ORIGINS]
        for policy in policies
    ]
    for row in grid:
        assert row == sorted(row)
    for column in zip(*grid, strict=True):
        assert list(column) == sorted(column)


def test_policy_does_not_import_heavy_modules() -> None:
    program = (
        "import sys; from resolver import Policy, check; check('gopher://h.example/'); "
        "print(sorted({'trio', 'httpx', 'ssl', 'socket', 'asyncio', 'idna'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def rules() -> set[object]:
    """Return the rules in the modules of the policy: functions that return decisions on a subject."""
    names = (found.name for found in pkgutil.iter_modules(resolver.policy.__path__, "resolver.policy."))
    return {
        value
        for module in map(importlib.import_module, names)
        for name, value in vars(module).items()
        if name.startswith("judge_")
        if inspect.get_annotations(value).get("subject") == "Subject"
        if inspect.get_annotations(value)["return"] in ("Iterable[Decision]", "Iterator[Decision]")
    }


#: URLs and their origins.
OF_ALL_SORTS: tuple[tuple[str, Origin], ...] = (
    ("gopher://h.example/0a%09%09+", "chosen"),
    ("http://h.example/", "derived"),
    ("file:///a", "user"),
    ("telnet://h.example/", "user"),
)


def test_judge_applies_every_rule() -> None:
    asked: set[object] = set()
    policy = replace(DEFAULT, allowed_hosts={"h.example"})
    for text, origin in OF_ALL_SORTS:
        subject = Subject(parse(text), policy, origin, variables={"http_proxy": "http://p/"})
        asked |= {rule for rule, _ in judgment._rules_on(subject)}
    assert asked == rules()


@pytest.mark.parametrize("text", ["x-unheard-of://-h.example/", "finger://-h.example/"])
def test_unknown_scheme_is_checked_by_all_relevant_rules(text: str) -> None:
    asked = [rule for rule, _ in judgment._rules_on(Subject(parse(text), DEFAULT, "derived"))]
    assert {judge_hop, judge_session, judge_octets, judge_port, judge_user_information, judge_name} == {
        *asked
    }


# S03 and S05: the one URL that sends several lines, and its permitted content.

HEAD = "gopher://h.example/0form%09%09"
FORMS_FORM = "+%091%0D%0A+-1%0D%0A1000%20units%0D%0A.%0D%0A"
FORMS_ALLOWED = Policy(allow_form=True)


@pytest.mark.parametrize(
    "string",
    [
        FORMS_FORM,
        "+%091%0D%0A+-1%0D%0A.%0D%0A",  # no value
        "+Text/plain%20En_US%091%0D%0A+-1%0D%0Aone%0D%0Atwo%0D%0A.%0D%0A",
        "+%091%0D%0A+-1%0D%0A%0D%0A%0D%0A.%0D%0A",  # empty values
        "+%091%0D%0A+-1%0D%0A..%0D%0A.x%0D%0A.%0D%0A",
        "+%091%0D%0A+-1%0D%0A%E9%FF%0D%0A.%0D%0A",
        "+%091%0D%0A+-1%0D%0Aa%09b%0D%0A.%0D%0A",  # a TAB in a value
        "+%091%0D%0A+-1%0D%0A" + "v%0D%0A" * 5000 + ".%0D%0A",
    ],
)
def test_form_is_decided_by_s05_alone(string: str) -> None:
    assert Row(HEAD + string, "warn", ("S05",)).judge() == ("warn", ("S05",))
    assert check(HEAD + string, policy=FORMS_ALLOWED).action == "allow"


@pytest.mark.parametrize(
    "string",
    [
        "+%091%0D%0A+-1%0D%0Aone%0D%0A.%0D%0Aextra%0D%0A",  # bytes after the end
        "+%091%0D%0A+-1%0D%0Aone%0D%0A.%0D%0A.%0D%0A",
        "+%091%0D%0A+-1%0D%0A.%0D%0Aone%0D%0A.%0D%0A",  # an end before the end
        "+%091%0D%0A+-1%0D%0Aone%0D%0A",  # no end
        "+%091%0D%0A+-1%0D%0Aone%0D%0A.",
        "+%091%0D%0A+-1%0D%0Aone%0D%0A.%0A",
        "+%091%0A+-1%0Aone%0A.%0A",  # bare line feeds
        "+%091%0D%0A+-1%0D%0Ao%0Ane%0D%0A.%0D%0A",
        "+%091%0D%0A+-1%0D%0Ao%0Dne%0D%0A.%0D%0A",
        "+%091%0D%0A+-1%0D%0Ao%00ne%0D%0A.%0D%0A",
        "+%091%0D%0A+-2%0D%0Aone%0D%0A.%0D%0A",  # another framing
        "+%091%0D%0A+5%0D%0Aone%0D%0A.%0D%0A",
        "+%090%0D%0A+-1%0D%0Aone%0D%0A.%0D%0A",
        "+%090",
        "+%091",
        "!%091%0D%0A+-1%0D%0Aone%0D%0A.%0D%0A",  # not a view
        "$%091%0D%0A+-1%0D%0Aone%0D%0A.%0D%0A",
        "+a%09b%091%0D%0A+-1%0D%0Aone%0D%0A.%0D%0A",
        "+a%07b%091%0D%0A+-1%0D%0Aone%0D%0A.%0D%0A",
        "!+A%0D%0AB",
        "+%0D%0AQUIT%0D%0A",
        "%0D%0A",
        "+x%00",
    ],
)
@pytest.mark.parametrize("policy", [Policy.default(), FORMS_ALLOWED], ids=["default", "forms"])
def test_line_end_outside_a_form_is_refused_by_s03(string: str, policy: Policy) -> None:
    verdict = check(HEAD + string, policy=policy)
    assert verdict.action == "refuse"
    assert "S03" in verdict.rules
    first = min(string.find(escape) for escape in ("%00", "%09", "%0D", "%0A") if escape in string)
    assert verdict.decisions[-1].position == len(HEAD) + first


@pytest.mark.parametrize(
    "row",
    [
        Row(HEAD + FORMS_FORM, "refuse", ("S05",), CAUTIOUS),
        Row(HEAD + FORMS_FORM, "refuse", ("S05",), origin="chosen", referrer=MENU),
        Row(HEAD + FORMS_FORM, "refuse", ("S05",), origin="derived", referrer=MENU),
        Row(HEAD + FORMS_FORM, "allow", (), FORMS_ALLOWED, origin="derived", referrer=MENU),
        Row(HEAD + FORMS_FORM, "allow", (), Policy(name="untrusted", allow_form=True)),
        # Point 3: a form to another port could send mail through a mail server.
        Row(f"gopher://h.example:25/1x%09%09{FORMS_FORM}", "refuse", ("S03", "S04")),
        Row(f"gopher://h.example:7070/1x%09%09{FORMS_FORM}", "refuse", ("S03",)),
        Row(f"gopher://h.example:7070/1x%09%09{FORMS_FORM}", "warn", ("S05",), Policy(allow_port={7070})),
        Row(f"gopher://h.example:7070/1x%09%09{FORMS_FORM}", "refuse", ("S03",), FORMS_ALLOWED),
        Row(f"gophers://h.example:70/1x%09%09{FORMS_FORM}", "warn", ("S05",)),
        # S02 checks the selector and the search separately.
        Row(f"gopher://h.example/0a%0D%0A%09%09{FORMS_FORM}", "refuse", ("S02",)),
        Row(f"gopher://h.example/7a%09b%0A%09{FORMS_FORM}", "refuse", ("S02",)),
        Row(f"gopher://h.example/7a%09b%09{FORMS_FORM}", "warn", ("S05",)),
        # Requests that only read.
        Row(HEAD + "+", "allow"),
        Row(HEAD + "!+ABSTRACT%20+SMELL", "allow"),
        Row(HEAD + "$", "allow", origin="derived", referrer=MENU),
        Row(f"http://h.example/{FORMS_FORM}", "allow", origin="derived", referrer=PAGE),
    ],
    ids=str,
)
def test_form_decision_depends_on_circumstances(row: Row) -> None:
    row.hold()


def test_s03_and_s05_refusals_name_their_flags() -> None:
    elsewhere = check(f"gopher://h.example:7070/1x%09%09{FORMS_FORM}").error()
    assert isinstance(elsewhere, Refused)
    assert (elsewhere.rule, elsewhere.flag) == ("S03", "--allow-port 7070")
    menu = check(HEAD + FORMS_FORM, origin="chosen", referrer=MENU).error()
    assert isinstance(menu, Refused)
    assert (menu.rule, menu.flag, menu.position) == ("S05", "--allow-form", len(HEAD))
    assert check(HEAD + "+%0D").decisions[0].flag is None


# Long hostile URLs of every grammar: each rule reports the first byte of each kind, in linear time.

#: Segments that a hostile URL repeats; each rule and each grammar looks for some of them or splits at them.
PIECES = (
    "%00/", "%2f/", "%0d%0a", "%01/", "%09", "%1f", "%40", "%ff", "a/", "/..", "//", ";a=%00", ";type=a",
    "&a=%0a", "?%00", "@", "a:", "a@b,", "%22", "%22%5c", "|", "[", "#", "xn--a.", "1.", "%0d%0a.%0d%0a",
)  # fmt: skip

#: URL templates; `{}` is the hostile part.
FRAMES = (
    "{scheme}:{}",
    "{scheme}:a@b?{}",
    "{scheme}://{}",
    "{scheme}://u:{}@h.example/x",
    "{scheme}:///{}",
    "{scheme}://h.example/a/b/{}",
    "{scheme}://h.example/a?{}",
    "{scheme}://h.example/1a%09%09+%091%0d%0a+-1%0d%0a{}%0d%0a.%0d%0a",
)

#: Under this policy and with this referrer, every rule applies.
STRICT = Policy(name="untrusted", file_root="/srv")
LED_BY = ("gopher://menu.example/1", "93.184.216.34")

#: The maximum of findings for a URL of any length: the count of kinds, not of positions.
MOST = 8
#: Steps for each character (an ftp URL of only slashes takes 53), and for the shortest URL. A search from the
#: beginning for each position takes hundreds.
PER_CHARACTER, PER_URL = 80, 3_000
LENGTH = 2_000 if FULL else 1_000


def schemes() -> list[str]:
    """Return one scheme name for each grammar: related schemes share theirs."""
    grammars: dict[object, str] = {}
    for name in registry.SCHEMES:
        scheme = registry.find(name)
        assert scheme is not None
        grammars.setdefault(scheme.parse, name)
    return [*grammars.values(), "nfs", "x-unknown"]


def hostile(scheme: str, length: int) -> Iterator[str]:
    for frame in FRAMES:
        room = length - len(frame) - len(scheme)
        for piece in PIECES:
            yield frame.replace("{scheme}", scheme).replace("{}", piece * (room // len(piece)))


def long_urls_judge(url: str) -> Verdict:
    return check(url, policy=STRICT, origin="derived", referrer=LED_BY)


def counted(call: Callable[[str], Verdict], url: str) -> tuple[Verdict, int]:
    """Return the verdict and the number of Python trace events, which counts each pass of a loop."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return call(url), count
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("scheme", schemes())
def test_check_of_long_url_takes_linear_time(scheme: str) -> None:
    long_urls_judge(f"{scheme}://h.example/")  # load the modules that the check imports lazily
    for url in hostile(scheme, LENGTH):
        verdict, steps = counted(long_urls_judge, url)
        assert steps <= PER_CHARACTER * len(url) + PER_URL, url[:80]
        assert len(verdict.findings) <= MOST, url[:80]
        try:
            findings = parse(url).findings
        except InvalidUrl:
            continue
        assert len(findings) == len(set(findings)) <= MOST, url[:80]


@pytest.mark.parametrize("url", ["file:///{}", "ftp://h.example/{}", "prospero://h.example/a;{}"])
def test_check_reports_repeated_byte_once(url: str) -> None:
    findings = check(url.format("%00/" * ((MAX_URL - 40) // 4))).findings
    assert len(findings) <= 2, "what is in it, and that it is too long"
    assert findings[0].action == "refuse"
