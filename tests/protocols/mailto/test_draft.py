"""The mail that a mailto URL proposes."""

from __future__ import annotations

import email
import email.policy

import pytest

from protocols.mailto import write_draft
from resolver import MailtoUrl, Refused, explain, parse


def mailto(text: str) -> MailtoUrl:
    url = parse(text)
    assert isinstance(url, MailtoUrl)
    return url


DRAFTS = [
    ("mailto:joe@h.example", b"To: joe@h.example\r\n\r\n"),
    ("mailto:joe@h,%22a,b%22@c", b'To: joe@h, "a,b"@c\r\n\r\n'),
    ("mailto:joe@h?subject=Hello%20there", b"To: joe@h\r\nSubject: Hello there\r\n\r\n"),
    # The order is the draft's, names are told without regard to case, a field with nothing in it is none.
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
def test_drafts(text: str, draft: bytes) -> None:
    assert write_draft(mailto(text)).text == draft


def test_a_long_text_is_written_so_that_others_read_it() -> None:
    subject = "Größe, Maß und Übermaß — " * 8
    escaped = "".join(f"%{octet:02X}" for octet in subject.encode())
    text = write_draft(mailto(f"mailto:joe@h?subject={escaped}")).text
    assert all(len(line) <= 84 for line in text.splitlines())  # an encoded word, and the name before it
    read = email.message_from_bytes(text, policy=email.policy.default)
    assert read["Subject"] == subject
    assert read["To"] == "joe@h"


@pytest.mark.parametrize(
    "field",
    ["subject=a%0D%0ABcc:%20eve@h", "cc=ann@h%0A", "to=x@y%0D", "keywords=%00", "in-reply-to=%0A%0Abody"],
)
def test_a_field_that_would_not_stay_one_is_refused(field: str) -> None:
    url = mailto(f"mailto:joe@h?{field}")
    with pytest.raises(Refused) as caught:
        write_draft(url)
    assert caught.value.rule == "S02"


def test_what_is_kept_and_what_is_left_out() -> None:
    draft = write_draft(mailto("mailto:joe@h?subject=a&bcc=eve@h&subject=b&body=c&X-y=z"))
    assert draft.kept == ((b"subject", b"a"), (b"body", b"c"))
    assert draft.left_out == ((b"bcc", b"eve@h"), (b"subject", b"b"), (b"X-y", b"z"))


def test_the_plan_is_that_nothing_is_done() -> None:
    plan = explain("mailto:joe@h?subject=x")
    assert plan.verdict == "allow"
    assert [step["action"] for step in plan.steps] == ["note"]
    assert "nothing is sent" in str(plan.steps[0]["text"])
    refused = explain("mailto:joe@h?subject=a%0Ab")
    assert (refused.verdict, refused.steps) == ("refuse", ())
    assert refused.error is not None
    assert refused.error.exit_code == 9
