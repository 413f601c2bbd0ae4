"""`--pin`, and `pin` in a section of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocols.errors import TlsError
from protocols.text import Masked
from resolver.cli.messages import describe
from tests.resolver.cli.command import resolve
from tests.resolver.cli.test_contract import ABOUT

OTHER = "sha256:" + "0" * 64


@pytest.mark.parametrize("way", ["option", "section"])
def test_pin_accepts_the_certificate_of_an_unknown_authority(
    way: str, at: dict[str, str], folder: Path
) -> None:
    words = ["--pin", at["pin"]]
    if way == "section":
        (folder / "c.toml").write_text(f"['{at['https'].removeprefix('https://')}']\npin = '{at['pin']}'\n")
        words = ["--config", "c.toml"]
    assert resolve("cat", *words, f"{at['https']}/about.txt").out == ABOUT


def test_pin_of_another_certificate_is_a_tls_error(at: dict[str, str]) -> None:
    done = resolve("cat", "--pin", OTHER, "--cacert", at["cafile"], f"{at['https']}/about.txt")
    assert (done.status, done.out) == (5, b"")
    assert f"is not the pinned one: expected {OTHER}, got {at['pin']}" in done.messages


@pytest.mark.parametrize("where", ["option", "section"])
def test_invalid_pin_is_a_usage_error(where: str, folder: Path) -> None:
    (folder / "c.toml").write_text("['h.example']\npin = 'sha1:0'\n")
    words = ["--pin", "sha1:0"] if where == "option" else ["--config", "c.toml"]
    done = resolve("cat", *words, "https://h.example/")
    assert done.status == 2
    assert "expected sha256: and the 64 hexadecimal digits" in done.messages


def test_message_after_a_redirect_suggests_the_line_of_a_section() -> None:
    error = TlsError("not trusted", url=Masked("https://second.example/"), certificate=OTHER)
    assert f'(pin = "{OTHER}" if' in describe(error, "https://first.example/")[0]
    assert f"(--pin {OTHER} if" in describe(error, "https://second.example/")[0]
