"""What is asked of a person on a page, in a browser: the forms of Gopher+."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import expect

from resolver import Policy, Settings
from tests.cli.places import Places
from tests.window.browser import Viewer, barriers, overflow
from tests.window.served import served
from tests.window.steps import open_at_once


def test_a_form_is_filled_in_and_its_dialogue_stands_beside_the_answer(
    viewer: Viewer, places: Places
) -> None:
    port = urlsplit(places["gopher"]).port
    assert port is not None
    with served(settings=Settings(policy=Policy(allow_port=frozenset({port})))) as window:
        page = viewer.page()
        open_at_once(page, window, f"{places['gopher']}/00/poll%09%09?")
        page.get_by_role("main").get_by_role("button", name="Fill it in").click()
        expect(page.get_by_role("main")).to_contain_text("What is your name?")
        page.locator("input[type=password]").fill("speak friend")
        page.get_by_role("button", name="Look at what will be sent").click()
        page.get_by_role("button", name="Send", exact=True).click()
        expect(page.get_by_role("main")).to_contain_text("Thank you.")
        page.locator("aside summary").first.click()
        dialogue = page.locator("aside svg[role=img]").first
        expect(dialogue).to_contain_text("0/poll")
        expect(dialogue).not_to_contain_text("friend")
        assert barriers(page) == []
        assert overflow(page) <= 0
