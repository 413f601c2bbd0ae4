"""S02: octets that would end a command, per scheme and component, and arguments that are too long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resolver import Policy, Refused, check, parse
from resolver.policy.judgement import judge
from tests.resolver.policy.rows import CAUTIOUS, MENU, Row

#: URLs with a hole for an octet, the component it lands in, and the octets refused and warned there.
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
def test_every_octet_in_every_component(
    template: str, component: str, refused: tuple[int, ...], warned: tuple[int, ...]
) -> None:
    """All 256 octets: which are refused, which warn, and where the text says they are."""
    for octet in range(256):
        if octet == 0x09 and component == "gopherplus":
            continue  # S03 decides
        if octet == 0x09 and component in ("selector", "search"):
            continue  # a delimiter there: it cannot be in the component at all
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
            assert f"octet {octet:02X} in {component}," in decision.detail
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
        Row("http://h.example/a%0D%0Ab?%00", "allow"),  # sent encoded, as it is written
        Row("wais://h.example/d%1Fe", "refuse", ("S02",)),
        Row("wais://h.example/other%40server", "refuse", ("S02",)),
        Row("file:///a%0A", "allow"),  # a file name may hold it; nothing is sent
        Row("ftp://h.example/%E9%20%FF%2F", "allow"),
        Row("mailto:a@b?subject=x%0D%0ABcc:%20c@d", "refuse", ("S02",)),
        Row("mailto:a@b?subject=x&x%0A=y", "refuse", ("S02",)),
        Row("mailto:a@b?BODY=one%0D%0Atwo&body=%00", "allow"),  # lines are what it is made of
    ],
    ids=str,
)
def test_attacks_and_circumstances(row: Row) -> None:
    row.hold()


def test_no_override_touches_it() -> None:
    policy = Policy(
        allow_port=set(range(1, 65536)),
        allow_address={"0.0.0.0/0"},
        allow_form=True,
        allow_password=True,
        allow_raw=True,
    )
    assert check("ftp://h.example/a%0Db", policy=policy).rules == ("S02",)


def test_refusal_points_at_the_escape() -> None:
    text = "<URL:ftp://h.example/a%2Fb/c%41%0dd>"
    error = check(text).error()
    assert isinstance(error, Refused)
    assert (error.rule, error.flag, error.position) == ("S02", None, text.index("%0d"))
    assert "octet 0D in name" in str(error)


def test_a_header_of_a_mail_is_pointed_at() -> None:
    text = "mailto:a@b?body=x%0Ay&cc=c@d%0D"
    (decision,) = check(text).decisions
    assert (decision.position, "headers[1].value" in decision.detail) == (text.index("%0D"), True)


def test_password_is_not_quoted() -> None:
    verdict = check("ftp://u:sesame%0Dopen@h.example/")
    error = verdict.error(parse("ftp://u:sesame%0Dopen@h.example/"))
    assert error is not None
    assert "sesame" not in f"{error} {error.url} {verdict}"


def test_urls_that_were_never_parsed_are_judged_too() -> None:
    """A URL put together by a program has no places, and the grammar has not seen it."""
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
def test_length_of_arguments_counts_octets(template: str, longest: int, spelling: str) -> None:
    longest_url = template.format(spelling * longest)
    if "h.example" in template and len(longest_url) < 65_000:
        assert "S02" not in check(longest_url).rules
        verdict = check(template.format(spelling * (longest + 1)))
        assert (verdict.action, verdict.rules) == ("refuse", ("S02",))
        assert str(longest) in verdict.findings[0].detail or "4096" in verdict.findings[0].detail
