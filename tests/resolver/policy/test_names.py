"""S07: names that look like other names."""

from __future__ import annotations

import subprocess
import sys

import pytest

from resolver import Policy, Refused, check
from resolver.policy.components import objection_to
from tests.resolver.policy.rows import CAUTIOUS, PAGE, UNTRUSTED, Row

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
        "россия",  # я and others pass for nothing Latin
        "пример",
        "ελλάδα",
        "παράδειγμα",
        "עברית",
        "العربية",
        "भारत",
        "ไทย",
    ],
)
def test_honest_labels_are_silent(text: str) -> None:
    assert objection_to(label_of(text)) is None
    assert check(f"http://{label_of(text)}.example/", policy=UNTRUSTED).action == "allow"


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (APPLE.removesuffix(".com"), "letters"),
        (label_of("еріс"), "letters"),
        (label_of("сосо-2"), "letters"),  # digits and hyphens do not save it
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
        (label_of("i❤"), "decode"),  # no letter under IDNA 2008
        (label_of("a。b"), "decode"),  # the ideographic stop would make two labels
    ],
)
def test_dressed_up_labels_are_named(label: str, words: str) -> None:
    objection = objection_to(label)
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
        Row(f"http://www.{APPLE}/", "warn", ("S07",), Policy(allow_name={APPLE})),  # the host, not a domain
        Row("http://xn-not-one.example/", "allow"),
        Row(f"file:///{APPLE}", "allow"),
        # A host with escapes is another one to who reads it otherwise, and filtered before us.
        Row("http://%65vil.example/", "allow"),
        Row("http://%65vil.example/", "allow", (), CAUTIOUS),
        Row("http://%65vil.example/", "refuse", ("S07",), UNTRUSTED),
        Row("ftp://u@h%2Eexample:2121/", "refuse", ("S04", "S07"), UNTRUSTED),
        Row("news://%65vil.example/a.b", "refuse", ("S07",), UNTRUSTED),
        Row("news:1@%68.example", "allow", (), UNTRUSTED),  # no host, but half a name
        Row("file://local%68ost/srv", "refuse", ("S07",), Policy(name="untrusted", file_root="/srv")),
        Row("http://%65vil.example/", "allow", (), Policy(name="untrusted", allow_name={"evil.example"})),
        Row("http://h.example/%65", "allow", (), UNTRUSTED),
    ],
    ids=str,
)
def test_circumstances(row: Row) -> None:
    row.hold()


def test_refusal_shows_the_name_as_given_and_the_flag() -> None:
    error = check(f"http://{APPLE}/", policy=CAUTIOUS).error()
    assert isinstance(error, Refused)
    assert (error.rule, error.flag, error.position) == ("S07", f"--allow-name {APPLE}", 7)
    assert APPLE in str(error)
    assert str(error).isascii()


def test_idna_is_imported_for_such_a_label_only() -> None:
    program = (
        "import sys; from resolver.policy.judgement import check; check('http://a.example/'); "
        "before = 'idna' in sys.modules; "
        "check('http://xn--bcher-kva.example/'); print(before, 'idna' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False True\n"
