"""What a browser sends to our port when pages of ours and of strangers make it, as it was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

from fixtures.recordings import FOLDER
from resolver.web.access import CHECKS, Check, cookie, host, origin, site
from tests.resolver.window.client import Answer, Browser, exchange, running

RECORDINGS = sorted((FOLDER / "gateway").glob("*.json"))


def defence(recording: Path) -> str:
    said: str = json.loads(recording.read_text())["defence"]
    return said


def octets(recording: Path, browser: Browser, proof: str | None = None) -> bytes:
    """As it was recorded, of this server and session; `proof` is what the form holds."""
    (exchanged,) = json.loads(recording.read_text())["exchanges"]
    head, _, body = bytes.fromhex(exchanged["hex"]).partition(b"\r\n\r\n")
    port = b"%d" % browser.server.house.port
    assert browser.cookie is not None
    head = head.replace(b"__Host-resolve-9401=SESSION", browser.cookie.encode()).replace(b"9401", port)
    action = urlsplit(head.split()[1]).path.decode()
    given = browser.server.house.keys.csrf(action) if proof is None else proof
    whole = body.replace(b"TOKEN", given.encode())
    head = head.replace(b"Content-Length: %d\r" % len(body), b"Content-Length: %d\r" % len(whole))
    return head + b"\r\n\r\n" + whole


def seen(answer: Answer) -> str:
    """What became of it: the framework knows none of the recorded paths."""
    if b"asked to open this" in answer.body:
        return "ask"
    return "allow" if (answer.status, answer.body) == (404, b"Not Found") else "refuse"


async def answered(recording: Path, browser: Browser, proof: str | None = None) -> Answer:
    asked = octets(recording, browser, proof)
    return await exchange(browser.server.house.port, asked, asked.split()[0].decode())


def test_there_are_all_of_them() -> None:
    defences = [defence(recording) for recording in RECORDINGS]
    assert {each: defences.count(each) for each in defences} == {"refuse": 42, "ask": 3, "allow": 4}


async def test_each_has_its_defence() -> None:
    async with running() as (browser, told):
        for recording in RECORDINGS:
            del told[:]
            answer = await answered(recording, browser)
            assert (recording.stem, seen(answer)) == (recording.stem, defence(recording))
            assert bool(told) == (defence(recording) != "allow")


async def let_in(checks: tuple[Check, ...], *, csrf: bool = True, proof: str | None = None) -> set[str]:
    """Recordings of strangers that a server with these rules alone lets in."""
    async with running(checks=checks, csrf=csrf) as (browser, _):
        found = [(each, seen(await answered(each, browser, proof))) for each in RECORDINGS]
    return {each.stem for each, became in found if became == "allow" and defence(each) != "allow"}


def but(*rules: Check) -> tuple[Check, ...]:
    return tuple(check for check in CHECKS if check not in rules)


async def test_without_sec_fetch_site_another_port_is_let_in() -> None:
    """It has the cookie; of its forms only the proof is missing."""
    assert {"other-port-img", "other-port-es", "other-port-topget"} <= await let_in(but(site))


async def test_without_the_host_a_rebound_name_is_let_in() -> None:
    assert "rebound" in await let_in(but(host, cookie))
    assert "rebound" not in await let_in(but(cookie))


async def test_without_the_cookie_another_name_is_let_in() -> None:
    assert "other-name-img" in await let_in(but(site, cookie))
    assert "other-name-img" not in await let_in(but(site))


async def test_without_the_proof_a_form_of_another_port_is_let_in() -> None:
    assert "other-port-formpost" in await let_in(but(site, origin), csrf=False, proof="guessed")
    assert "other-port-formpost" not in await let_in(but(site, origin), proof="guessed")
