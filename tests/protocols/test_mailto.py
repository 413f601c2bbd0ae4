"""Tests of mailto URLs (RFC 1738 3.5, RFC 6068): parsing, building, drafts and the command."""

from __future__ import annotations

import email
import email.policy
import json
import subprocess
import sys
from pathlib import Path

import pytest

import resolver
from protocols.mailto import MAILTO, build, write_draft
from resolver import InvalidUrl, MailtoUrl, Refused, explain, parse
from tests.protocols.typed_url import parse_as
from tests.protocols.url_rows import Bad, Good, check_bad, check_good

GOOD = [
    Good("mailto:A.b@C.d", {"addr_spec": "A.b@C.d", "headers": []}),
    Good("mailto://a@b/c", {"addr_spec": "//a@b/c"}),  # no character is reserved
    Good("mailto:a;b:c&d=e@f", {"addr_spec": "a;b:c&d=e@f"}),
    Good("mailto:joe%40h", {"addr_spec": "joe@h"}),
    Good("mailto:a%2541@b", {"addr_spec": "a%41@b"}),
    Good("mailto:a~@b", {"addr_spec": "a~@b"}, "unsafe-char"),
    Good("mailto:%E9@b", {"addr_spec": "\xe9@b"}),
    Good("mailto:a@b#f", {"addr_spec": "a@b", "fragment": "f"}),
    # Quoted strings may contain `@`, commas and escaped quotes.
    Good("mailto:%22a@b%22@c", {"addr_spec": '"a@b"@c'}),
    Good("mailto:%22a,b%22@c", {"addr_spec": '"a,b"@c'}),
    Good("mailto:%22a%5C%22@b%22@c", {"addr_spec": '"a\\"@b"@c'}),
    Good("mailto:%22%22@c", {"addr_spec": '""@c'}),
    # Header fields.
    Good("mailto:a@b?", {"addr_spec": "a@b", "headers": []}, "mailto-headers"),
    Good("mailto:a@b?x=1&y=2", {"headers": [["x", "1"], ["y", "2"]]}, "mailto-headers"),
    Good("mailto:a@b?x%26=1%3D2=3", {"headers": [["x&", "1=2=3"]]}, "mailto-headers"),
    Good("mailto:a@b?x&&y=", {"headers": [["x", ""], ["y", ""]]}, "mailto-headers"),
    Good("mailto:a@b?x=1?2/3", {"headers": [["x", "1?2/3"]]}, "mailto-headers"),
    Good("mailto:a@b?x=~+%0D", {"headers": [["x", "~+\r"]]}, "mailto-headers unsafe-char"),
    # Several addresses stay one string.
    Good("mailto:a@b,c@d", {"addr_spec": "a@b,c@d"}, "mailto-multiple"),
    # a comma is not a delimiter of the URL
    Good("mailto:a@b%2Cc@d", {"addr_spec": "a@b,c@d"}, "mailto-multiple"),
    Good("mailto:%22,%22@b,c@d?e=f", {"addr_spec": '","@b,c@d'}, "mailto-multiple mailto-headers"),
]

BAD = [
    Bad("mailto:→", "bad-address"),
    Bad("mailto:→?to=a@b", "bad-address"),
    Bad("mailto:→a", "bad-address"),
    Bad("mailto:→@b", "bad-address"),
    Bad("mailto:→a@", "bad-address"),
    Bad("mailto:→@", "bad-address"),
    Bad("mailto:→a@b@c", "bad-address"),
    Bad("mailto:→%22a@b%22", "bad-address"),
    Bad("mailto:→%22a@b", "bad-address"),
    Bad("mailto:→a@b,", "bad-address"),
    Bad("mailto:→,a@b", "bad-address"),
    Bad("mailto:→a@b,,c@d", "bad-address"),
    Bad("mailto:→a@b,c", "bad-address"),
    Bad("mailto:→a,b@c", "bad-address"),
    Bad("mailto:a→%00@b", "bad-address"),
    Bad("mailto:a@b→%0Ac@d", "bad-address"),
    Bad("mailto:a@b→%7F", "bad-address"),
    Bad("mailto:%22→%09%22@b", "bad-address"),
]


@pytest.mark.parametrize("row", GOOD, ids=lambda row: row.text)
def test_mailto_urls_are_parsed(row: Good) -> None:
    check_good(row)


