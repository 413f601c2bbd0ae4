"""Tests of HTTP authentication: challenges parsed by the grammar, and Digest responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.recordings import FOLDER
from protocols.http.digest import Challenge, Digest, choose, parse_challenges
from resolver import Credentials, Declined, Refused

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
def test_parse_challenges_of_fields(fields: list[str], challenges: list[Challenge]) -> None:
    assert parse_challenges(fields) == challenges


@given(st.lists(st.text(st.sampled_from('aB,= "\\\t;~é'), max_size=40), max_size=3))
def test_parse_challenges_accepts_any_fields(fields: list[str]) -> None:
    assert len(parse_challenges(fields)) <= 32


def test_parse_challenges_count_is_limited() -> None:
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
def test_choose_prefers_strongest_supported_digest(fields: list[str], nonce: str | None) -> None:
    chosen = choose(parse_challenges(fields))
    assert (None if chosen is None else chosen.parameters["nonce"]) == nonce


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ('Digest realm=r, nonce=n, qop="auth-int"', "auth-int"),
        ("Digest realm=r, nonce=n, algorithm=SHA-512-256, qop=auth", "SHA-512-256"),
        ("Digest realm=r, nonce=n, algorithm=SHA-256", "without qop"),
    ],
)
def test_choose_unsupported_digest_names_the_reason(field: str, what: str) -> None:
    with pytest.raises(Declined, match=what):
        choose(parse_challenges([field, "Basic realm=r"]))


# Digest: the values of RFC 7616 3.9, and all recorded responses computed again.

MUFASA = Credentials(b"Mufasa", b"Circle of Life")
_EXAMPLE = {
    "realm": "http-auth@example.org",
    "qop": "auth, auth-int",
    "nonce": "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
    "opaque": "FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS",
}


@pytest.mark.parametrize(
    ("algorithm", "response"),
    [
        ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ],
)
def test_digest_matches_rfc_7616_examples(algorithm: str, response: str) -> None:
    challenge = Challenge("digest", {**_EXAMPLE, "algorithm": algorithm})
    digest = Digest(challenge, "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ")
    assert digest.authorization(b"GET", b"/dir/index.html", MUFASA).decode() == (
        'Digest username="Mufasa", realm="http-auth@example.org", '
        'nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", uri="/dir/index.html", '
        f'algorithm={algorithm}, response="{response}", '
        'opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS", qop=auth, nc=00000001, '
        'cnonce="f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"'
    )
    assert b"nc=00000002" in digest.authorization(b"GET", b"/dir/index.html", MUFASA)


class Proof(NamedTuple):
    """A recorded Digest request, its challenge, and the Authentication-Info of the response."""

    name: str
    method: bytes
    target: bytes
    said: dict[str, str]
    challenge: Challenge
    info: list[Challenge]


def proofs() -> Iterator[Proof]:
    for path in sorted((FOLDER / "access").glob("digest-*.json")):
        yield from _proofs_of(path)


def _proofs_of(path: Path) -> Iterator[Proof]:
    challenges: list[Challenge] = []
    waiting: Proof | None = None
    for exchange in json.loads(path.read_text())["exchanges"]:
        head, *fields = bytes.fromhex(exchange["hex"]).split(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        values = [field.partition(": ")[::2] for field in fields]
        if exchange["dir"] == "server":
            told = [value for name, value in values if name == "Authentication-Info"]
            info = parse_challenges(f"Info {value}" for value in told)
            if waiting is not None:
                yield waiting._replace(info=info)
                waiting = None
            asked = [value for name, value in values if name.lower() == "www-authenticate"]
            challenges = parse_challenges(asked) or challenges
            continue
        said = [value for name, value in values if name == "Authorization" and value.startswith("Digest ")]
        if not said or "auth-int" in said[0]:
            continue
        (answer,) = parse_challenges(said)
        parameters = dict(answer.parameters)
        (challenge,) = (each for each in challenges if _is_answered(each, parameters))
        method, target = head.split(" ")[0].encode(), parameters["uri"].encode()
        waiting = Proof(path.stem, method, target, parameters, challenge, [])


def _is_answered(challenge: Challenge, said: dict[str, str]) -> bool:
    asked = challenge.parameters
    return asked.get("nonce") == said["nonce"] and asked.get("algorithm", "MD5") == said.get(
        "algorithm", "MD5"
    )


LOGINS = (Credentials(b"alice", b"wonder land"), Credentials("Jäsøn Doe".encode(), b"Secret, or not?"))


PROOFS = list(proofs())


@pytest.mark.parametrize(
    "proof", PROOFS, ids=[f"{proof.name}-{proof.said.get('nc', proof.said['nonce'])}" for proof in PROOFS]
)
def test_digest_matches_recorded_responses(proof: Proof) -> None:
    """A login that the server knew gives exactly the recorded response."""
    ours = []
    for login in LOGINS:
        digest = Digest(proof.challenge, proof.said.get("cnonce", ""))
        for _ in range(int(proof.said.get("nc", "1"), 16)):
            value = digest.authorization(proof.method, proof.target, login)
        (answer,) = parse_challenges([value.decode("latin-1")])
        ours.append(answer.parameters["response"])
        if answer.parameters["response"] == proof.said["response"]:
            for info in proof.info:  # the mock server sends `rspauth` 00 to test the check
                assert digest.proves(info, proof.target, login) == (info.parameters["rspauth"] != "00")
    if "wrong" in proof.name:
        assert proof.said["response"] not in ours
    else:
        assert proof.said["response"] in ours


def test_digest_proves_checks_rspauth() -> None:
    digest = Digest(Challenge("digest", _EXAMPLE), "c")
    digest.authorization(b"GET", b"/", MUFASA)
    assert digest.proves(Challenge("info", {}), b"/", MUFASA)
    assert not digest.proves(Challenge("info", {"rspauth": "0" * 32}), b"/", MUFASA)


def test_digest_nextnonce_resets_count() -> None:
    digest = Digest(Challenge("digest", _EXAMPLE), "c")
    digest.authorization(b"GET", b"/", MUFASA)
    digest.proves(Challenge("info", {"nextnonce": "n2"}), b"/", MUFASA)
    value = digest.authorization(b"GET", b"/", MUFASA)
    assert b'nonce="n2"' in value
    assert b"nc=00000001" in value


@pytest.mark.parametrize(
    ("said", "user", "username"),
    [
        ({}, "Jäsøn".encode(), 'username="J\xc3\xa4s\xc3\xb8n"'),
        ({"charset": "UTF-8"}, "Jäsøn".encode(), "username*=UTF-8''J%C3%A4s%C3%B8n"),
        ({"charset": "UTF-8"}, b"a b", 'username="a b"'),
        ({}, b'a"b\\', 'username="a\\"b\\\\"'),
        ({}, b"a:b", 'username="a:b"'),
    ],
)
def test_digest_username_encoding(said: dict[str, str], user: bytes, username: str) -> None:
    digest = Digest(Challenge("digest", {**_EXAMPLE, **said}), "c")
    value = digest.authorization(b"GET", b"/", Credentials(user, b"p")).decode("latin-1")
    assert value.startswith(f"Digest {username}, realm=")


def test_digest_userhash_hides_username() -> None:
    digest = Digest(Challenge("digest", {**_EXAMPLE, "userhash": "true", "algorithm": "SHA-256"}), "c")
    value = digest.authorization(b"GET", b"/", MUFASA)
    assert b"Mufasa" not in value
    assert value.endswith(b"userhash=true")


@pytest.mark.parametrize(
    ("domain", "target", "covered"),
    [(None, b"/x", True), ("/a /b", b"/b/x", True), ("/a /b", b"/c", False), ("http://other/", b"/", False)],
)
def test_digest_covers_domain(domain: str | None, target: bytes, covered: bool) -> None:
    said = _EXAMPLE if domain is None else {**_EXAMPLE, "domain": domain}
    assert Digest(Challenge("digest", said), "c").covers(target) is covered


@pytest.mark.parametrize(
    "login", [Credentials(b"a\r\n", b"p"), Credentials(b"a", b"p\n"), Credentials(b"\0", b"p")]
)
def test_digest_credentials_with_control_bytes_are_refused(login: Credentials) -> None:
    with pytest.raises(Refused):
        Digest(Challenge("digest", _EXAMPLE), "c").authorization(b"GET", b"/", login)
