"""Tests of URLs whose scheme has no module."""

from __future__ import annotations

import pytest

from protocols.contract import JsonValue
from protocols.other import build, strip_user
from resolver import InvalidUrl, OtherUrl
from tests.protocols.typed_url import parse_as
from tests.protocols.url_rows import Good, check_good


def other(status: str, schemepart: str) -> dict[str, JsonValue]:
    return {"status": status, "schemepart": schemepart}


GOOD = [
    *(
        Good(f"{scheme}:a%2Fb", {"scheme": scheme, **other("reserved", "a%2Fb")})
        for scheme in ("afs", "mid", "cid", "nfs", "tn3270", "mailserver", "z39.50")
    ),
    Good("NFS://h/x", {"scheme": "nfs", **other("reserved", "//h/x")}),
    Good("X-Foo:bar", {"scheme": "x-foo", **other("experimental", "bar")}),
    Good("x-:", {"scheme": "x-", **other("experimental", "")}),
    Good("x:", {"scheme": "x", **other("unknown", "")}),
    Good("localhost:8080", {"scheme": "localhost", **other("unknown", "8080")}),
    Good("a1+b-c.d:;/?:@&=", other("unknown", ";/?:@&=")),
    Good("foo:a#b", {**other("unknown", "a"), "fragment": "b"}),
    Good("foo:%2541", other("unknown", "%2541")),  # not decoded
    Good("foo:a~b", other("unknown", "a~b"), "unsafe-char"),
    Good("foo://a\\@b@c?d", other("unknown", "//a\\@b@c?d"), "unsafe-char"),  # the authority is not parsed
]


@pytest.mark.parametrize("row", GOOD, ids=lambda row: row.text)
def test_other_urls_are_parsed(row: Good) -> None:
    check_good(row)


@pytest.mark.parametrize(
    ("text", "shown", "public"),
    [
        ("foo://u:secret@h/x", "foo://u:****@h/x", "foo://h/x"),
        ("foo://u:se@cret@h", "foo://u:****@h", "foo://h"),
        ("foo://u@h/a:b@c", "foo://u@h/a:b@c", "foo://h/a:b@c"),
        ("foo://h:8/a@b", "foo://h:8/a@b", "foo://h:8/a@b"),
        ("foo:u:x@h", "foo:u:x@h", "foo:u:x@h"),
    ],
)
def test_other_url_password_is_masked_by_generic_syntax(text: str, shown: str, public: str) -> None:
    url = parse_as(OtherUrl, text)
    assert url.shown == shown
    assert build(strip_user(url)) == public


def test_other_urls_are_built() -> None:
    assert build(OtherUrl(scheme="x", schemepart="//a/b?c%41~", fragment="f")) == "x://a/b?c%41%7E#f"
    for wrong in ("a b", "a#b", "%", "\r\n"):
        with pytest.raises(InvalidUrl):
            build(OtherUrl(scheme="x", schemepart=wrong))