@pytest.mark.parametrize("row", BAD, ids=lambda row: row.text)
def test_mailto_urls_are_refused(row: Bad) -> None:
    check_bad(row)


def test_mailto_url_places_include_every_part() -> None:
    url = parse("mailto:a@b?x=1&y")
    shown = {place.name: url.text[place.start : place.end] for place in url.places[1:]}
    assert shown == {
        "addr_spec": "a@b",
        "headers[0].name": "x",
        "headers[0].value": "1",
        "headers[1].name": "y",
        "headers[1].value": "",
    }


@pytest.mark.parametrize(
    ("addr_spec", "headers", "written"),
    [
        (b"a@b", (), "mailto:a@b"),
        (b"a?%~/b@c", (), "mailto:a%3F%25%7E/b@c"),
        (b"a@b", ((b"x&=", b"?&=y z"), (b"", b"")), "mailto:a@b?x%26%3D=%3F%26%3Dy%20z&="),
    ],
)
def test_mailto_urls_are_built(
    addr_spec: bytes, headers: tuple[tuple[bytes, bytes], ...], written: str
) -> None:
    assert build(MailtoUrl(scheme="mailto", addr_spec=addr_spec, headers=headers)) == written


@pytest.mark.parametrize("addr_spec", [b"", b"a", b"a@b\r\nc", b"a@b@c"])
def test_mailto_build_refuses_invalid_address(addr_spec: bytes) -> None:
    with pytest.raises(InvalidUrl, match="bad-address"):
        build(MailtoUrl(scheme="mailto", addr_spec=addr_spec))


def test_mailto_scheme_has_no_port_or_transport() -> None:
    assert (MAILTO.default_port, MAILTO.transport) == (None, None)


# The mail draft of a mailto URL.


def mailto(text: str) -> MailtoUrl:
    return parse_as(MailtoUrl, text)


DRAFTS = [
    ("mailto:joe@h.example", b"To: joe@h.example\r\n\r\n"),
    ("mailto:joe@h,%22a,b%22@c", b'To: joe@h, "a,b"@c\r\n\r\n'),
    ("mailto:joe@h?subject=Hello%20there", b"To: joe@h\r\nSubject: Hello there\r\n\r\n"),
    # The draft has its own order; names are matched without case; an empty field is ignored.
    (
        "mailto:joe@h?Body=Hi&SUBJECT=s&cc=ann@h&Cc=bob@h&to=eve@h&keywords=&in-reply-to=%3C1@h%3E",
        b"To: joe@h, eve@h\r\nCc: ann@h, bob@h\r\nSubject: s\r\nIn-Reply-To: <1@h>\r\n\r\nHi",
    ),
    ("mailto:joe@h?body=one%0D%0Atwo", b"To: joe@h\r\n\r\none\r\ntwo"),
    ("mailto:joe@h?subject=a&subject=b", b"To: joe@h\r\nSubject: a\r\n\r\n"),
    ("mailto:joe@h?x=1&bcc=eve@h&from=boss@h", b"To: joe@h\r\n\r\n"),
    (
        "mailto:joe@h?body=caf%C3%A9",
        b"To: joe@h\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Content-Transfer-Encoding: 8bit\r\n\r\ncaf\xc3\xa9",
    ),
    (
        "mailto:joe@h?body=caf%E9",
        b"To: joe@h\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=iso-8859-1\r\n"
        b"Content-Transfer-Encoding: 8bit\r\n\r\ncaf\xe9",
    ),
    ("mailto:joe@h?subject=caf%C3%A9", b"To: joe@h\r\nSubject: =?utf-8?B?Y2Fmw6k=?=\r\n\r\n"),
]


@pytest.mark.parametrize(("text", "draft"), DRAFTS)
def test_write_draft_gives_message(text: str, draft: bytes) -> None:
    assert write_draft(mailto(text)).text == draft


def test_write_draft_long_subject_is_decodable() -> None:
    subject = "Größe, Maß und Übermaß — " * 8
    escaped = "".join(f"%{octet:02X}" for octet in subject.encode())
    text = write_draft(mailto(f"mailto:joe@h?subject={escaped}")).text
    assert all(len(line) <= 84 for line in text.splitlines())  # an encoded word and the name before it
    read = email.message_from_bytes(text, policy=email.policy.default)
    assert read["Subject"] == subject
    assert read["To"] == "joe@h"


