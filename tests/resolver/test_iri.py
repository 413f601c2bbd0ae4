"""IRIs made into URLs, only on request (RFC 3987; IDNA 2008 with UTS 46, non-transitional)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver import InvalidUrl, convert_iri, parse


@pytest.mark.parametrize(
    ("iri", "url"),
    [
        # What is ASCII stays, right or wrong.
        ("http://H/%7e a?b#c", "http://H/%7e a?b#c"),
        ("", ""),
        ("no url", "no url"),
        # UTF-8, then escapes, wherever there is no host.
        ("http://h/é", "http://h/%C3%A9"),
        ("http://h/a?é#é", "http://h/a?%C3%A9#%C3%A9"),
        ("ftp://ü:é@h/", "ftp://%C3%BC:%C3%A9@h/"),
        ("http://h/\U0001f600", "http://h/%F0%9F%98%80"),
        ("mailto:ü@h", "mailto:%C3%BC@h"),
        ("news:ü", "news:%C3%BC"),
        ("http:/ü/", "http:/%C3%BC/"),
        # The host by IDNA.
        ("http://münchen.example/", "http://xn--mnchen-3ya.example/"),
        ("http://MÜNCHEN.Example:80/", "http://xn--mnchen-3ya.example:80/"),
        ("<URL:http://münchen.example>", "<URL:http://xn--mnchen-3ya.example>"),
        ("ftp://u:p@ü.example?é", "ftp://u:p@xn--tda.example?%C3%A9"),
        ("http://straße.example/", "http://xn--strae-oqa.example/"),  # non-transitional: no ss
        ("http://ü", "http://xn--tda"),
        ("http://ü#ü", "http://xn--tda#%C3%BC"),
        ("x-foo://ü/", "x-foo://xn--tda/"),
        # UTS 46 makes these what they look like; the parser and the policy judge the result.
        ("http://127。0。0。1/", "http://127.0.0.1/"),
        ("http://ⓛocalhost/", "http://localhost/"),
        ("http://h:８0/", "http://h:%EF%BC%980/"),  # a port is no name: the parser will refuse it
    ],
)
def test_iris(iri: str, url: str) -> None:
    assert convert_iri(iri) == url


@pytest.mark.parametrize(
    ("iri", "kind", "position"),
    [
        ("http://a／b/", "bad-host", 7),  # would be mapped to a slash
        ("http://a＠b/", "bad-host", 7),
        ("http://a：80/", "bad-host", 7),
        ("http://u@é%41/", "bad-host", 9),
        ("http://a\u200db/", "bad-host", 7),
        ("http://\u00ad/", "bad-host", 7),  # a soft hyphen is mapped to nothing
        ("http://é..b/", "bad-host", 7),
        ("http://☃.example/", "bad-host", 7),  # no symbols in IDNA 2008
        ("http://é\ud800/", "bad-host", 7),
        ("http://h/a\udc00", "non-ascii", 10),
    ],
)
def test_what_has_no_ascii_form(iri: str, kind: str, position: int) -> None:
    with pytest.raises(InvalidUrl) as caught:
        convert_iri(iri)
    assert (caught.value.kind, caught.value.position) == (kind, position)


def test_it_is_never_applied_silently() -> None:
    with pytest.raises(InvalidUrl, match="non-ascii"):
        parse("http://münchen.example/")
    assert parse(convert_iri("http://münchen.example/")).findings == ()


@given(st.text(max_size=20), st.sampled_from(["", "http://", "http://h/", "ftp://u@", "mailto:"]))
def test_any_text_becomes_ascii_or_is_refused(text: str, start: str) -> None:
    try:
        converted = convert_iri(start + text)
    except InvalidUrl:
        return
    assert converted.isascii()
    assert convert_iri(converted) == converted
