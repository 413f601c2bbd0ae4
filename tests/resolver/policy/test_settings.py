"""The named policies, and the validation of overrides."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from functools import partial
from typing import Any

import httpx
import pytest

import resolver
from resolver import Policy
from resolver.adapters.fsspec import FtpFileSystem
from resolver.adapters.guard.requests import GuardedAdapter
from resolver.adapters.guard.sockets import create_connection
from resolver.adapters.httpx import mounts
from resolver.adapters.mcp import ToolGrant


def test_policy_named_returns_named_policies() -> None:
    assert Policy.named("default") == Policy.default() == Policy()
    assert Policy.named("cautious") == Policy.cautious()
    assert Policy.named("untrusted") == Policy.untrusted()
    marks = [(p.refuses_warnings, p.public_only) for p in (Policy(), Policy.cautious(), Policy.untrusted())]
    assert marks == [(False, False), (True, False), (True, True)]


#: Functions that take a policy and return a result that depends on it.
TAKERS: dict[str, Callable[[Any], object]] = {
    "Resolver": lambda policy: resolver.Resolver(policy=policy).policy,
    "blocking.Resolver": lambda policy: resolver.blocking.Resolver(policy=policy).policy,
    "HttpxTransport": lambda policy: resolver.HttpxTransport(policy=policy)._network.policy,
    "check": lambda policy: resolver.check("file:///x", policy=policy),
    "explain": lambda policy: resolver.explain("file:///x", policy=policy).as_json(),
    "guard": lambda policy: resolver.guard(
        "h.example", ["192.0.2.1", "10.0.0.1", "93.184.215.14"], policy=policy
    ),
    "blocking.fetch": lambda policy: _refused(partial(resolver.blocking.fetch, "file:///x", policy=policy)),
    "GuardedAdapter": lambda policy: GuardedAdapter(policy)._policy,
    "create_connection": lambda policy: _refused(partial(create_connection, ("127.0.0.1", 9), policy=policy)),
    "mounts": lambda policy: _refused(
        partial(httpx.Client(mounts=mounts(policy=policy)).get, "gopher://127.0.0.1:9/0a")
    ),
    "Grant": lambda policy: ToolGrant(policy=policy).policy,
    "FtpFileSystem": lambda policy: (
        asyncio.run(FtpFileSystem(policy=policy, skip_instance_cache=True)._session()).policy
    ),
}


def _refused(call: Callable[[], object]) -> str:
    """Return the refusal of a policy for a host and port without a server."""
    with pytest.raises((resolver.Refused, httpx.UnsupportedProtocol)) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("name", TAKERS)
def test_policy_is_accepted_by_name_in_every_function(name: str) -> None:
    assert TAKERS[name]("untrusted") == TAKERS[name](Policy.untrusted())
    with pytest.raises(ValueError, match=r"unknown policy .*untrusted"):
        TAKERS[name]("untrused")
    with pytest.raises(ValueError, match="unknown policy ''"):
        TAKERS[name]("")
    mapping = {"name": "untrusted"}
    if name == "FtpFileSystem":  # storage options may come from JSON
        assert TAKERS[name](mapping) == Policy.untrusted()
    for wrong in (("name",) if name == "FtpFileSystem" else mapping, 3, False, Policy):
        with pytest.raises(TypeError, match=r"policy must be a Policy or a name \(default, .*\), got "):
            TAKERS[name](wrong)


def test_policy_sets_are_frozen_and_normalized() -> None:
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


def test_policy_is_immutable() -> None:
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
        (lambda: Policy(allow_address="10.0.0.0/8"), "allow_address must be a set"),  # type: ignore[arg-type]
        (lambda: Policy(allow_name="h.example"), "allow_name must be a set"),  # type: ignore[arg-type]
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
        (lambda: Policy(allow_password="no"), "allow_password must be True or False"),  # type: ignore[arg-type]
        (lambda: Policy(allow_form=None), "allow_form must be True or False"),  # type: ignore[arg-type]
        (lambda: Policy(allow_special=1), "allow_special must be True or False"),  # type: ignore[arg-type]
        (lambda: Policy(allow_raw=[]), "allow_raw must be True or False"),  # type: ignore[arg-type]
        (lambda: Policy(allow_server_name=""), "allow_server_name must be"),  # type: ignore[arg-type]
        (lambda: Policy(allow_name={b"h"}), "allow_name: b'h'"),  # type: ignore[arg-type]
        (lambda: Policy(allow_forward={None}), "allow_forward: None"),  # type: ignore[arg-type]
        (lambda: Policy(allowed_hosts={1}), "allowed_hosts: 1"),  # type: ignore[arg-type]
        (lambda: Policy(allow_redirect={1}), "allow_redirect: 1"),  # type: ignore[arg-type]
        (lambda: Policy(allow_address={10}), "allow_address: 10"),  # type: ignore[arg-type]
    ],
)
def test_policy_rejects_invalid_values(make: Callable[[], Policy], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        make()


def test_policy_has_only_the_listed_overrides() -> None:
    """Each override belongs to one rule; other fields do not exist."""
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
        "allowed_hosts",
    ]
