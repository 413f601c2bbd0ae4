"""Challenges: what a 401 asks for, by the grammar and not by a search for a name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.http.auth import Challenge, choose, parse_challenges
from resolver import Declined

READ: list[tuple[list[str], list[Challenge]]] = [
    ([], []),
    (["Basic"], [Challenge("basic", {})]),
    (['Basic realm="a"'], [Challenge("basic", {"realm": "a"})]),
    (['basic  REALM = "a\\"b\\\\"'], [Challenge("basic", {"realm": 'a"b\\'})]),
    (["Negotiate, NTLM"], [Challenge("negotiate", {}), Challenge("ntlm", {})]),
    (["Negotiate YWJj=, Digest nonce=n"], [Challenge("negotiate", {}), Challenge("digest", {"nonce": "n"})]),
    (["Negotiate YWJj"], [Challenge("negotiate", {})]),
    (
        ['Newauth t="a, Digest b", Digest realm=r, nonce="n"'],
        [Challenge("newauth", {"t": "a, Digest b"}), Challenge("digest", {"realm": "r", "nonce": "n"})],
    ),
    (
        ['Digest realm="a, b", Basic realm="c"', "Bearer"],
        [Challenge("digest", {"realm": "a, b"}), Challenge("basic", {"realm": "c"}), Challenge("bearer", {})],
    ),
    ([",, Basic ,, realm=a ,"], [Challenge("basic", {"realm": "a"})]),
    (["Basic realm=a, realm=b"], [Challenge("basic", {"realm": "a"})]),
    (['Basic realm="open, Digest nonce=n'], [Challenge("basic", {})]),
    (["realm=a"], []),
    (["\x01Basic"], []),
]


@pytest.mark.parametrize(("fields", "challenges"), READ)
def test_challenges(fields: list[str], challenges: list[Challenge]) -> None:
    assert parse_challenges(fields) == challenges


@given(st.lists(st.text(st.sampled_from('aB,= "\\\t;~é'), max_size=40), max_size=3))
def test_any_fields_are_challenges_or_none(fields: list[str]) -> None:
    assert len(parse_challenges(fields)) <= 32


def test_no_more_are_read_than_anybody_has() -> None:
    assert len(parse_challenges([", ".join(f"A{number}" for number in range(10_000))])) == 32


SHA = 'Digest realm="r", nonce="s", algorithm=SHA-256, qop="auth"'
MD5 = 'Digest realm="r", nonce="m", algorithm=MD5, qop="auth"'


@pytest.mark.parametrize(
    ("fields", "nonce"),
    [
        ([SHA, MD5, "Basic"], "s"),
        ([MD5, SHA, "Basic"], "s"),
        ([f'{MD5}, {SHA}, Basic realm="a, b"'], "s"),
        ([f"{MD5}, Digest realm=r, nonce=e, algorithm=md5-sess, qop=auth"], "e"),
        ([f"{SHA}, Digest realm=r, nonce=e, algorithm=SHA-256-sess, qop=auth"], "e"),
        (["Digest realm=r, nonce=1, qop=auth", "Digest realm=r, nonce=2, qop=auth"], "1"),
        (["Digest realm=r, nonce=old"], "old"),
        (['Digest realm=r, nonce=n, qop="auth-int, auth"'], "n"),
        (["Digest realm=r, nonce=x, algorithm=SHA-512-256, qop=auth", MD5], "m"),
        (['Digest realm=r, nonce=x, qop="auth-int"', MD5], "m"),
        (["Basic realm=r", "Bearer"], None),
    ],
)
def test_the_strongest_that_can_be_answered(fields: list[str], nonce: str | None) -> None:
    chosen = choose(parse_challenges(fields))
    assert (None if chosen is None else chosen.parameters["nonce"]) == nonce


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ('Digest realm=r, nonce=n, qop="auth-int"', "auth-int"),
        ("Digest realm=r, nonce=n, algorithm=SHA-512-256, qop=auth", "SHA-512-256"),
        ("Digest realm=r, nonce=n, algorithm=SHA-256", "no qop"),
    ],
)
def test_what_cannot_be_given_is_named(field: str, what: str) -> None:
    with pytest.raises(Declined, match=what):
        choose(parse_challenges([field, "Basic realm=r"]))
