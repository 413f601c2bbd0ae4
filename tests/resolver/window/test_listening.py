"""Others than this machine are served: where they find it, what they hold, and what is asked of them then."""

from __future__ import annotations

import re
import ssl
from http.client import HTTPSConnection
from pathlib import Path

import pytest
import trio
import trustme

from resolver import LocalError, NotConfigured, Settings
from resolver.web import access as entrance
from resolver.web.access import Certificate, check_certificate, place_of, site
from resolver.web.server import ServeOptions, serving
from tests.hang import HANG
from tests.resolver.window.client import running
from tests.resolver.window.test_recorded import but

UNSAID = {"Sec-Fetch-Site": "", "Sec-Fetch-Mode": "", "Sec-Fetch-Dest": ""}


@pytest.mark.parametrize(
    ("scheme", "address", "port", "place"),
    [
        ("http", "192.0.2.1", 8_000, "192.0.2.1:8000"),
        ("http", "192.0.2.1", 80, "192.0.2.1"),
        ("https", "192.0.2.1", 80, "192.0.2.1:80"),
        ("https", "2001:db8::1", 443, "[2001:db8::1]"),
        ("http", "::1", 1, "[::1]:1"),
    ],
)
def test_what_browsers_call_it(scheme: str, address: str, port: int, place: str) -> None:
    assert place_of(scheme, address, port) == place


async def test_in_the_clear_the_cookie_is_one_that_browsers_take() -> None:
    """`Secure` and its prefix would be dropped with the whole cookie. Nothing else of it is given up."""
    async with running(public=True) as (browser, told):
        port = browser.server.house.port
        assert browser.cookie is not None
        assert browser.cookie.startswith(f"resolve-{port}=")
        entered = await browser.enter()
        said = set((entered.header("set-cookie") or "").split("; ")[1:])
        assert said == {"Path=/", "HttpOnly", "SameSite=Strict"}
        assert (await browser.ask("/", UNSAID)).status == 200
        assert told == []
        for host in ("evil.example", f"localhost:{port}", f"0.0.0.0:{port}"):
            assert (await browser.ask("/", {**UNSAID, "Host": host})).status == 421
        assert (await browser.ask("/", {**UNSAID, "Cookie": ""})).status == 403
        assert (
            await browser.ask("/", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"})
        ).status == 403


async def test_in_the_clear_forms_still_prove_where_they_are_from() -> None:
    """Browsers say nothing of that in `Sec-Fetch-Site` there."""
    async with running(public=True) as (browser, _):
        looked = await browser.look("gopher://192.0.2.1/1")
        form = {name: looked.field(name) for name in ("csrf", "from", "url")}
        for where in ("", "null", "http://evil.example", f"http://127.0.0.1:{browser.server.house.port + 1}"):
            assert (await browser.post("/open", form, {**UNSAID, "Origin": where})).status == 403
        ours = {**UNSAID, "Origin": browser.server.house.origin}
        assert (await browser.post("/open", {**form, "csrf": "guessed"}, ours)).status == 403
        assert (await browser.post("/open", form, ours)).status == 303
    async with running(public=True, checks=but(site, entrance.origin), csrf=False) as (browser, _):
        elsewhere = {**UNSAID, "Origin": "http://evil.example"}
        assert (await browser.post("/history", {}, elsewhere)).status == 303, "what is missed without them"


async def test_users_of_other_machines_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrance, "is_of_this_user", lambda ends: False)
    async with running(public=True) as (browser, _):
        assert (await browser.ask("/")).status == 200
    async with running() as (browser, told):
        assert (await browser.ask("/")).status == 403
        assert "another user" in told[-1]


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> tuple[trustme.CA, Certificate]:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    return authority, Certificate(str(tmp_path / "both.pem"), str(tmp_path / "both.pem"))


async def test_by_tls_it_is_as_on_this_machine(files: tuple[trustme.CA, Certificate]) -> None:
    authority, certificate = files
    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.set_alpn_protocols(["h2", "http/1.1"])

    async with serving(ServeOptions(Settings(), public=True, certificate=certificate)) as server:
        assert server.house.origin == f"https://127.0.0.1:{server.house.port}"
        path = server.entry().partition(server.house.place)[2]

        def ask() -> tuple[int, str, str, str | None]:
            port = server.house.port
            connection = HTTPSConnection("127.0.0.1", port, context=context, timeout=HANG)
            connection.request("GET", path)
            reply = connection.getresponse()
            reply.read()
            protocol = connection.sock.selected_alpn_protocol() if connection.sock else "http/1.1"
            said = reply.headers["content-security-policy"], reply.headers["set-cookie"]
            connection.close()
            return reply.status, *said, protocol

        status, policy, cookie, protocol = await trio.to_thread.run_sync(ask)
    assert (status, protocol) == (200, "http/1.1")
    assert cookie.startswith("__Host-resolve-")
    assert "Secure" in cookie.split("; ")
    assert f"frame-src {server.content}" in policy
    assert server.content.startswith("https://127.0.0.1:")


def test_a_certificate_that_nobody_can_show(files: tuple[trustme.CA, Certificate], tmp_path: Path) -> None:
    check_certificate(files[1])
    (tmp_path / "odd").write_text("odd")
    for path in ("odd", "none", "."):
        with pytest.raises(NotConfigured, match=re.escape(str(tmp_path / path))):
            check_certificate(Certificate(str(tmp_path / path), files[1].key))


async def test_where_nobody_may_listen_that_is_said() -> None:
    with pytest.raises(LocalError, match=r"192\.0\.2\.1"):
        async with running(address="192.0.2.1", public=True):
            raise AssertionError("listens")
