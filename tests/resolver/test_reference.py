"""References against a base (RFC 3986 5.2 to 5.4)."""

from __future__ import annotations

import pytest
from hypothesis import given

from resolver import InvalidUrl, build, parse
from resolver.url.parsing import join
from tests.resolver.url_strategies import texts

BASE = "http://a/b/c/d;p?q"


@pytest.mark.parametrize(
    ("reference", "joined"),
    [
        ("http://x/y", "http://x/y"),
        ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g"),
        ("//g/x/../y?z", "http://g/y?z"),
        ("?y", "http://a/b/c/d;p?y"),
        ("?", "http://a/b/c/d;p?"),
        ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q#s"),
        ("g#s", "http://a/b/c/g#s"),
        ("g?y#s", "http://a/b/c/g?y#s"),
        (";x", "http://a/b/c/;x"),
        ("", "http://a/b/c/d;p?q"),
        (".", "http://a/b/c/"),
        ("./", "http://a/b/c/"),
        ("..", "http://a/b/"),
        ("../", "http://a/b/"),
        ("../g", "http://a/b/g"),
        ("../..", "http://a/"),
        ("../../g", "http://a/g"),
        # Above the root there is nothing.
        ("../../../g", "http://a/g"),
        ("/../g", "http://a/g"),
        # Names that only look like dot segments.
        ("g.", "http://a/b/c/g."),
        (".g", "http://a/b/c/.g"),
        ("..g", "http://a/b/c/..g"),
        ("%2e%2e/g", "http://a/b/c/%2e%2e/g"),
        # Dots in the middle, and none in a search or fragment.
        ("./../g", "http://a/b/g"),
        ("./g/.", "http://a/b/c/g/"),
        ("g/./h", "http://a/b/c/g/h"),
        ("g/../h", "http://a/b/c/h"),
        ("g;x=1/../y", "http://a/b/c/y"),
        ("g#s/../x", "http://a/b/c/g#s/../x"),
    ],
)
def test_references_of_rfc_3986(reference: str, joined: str) -> None:
    assert build(join(parse(BASE), reference)) == joined


@pytest.mark.parametrize(
    ("base", "reference", "joined"),
    [
        ("http://a", "g", "http://a/g"),
        ("http://a", "?y", "http://a/?y"),
        ("http://a", "", "http://a"),
        ("http://a?q", "", "http://a/?q"),
        ("https://a:8443/x", "/y", "https://a:8443/y"),
        ("https://a/x", "//b", "https://b"),
        ("http://[::1]:81/x", "y", "http://[::1]:81/y"),
        ("<http://a/b>", "c", "http://a/c"),
        # User information stays behind; a fragment comes along unless there is a new one.
        ("http://u:p@a/b", "c", "http://a/c"),
        ("http://a/b#f", "c", "http://a/c#f"),
        ("http://a/b#f", "http://x/", "http://x/#f"),
        ("http://a/b#f", "c#", "http://a/c#"),
        ("http://a/b", "ftp://u:p@h/", "ftp://u:p@h/"),
    ],
)
def test_bases(base: str, reference: str, joined: str) -> None:
    assert build(join(parse(base), reference)) == joined


@pytest.mark.parametrize(
    ("reference", "kind"),
    [
        ("http:g", "no-authority"),
        ("//", "no-host"),
        ("///x", "no-host"),
        ("//h@i@j/", "ambiguous-authority"),
        ("a b", "bad-char"),
        (" /x", "bad-char"),
        ("/é", "non-ascii"),
        ("/%", "bad-escape"),
        ("//1.2/", "bad-host"),
        ("//h:0/", "bad-port"),
    ],
)
def test_nothing_is_repaired(reference: str, kind: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        join(parse(BASE), reference)
    assert caught.value.kind == kind


@given(texts)
def test_any_reference_gives_a_url_or_invalid_url(reference: str) -> None:
    try:
        joined = join(parse(BASE), reference)
    except InvalidUrl:
        return
    if not reference[:1].isalpha() and not reference.startswith(("//", "<")):
        assert (joined.scheme, joined.components()["host"]) == ("http", "a")
