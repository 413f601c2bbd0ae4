"""Tests of `Headers`, a tuple of pairs with lookup by name, and of `mask_cookie`."""

from __future__ import annotations

import copy
import pickle

import pytest

from protocols.location import mask_cookie
from resolver import Headers

PAIRS = (("Set-Cookie", "a=1, b"), ("content-type", "text/plain"), ("SET-COOKIE", "c=2"), ("X-Empty", ""))
HEADERS = Headers(PAIRS)


@pytest.mark.parametrize("name", ["set-cookie", "Set-Cookie", "SET-COOKIE"])
def test_headers_lookup_ignores_case(name: str) -> None:
    assert HEADERS[name] == HEADERS.get(name) == "a=1, b, c=2"
    assert HEADERS.get_list(name) == ["a=1, b", "c=2"]
    assert name in HEADERS


def test_headers_empty_value_is_found() -> None:
    assert ("x-empty" in HEADERS, HEADERS["x-empty"], HEADERS.get("x-empty", "none")) == (True, "", "")


def test_headers_missing_name() -> None:
    with pytest.raises(KeyError, match="x-none"):
        HEADERS["x-none"]
    assert (HEADERS.get("x-none"), HEADERS.get("x-none", "no"), HEADERS.get_list("x-none")) == (
        None,
        "no",
        [],
    )
    assert "x-none" not in HEADERS


def test_headers_equal_their_pairs() -> None:
    assert HEADERS == PAIRS
    assert Headers(PAIRS) == HEADERS != Headers(PAIRS[1:])
    assert hash(Headers(PAIRS)) == hash(HEADERS)
    assert [*HEADERS] == [*PAIRS]
    assert (len(HEADERS), bool(Headers())) == (4, False)
    assert dict(HEADERS) == {"set-cookie": "a=1, b, c=2", "content-type": "text/plain", "x-empty": ""}


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
)
def test_headers_copy_supports_lookup(copied: object) -> None:
    assert callable(copied)
    assert copied(HEADERS)["CONTENT-TYPE"] == "text/plain"


@pytest.mark.parametrize(
    ("value", "shown"),
    [("sid=abc; Path=/", "sid=****; Path=/"), ("abc; Path=/", "****; Path=/"), ("sid=", "sid=****")],
)
def test_mask_cookie_masks_only_the_value(value: str, shown: str) -> None:
    assert mask_cookie("Set-Cookie", value) == shown
    assert mask_cookie("X-Cookie", value) == value
