"""The names that RFC 1738 section 4 sets aside: parsed, refused in words, and served by a gateway if one is
named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import resolver
from resolver import OtherUrl, UnsupportedScheme
from resolver.url.registry import RESERVED

CHECKOUT = Path(__file__).parents[2]

#: A URL of each, and a word of what the name was reserved for.
ROWS = [
    ("afs:/cell/user/file", "Andrew"),
    ("mid:123@h.example", "Message identifiers"),
    ("cid:part1@h.example", "Content identifiers"),
    ("nfs://h.example/path", "Network File System"),
    ("tn3270://h.example/", "3270"),
    ("mailserver:request", "mail servers"),
    ("z39.50://h.example/db", "Z39.50"),
]


def test_every_reserved_name_has_its_row() -> None:
    assert {url.partition(":")[0] for url, _ in ROWS} == set(RESERVED)


@pytest.mark.parametrize(("url", "meant"), ROWS)
async def test_what_is_said(url: str, meant: str) -> None:
    """What the name was meant for, and that a gateway could serve it: with which option."""
    scheme = url.partition(":")[0]
    parsed = resolver.parse(url)
    assert isinstance(parsed, OtherUrl)
    assert parsed.status == "reserved"
    with pytest.raises(UnsupportedScheme) as caught:
        await resolver.fetch(url)
    error = caught.value
    assert (error.scheme, error.rule, error.exit_code) == (scheme, "S19", 13)
    for words in (meant, "reserved", "RFC 1738", "gateway", f"--gateway {scheme}=URL"):
        assert words in error.message
    plan = resolver.explain(url)
    assert (plan.verdict, plan.steps, str(plan.error)) == ("refuse", (), str(error))


@pytest.mark.parametrize("url", [url for url, _ in ROWS])
def test_a_gateway_serves_them(url: str) -> None:
    scheme = url.partition(":")[0]
    gateways = {scheme: "http://gateway.example/?u="}
    assert resolver.check(url, gateways=gateways).action == "allow"
    connects = [
        step for step in resolver.explain(url, gateways=gateways).steps if step["action"] == "connect"
    ]
    assert [step["host"] for step in connects] == ["gateway.example"]


def test_the_command_says_it_too() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "from resolver.cli import run; run()", "cat"]
        + [url for url, _ in ROWS],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(CHECKOUT), "PATH": ""},
    )
    assert (done.returncode, done.stdout) == (13, "")
    for url, meant in ROWS:
        (said,) = (line for line in done.stderr.splitlines() if line.startswith(f"resolve: {url}: "))
        assert meant in said
        assert f"--gateway {url.partition(':')[0]}=URL" in said


def test_an_unknown_name_is_said_to_be_unknown() -> None:
    error = resolver.explain("x-foo:bar").error
    assert "'x-foo'" in str(error)