@pytest.mark.parametrize(
    "field",
    ["subject=a%0D%0ABcc:%20eve@h", "cc=ann@h%0A", "to=x@y%0D", "keywords=%00", "in-reply-to=%0A%0Abody"],
)
def test_write_draft_refuses_injected_fields(field: str) -> None:
    url = mailto(f"mailto:joe@h?{field}")
    with pytest.raises(Refused) as caught:
        write_draft(url)
    assert caught.value.rule == "S02"


def test_write_draft_reports_kept_and_left_out() -> None:
    draft = write_draft(mailto("mailto:joe@h?subject=a&bcc=eve@h&subject=b&body=c&X-y=z"))
    assert draft.fields == ((b"subject", b"a"), (b"body", b"c"))
    assert draft.omitted_fields == ((b"bcc", b"eve@h"), (b"subject", b"b"), (b"X-y", b"z"))


def test_explain_mailto_sends_nothing() -> None:
    plan = explain("mailto:joe@h?subject=x")
    assert plan.verdict == "allow"
    assert [step["action"] for step in plan.steps] == ["note"]
    assert "no mail is sent" in str(plan.steps[0]["text"])
    refused = explain("mailto:joe@h?subject=a%0Ab")
    assert (refused.verdict, refused.steps) == ("refuse", ())
    assert refused.error is not None
    assert refused.error.exit_code == 9


# A mailto URL through `fetch` and the command: an address and a draft, without a connection.

CHECKOUT = Path(__file__).parents[2]
DRAFT = b"To: joe@h.example, ann@h.example\r\nSubject: Hello\r\n\r\nHi"
URL = "mailto:joe@h.example,ann@h.example?subject=Hello&body=Hi&bcc=eve@h.example"


async def test_fetch_mailto_gives_address_and_draft() -> None:
    response = await resolver.fetch(f"{URL}#f")
    assert (response.kind, response.media_type, response.content) == ("address", "message/rfc822", DRAFT)
    assert (response.target, response.peer, response.entries) == (URL, None, None)
    assert response.headers == (("subject", "Hello"), ("body", "Hi"), ("bcc", "eve@h.example"))
    assert response.extra == {
        "addresses": ["joe@h.example", "ann@h.example"],
        "headers": [["subject", "Hello"], ["body", "Hi"], ["bcc", "eve@h.example"]],
    }
    assert [(finding.rule, finding.action) for finding in response.findings] == [
        ("mailto-multiple", "allow"),
        ("mailto-headers", "allow"),
        ("mailto:header", "allow"),
        ("mailto:header", "allow"),
        ("mailto:left-out", "warn"),
    ]
    assert response.findings[-1].detail.startswith("bcc: eve@h.example: ")


async def test_fetch_mailto_non_utf_8_is_latin_1() -> None:
    response = await resolver.fetch("mailto:%E9@h?subject=%E9")
    assert response.extra == {"addresses": ["é@h"], "headers": [["subject", "é"]]}


async def test_fetch_mailto_refuses_injected_field() -> None:
    with pytest.raises(Refused) as caught:
        await resolver.fetch("mailto:joe@h?subject=a%0D%0ABcc:%20eve@h")
    assert (caught.value.rule, caught.value.exit_code) == ("S02", 9)


async def test_fetch_mailto_derived_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        await resolver.fetch(URL, origin="derived", referrer=("http://h.example/", "192.0.2.1"))
    assert caught.value.rule == "S10"


def test_command_mailto_prints_draft(tmp_path: Path) -> None:
    run = [sys.executable, "-W", "error", "-c", "from resolver.cli import run; run()"]
    environment = {"PYTHONPATH": str(CHECKOUT), "PATH": ""}
    done = subprocess.run([*run, "cat", URL], capture_output=True, env=environment)
    assert (done.returncode, done.stdout) == (0, DRAFT)
    assert b"mailto:left-out: bcc: eve@h.example" in done.stderr
    told = subprocess.run([*run, "info", "-q", "--json", URL], capture_output=True, env=environment)
    record = json.loads(told.stdout)
    assert (told.returncode, record["kind"], record["size"]) == (0, "address", len(DRAFT))
    assert record["extra"]["target"] == URL
