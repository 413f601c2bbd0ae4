"""A mailto URL through the public functions and the command: an address, a draft, and nothing done."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import resolver
from resolver import Refused

CHECKOUT = Path(__file__).parents[3]
DRAFT = b"To: joe@h.example, ann@h.example\r\nSubject: Hello\r\n\r\nHi"
URL = "mailto:joe@h.example,ann@h.example?subject=Hello&body=Hi&bcc=eve@h.example"


async def test_an_address() -> None:
    response = await resolver.fetch(f"{URL}#f")
    assert (response.kind, response.media_type, response.content) == ("address", "message/rfc822", DRAFT)
    assert (response.target, response.peer, response.entries) == (URL, None, None)
    assert response.headers == (("subject", "Hello"), ("body", "Hi"), ("bcc", "eve@h.example"))
    assert response.extra == {
        "addresses": ["joe@h.example", "ann@h.example"],
        "headers": [["subject", "Hello"], ["body", "Hi"], ["bcc", "eve@h.example"]],
    }
    assert [(finding.rule, finding.action) for finding in response.findings] == [
        ("mailto-multiple", "allow"),
        ("mailto-headers", "allow"),
        ("mailto:header", "allow"),
        ("mailto:header", "allow"),
        ("mailto:left-out", "warn"),
    ]
    assert response.findings[-1].detail.startswith("bcc: eve@h.example: ")


async def test_octets_that_are_no_utf_8() -> None:
    response = await resolver.fetch("mailto:%E9@h?subject=%E9")
    assert response.extra == {"addresses": ["é@h"], "headers": [["subject", "é"]]}


async def test_a_field_that_would_not_stay_one_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        await resolver.fetch("mailto:joe@h?subject=a%0D%0ABcc:%20eve@h")
    assert (caught.value.rule, caught.value.exit_code) == ("S02", 9)


async def test_it_is_never_followed_by_itself() -> None:
    with pytest.raises(Refused) as caught:
        await resolver.fetch(URL, origin="derived", referrer=("http://h.example/", "192.0.2.1"))
    assert caught.value.rule == "S10"


def test_the_command(tmp_path: Path) -> None:
    run = [sys.executable, "-W", "error", "-c", "from resolver.cli import run; run()"]
    environment = {"PYTHONPATH": str(CHECKOUT), "PATH": ""}
    done = subprocess.run([*run, "cat", URL], capture_output=True, env=environment)
    assert (done.returncode, done.stdout) == (0, DRAFT)
    assert b"mailto:left-out: bcc: eve@h.example" in done.stderr
    told = subprocess.run([*run, "info", "-q", "--json", URL], capture_output=True, env=environment)
    record = json.loads(told.stdout)
    assert (told.returncode, record["kind"], record["size"]) == (0, "address", len(DRAFT))
    assert record["extra"]["target"] == URL
