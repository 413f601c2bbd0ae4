"""The command with a third-party scheme: the rules for built-in schemes apply to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from tests.plugin import install
from tests.sampled import sampled

CHECKOUT = Path(__file__).parents[3]

Resolve = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def resolve(tmp_path: Path) -> Resolve:
    """Return a function that runs the command in an empty folder, with the plug-in installed."""
    site, here = tmp_path / "site", tmp_path / "here"
    install(site)
    here.mkdir()
    path = os.pathsep.join((str(site), str(CHECKOUT)))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", "from resolver.cli import run; run()", *words],
            capture_output=True,
            text=True,
            cwd=here,
            env={"PYTHONPATH": path, "PATH": ""},
            check=False,
        )

    return run


RULES: list[tuple[tuple[str, ...], int, str]] = [
    (("finger://127.0.0.1/a%0d%0ab",), 9, "S02: byte 0D"),
    (("--policy", "untrusted", "finger://h.example/a%0d%0ab"), 9, "S02: byte 0D"),
    (("--tls", "require", "finger://127.0.0.1/a"), 2, "TLS is required"),
    (("finger:///a",), 12, "no-host"),
    (("--policy", "untrusted", "finger://bank.example@h.example/a"), 9, "S06: finger "),
    (("finger://127.0.0.1:6379/a",), 9, "S04: port 6379"),
]

#: Each case with a command that contacts the server, or with a command that does not.
CASES = sampled(product(RULES, ("cat", "explain")), lambda asked: asked[0])


@pytest.mark.parametrize(("rule", "verb"), CASES)
def test_plugin_scheme_is_checked_against_rules(
    resolve: Resolve, rule: tuple[tuple[str, ...], int, str], verb: str
) -> None:
    words, status, message = rule
    done = resolve(verb, *words)
    assert (done.returncode, message in done.stderr) == (status, True), done


def test_plugin_scheme_is_listed(resolve: Resolve) -> None:
    records = [json.loads(line) for line in resolve("schemes", "--json").stdout.splitlines()]
    (finger,) = [record for record in records if record["scheme"] == "finger"]
    assert finger == {
        "scheme": "finger",
        "default_port": 79,
        "names": "who somebody is",
        "origin": "plug-in",
    }
