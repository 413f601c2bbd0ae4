"""S03 and S05: the one URL that sends several lines, and what it may do."""

from __future__ import annotations

import pytest

from resolver import Policy, Refused, check
from tests.resolver.policy.rows import CAUTIOUS, MENU, PAGE, Row

HEAD = "gopher://h.example/0form%09%09"
FORM = "+%091%0D%0A+-1%0D%0A1000%20units%0D%0A.%0D%0A"
FORMS_ALLOWED = Policy(allow_form=True)


@pytest.mark.parametrize(
    "string",
    [
        FORM,
        "+%091%0D%0A+-1%0D%0A.%0D%0A",  # no value at all
        "+Text/plain%20En_US%091%0D%0A+-1%0D%0Aone%0D%0Atwo%0D%0A.%0D%0A",
        "+%091%0D%0A+-1%0D%0A%0D%0A%0D%0A.%0D%0A",  # empty values
        "+%091%0D%0A+-1%0D%0A..%0D%0A.x%0D%0A.%0D%0A",
        "+%091%0D%0A+-1%0D%0A%E9%FF%0D%0A.%0D%0A",
        "+%091%0D%0A+-1%0D%0Aa%09b%0D%0A.%0D%0A",  # a TAB in a value
        "+%091%0D%0A+-1%0D%0A" + "v%0D%0A" * 5000 + ".%0D%0A",
    ],
)
def test_a_form_is_only_a_matter_of_s05(string: str) -> None:
    assert Row(HEAD + string, "warn", ("S05",)).judge() == ("warn", ("S05",))
    assert check(HEAD + string, policy=FORMS_ALLOWED).action == "allow"


@pytest.mark.parametrize(
    "string",
    [
        "+%091%0D%0A+-1%0D%0Aone%0D%0A.%0D%0Aextra%0D%0A",  # behind the end
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
def test_anything_else_with_a_line_end_is_refused(string: str, policy: Policy) -> None:
    verdict = check(HEAD + string, policy=policy)
    assert verdict.action == "refuse"
    assert "S03" in verdict.rules
    first = min(string.find(escape) for escape in ("%00", "%09", "%0D", "%0A") if escape in string)
    assert verdict.decisions[-1].position == len(HEAD) + first


@pytest.mark.parametrize(
    "row",
    [
        Row(HEAD + FORM, "refuse", ("S05",), CAUTIOUS),
        Row(HEAD + FORM, "refuse", ("S05",), origin="chosen", referrer=MENU),
        Row(HEAD + FORM, "refuse", ("S05",), origin="derived", referrer=MENU),
        Row(HEAD + FORM, "allow", (), FORMS_ALLOWED, origin="derived", referrer=MENU),
        Row(HEAD + FORM, "allow", (), Policy(name="untrusted", allow_form=True)),
        # Point 3: a form to any other port is a letter to a mail server.
        Row(f"gopher://h.example:25/1x%09%09{FORM}", "refuse", ("S03", "S04")),
        Row(f"gopher://h.example:7070/1x%09%09{FORM}", "refuse", ("S03",)),
        Row(f"gopher://h.example:7070/1x%09%09{FORM}", "warn", ("S05",), Policy(allow_port={7070})),
        Row(f"gopher://h.example:7070/1x%09%09{FORM}", "refuse", ("S03",), FORMS_ALLOWED),
        Row(f"gophers://h.example:70/1x%09%09{FORM}", "warn", ("S05",)),
        # The selector and the search pass S02 by themselves.
        Row(f"gopher://h.example/0a%0D%0A%09%09{FORM}", "refuse", ("S02",)),
        Row(f"gopher://h.example/7a%09b%0A%09{FORM}", "refuse", ("S02",)),
        Row(f"gopher://h.example/7a%09b%09{FORM}", "warn", ("S05",)),
        # What only reads.
        Row(HEAD + "+", "allow"),
        Row(HEAD + "!+ABSTRACT%20+SMELL", "allow"),
        Row(HEAD + "$", "allow", origin="derived", referrer=MENU),
        Row(f"http://h.example/{FORM}", "allow", origin="derived", referrer=PAGE),
    ],
    ids=str,
)
def test_circumstances(row: Row) -> None:
    row.hold()


def test_refusals_name_their_flags() -> None:
    elsewhere = check(f"gopher://h.example:7070/1x%09%09{FORM}").error()
    assert isinstance(elsewhere, Refused)
    assert (elsewhere.rule, elsewhere.flag) == ("S03", "--allow-port 7070")
    menu = check(HEAD + FORM, origin="chosen", referrer=MENU).error()
    assert isinstance(menu, Refused)
    assert (menu.rule, menu.flag, menu.position) == ("S05", "--allow-form", len(HEAD))
    assert check(HEAD + "+%0D").decisions[0].flag is None
