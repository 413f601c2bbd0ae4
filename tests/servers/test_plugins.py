"""The schemes of `fixtures/plugins` with real servers: Debian's dictd, in.fingerd and Molly Brown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import resolver
from resolver import Policy, RetryPolicy
from tests.plugin import installed

POINTS = {
    "finger": "fixtures.plugins.more_schemes.finger:FINGER",
    "dict": "fixtures.plugins.more_schemes.dictionary:DICT",
    "gemini": "fixtures.plugins.more_schemes.gemini:GEMINI",
}
#: For a server that is starting: about a hundred seconds in total.
PATIENT = RetryPolicy(tries=12, delay=0.05, retry_all=True)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the schemes; yield the path of the file of known certificates."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    with installed(tmp_path / "site", POINTS):
        yield tmp_path / "home/resolve/known-certificates"


def policy(url: str) -> Policy:
    return Policy(allow_port={int(url.rstrip("/").rpartition(":")[2])})


async def test_dictd_definitions_and_matches(dictd: str) -> None:
    async def told(request: str) -> resolver.Response:
        return await resolver.fetch(f"{dictd}{request}", policy=policy(dictd))

    cat = await told("d:cat")
    assert cat.text == "cat\r\nA small animal\r\n.that purrs.\r\n"
    assert (cat.verified, cat.media_type, cat.charset) == (("final-reply",), "text/plain", "utf-8")
    assert (await told("d:caf%C3%A9:pets:1")).text == "café\r\nWhere they meet.\r\n"
    async with resolver.entries(f"{dictd}m:ca:pets:prefix", policy=policy(dictd)) as found:
        entries = [entry async for entry in found]
    assert sorted(entry.name for entry in entries) == ["café", "cart", "cat"]
    for entry in entries:
        assert entry.url is not None
        assert (await told(entry.url.removeprefix(dictd))).text.startswith(entry.name)  # type: ignore[union-attr]
    for request, error in {
        "d:dog": resolver.NotFound,
        "d:a%22%20b%5C": resolver.NotFound,
        "d:cat:none": resolver.Declined,
        "m:cat:pets:none": resolver.Declined,
        "d:cat:!:2": resolver.NotFound,
    }.items():
        with pytest.raises(error):
            await told(request)


@pytest.mark.parametrize(
    ("request_", "said"),
    [("joe", "Asked for: [joe]\n"), ("", "Asked for: []\n"), ("%2FW%20joe", "Asked for: [-l] [joe]\n")],
)
async def test_fingerd_replies(fingerd: str, request_: str, said: str) -> None:
    response = await resolver.fetch(f"{fingerd}{request_}", policy=policy(fingerd))
    assert response.text == said


async def test_molly_brown_pages_and_certificates(molly_brown: str, home: Path) -> None:
    async def page(path: str, patience: RetryPolicy | None = None) -> resolver.Response:
        return await resolver.fetch(f"{molly_brown}{path}", policy=policy(molly_brown), patience=patience)

    text = await page("a.txt", PATIENT)
    assert (text.text, text.media_type) == ("A text.\nTwo lines.\n", "text/plain")
    assert text.verified == ("close-notify",)
    moved = await page("old")
    assert (moved.text, moved.url) == (text.text, f"{molly_brown}a.txt")
    async with resolver.entries(molly_brown, policy=policy(molly_brown)) as found:
        assert [(entry.name, entry.url) async for entry in found] == [
            ("A text", f"{molly_brown}a.txt"),
            ("Elsewhere", "gemini://h.example/"),
        ]
    with pytest.raises(resolver.NotFound):
        await page("none")
    check_known(home, molly_brown)
    with pytest.raises(resolver.TlsError, match="another certificate"):
        await page("a.txt")


def check_known(home: Path, url: str) -> None:
    """Check that the file has one line, for the certificate of this URL.

    Then replace its digest by a wrong one.
    """
    (line,) = home.read_text().splitlines()
    host, port, digest = line.split()
    assert f"gemini://{host}:{port}/" == url
    home.write_text(f"{host} {port} {digest[:-1]}{'0' if digest[-1] != '0' else '1'}\n")
