"""A login that a page asks for, in a browser: given wrong, given right, forgotten."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.cli.places import Places
from tests.window.browser import Look, Viewer, barriers, overflow
from tests.window.served import served
from tests.window.steps import open_, open_at_once


def test_a_person_logs_in_and_has_it_forgotten(viewer: Viewer, places: Places) -> None:
    url = places["ftp"].replace("ftp://", "ftp://bob@") + "/%2Fpub/a.txt"
    with served() as window:
        page = viewer.page(Look(320))
        open_at_once(page, window, url)
        for password in ("wrong", "secret pw"):
            expect(page.get_by_role("heading", name="Log in")).to_be_visible()
            assert barriers(page) == []
            assert overflow(page) <= 0
            expect(page.get_by_label("Name", exact=True)).to_have_value("bob")
            expect(page.get_by_label("Password", exact=True)).to_have_value("")
            page.get_by_label("Password", exact=True).fill(password)
            with page.expect_navigation():
                page.get_by_role("button", name="Log in and open").click()
            assert password not in page.content()
        expect(page.get_by_role("heading", name="Log in")).to_have_count(0)
        expect(page.get_by_role("main")).to_contain_text("sha256")
        assert "secret" not in page.url
        page.get_by_role("link", name="settings", exact=True).click()
        forget = page.get_by_role("button", name="forget ftp://")
        expect(forget).to_have_count(1)
        assert barriers(page) == []
        forget.click()
        expect(forget).to_have_count(0)
        open_(page, url)
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
