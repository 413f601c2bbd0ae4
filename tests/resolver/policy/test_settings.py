"""The policies by name, and overrides that must mean something."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from resolver import Policy


def test_named_policies() -> None:
    assert Policy.named("default") == Policy.default() == Policy()
    assert Policy.named("cautious") == Policy.cautious()
    assert Policy.named("untrusted") == Policy.untrusted()
    marks = [(p.refuses_warnings, p.public_only) for p in (Policy(), Policy.cautious(), Policy.untrusted())]
    assert marks == [(False, False), (True, False), (True, True)]


def test_sets_are_kept_frozen_and_normal() -> None:
    policy = Policy(
        allow_port=[25, 25],  # type: ignore[arg-type]
        allow_address=("10.0.0.1/8", "::1"),  # type: ignore[arg-type]
        allow_name={"XN--A.example."},
        allow_redirect={"FTP"},
        allow_forward={"B.Example", "[::1]"},
    )
    assert policy.allow_port == frozenset({25})
    assert policy.allow_address == frozenset({"10.0.0.0/8", "::1/128"})
    assert policy.allow_name == frozenset({"xn--a.example"})
    assert policy.allow_redirect == frozenset({"ftp"})
    assert policy.allow_forward == frozenset({"b.example", "::1"})
    assert all(
        isinstance(getattr(policy, f.name), frozenset)
        for f in fields(policy)
        if f.name in ("allow_port", "allow_address", "allow_name", "allow_redirect", "allow_forward")
    )
    assert hash(policy) == hash(replace(policy))


def test_policy_is_a_value() -> None:
    with pytest.raises(FrozenInstanceError):
        Policy().allow_form = True  # type: ignore[misc]
    assert replace(Policy.untrusted(), allow_port=frozenset({25})).public_only


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Policy.named("lax"), "'lax'"),
        (lambda: Policy(name="lax"), "'lax'"),  # type: ignore[arg-type]
        (lambda: Policy(allow_port={0}), "allow_port: 0"),
        (lambda: Policy(allow_port={65536}), "allow_port: 65536"),
        (lambda: Policy(allow_port={"25"}), "allow_port: '25'"),  # type: ignore[arg-type]
        (lambda: Policy(allow_port={True}), "allow_port: True"),
        (lambda: Policy(allow_address={"10.0.0.0/33"}), "allow_address"),
        (lambda: Policy(allow_address={"localhost"}), "allow_address: 'localhost'"),
        (lambda: Policy(allow_address="10.0.0.0/8"), "allow_address: "),  # type: ignore[arg-type]
        (lambda: Policy(allow_name="h.example"), "allow_name: "),  # type: ignore[arg-type]
        (lambda: Policy(allow_name={"h example"}), "allow_name: 'h example'"),
        (lambda: Policy(allow_name={""}), "allow_name"),
        (lambda: Policy(allow_forward={"h/x"}), "allow_forward"),
        (lambda: Policy(allow_redirect={"file"}), "S10"),
        (lambda: Policy(allow_redirect={"TELNET"}), "telnet "),
        (lambda: Policy(allow_redirect={"telnets"}), "telnets "),
        (lambda: Policy(allow_redirect={"mailto"}), "mailto "),
        (lambda: Policy(allow_redirect={"ftp:"}), "allow_redirect: 'ftp:'"),
        (lambda: Policy(file_root=""), "file_root"),
        (lambda: Policy(file_root="a\0b"), "file_root"),
        (lambda: Policy(ftp_email="me@here\r\nDELE x"), "ftp_email"),
        (lambda: Policy(ftp_email=""), "ftp_email"),
        (lambda: Policy(ftp_email="me"), "ftp_email"),
        (lambda: Policy(trusted_proxy="ftp://h.example"), "trusted_proxy: "),
        (lambda: Policy(trusted_proxy=""), "trusted_proxy: "),
    ],
)
def test_values_that_mean_nothing(make: Callable[[], Policy], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        make()


def test_no_field_turns_the_layer_off() -> None:
    """Each override is the word of one rule; there is nothing else."""
    assert [f.name for f in fields(Policy)] == [
        "name",
        "allow_port",
        "allow_address",
        "allow_name",
        "allow_redirect",
        "allow_forward",
        "allow_password",
        "allow_form",
        "allow_special",
        "allow_raw",
        "allow_server_name",
        "file_root",
        "ftp_email",
        "trusted_proxy",
    ]
