"""The file of `--trace-html` in a browser: a teacher shows it to a class, prints it and passes it on."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import resolver
from resolver.web.dialogue.drawing import render_page as drawn
from resolver.web.dialogue.drawing import render_svg
from resolver.web.dialogue.exchange import make_planned_exchange
from tests.resolver.web.dialogue.spoken import record
from tests.resolver.web.dialogue.test_drawing import hostile_events
from tests.resolver.web.dialogue.test_recording import TRANSFER
from tests.sampled import sampled
from tests.window.browser import LOOKS, Look, Viewer, overflow, violations

#: An untrusted script, and the variable that it would set.
ATTACK = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>\"'>]]>\u202e"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    plan = make_planned_exchange(resolver.explain("ftps://h.example/a"))
    exchange = record(TRANSFER)
    wide = record(hostile_events("W" * 2000))
    (folder / "page.html").write_text(drawn([(exchange, plan), (wide,)], "What was said"), "utf-8")
    (folder / "attack.html").write_text(drawn([(record(hostile_events(ATTACK)), plan)], ATTACK), "utf-8")
    (folder / "diagram.svg").write_text(render_svg(exchange), "utf-8")
    return folder


def open_file(viewer: Viewer, path: Path, look: Look | None = None) -> tuple[Page, list[str], list[str]]:
    """Return the page, the browser's complaints and its further requests during loading."""
    page = viewer.page(look)
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    return page, complaints, asked[1:]


#: One look with script, and the look without.
TRIED = sampled(LOOKS, lambda look: look.script)


@pytest.mark.parametrize("look", TRIED, ids=str)
def test_trace_page_is_accessible(viewer: Viewer, files: Path, look: Look) -> None:
    page, complaints, asked = open_file(viewer, files / "page.html", look)
    expect(page.locator("svg[role=img]")).to_have_count(3)
    assert overflow(page) <= 0
    assert not look.script or violations(page) == []
    assert (complaints, asked) == ([], [])


@pytest.mark.parametrize("scheme", sampled(["light", "dark"], lambda scheme: None))
def test_diagram_text_contrast_meets_wcag(viewer: Viewer, files: Path, scheme: str) -> None:
    """WCAG 1.4.3 requires a contrast of 4.5 to 1. axe cannot measure it in a diagram."""
    page, *_ = open_file(viewer, files / "page.html", Look(scheme="dark" if scheme == "dark" else "light"))
    ratios = page.evaluate(
        """() => {
          const numbers = text => text.match(/[0-9.]+/g).slice(0, 3).map(Number);
          const light = text => {
            const [r, g, b] = numbers(text).map(part => part / 255)
              .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          return [...document.querySelectorAll("svg text")].map(text => {
            const grounds = [getComputedStyle(text.ownerSVGElement).backgroundColor,
              getComputedStyle(text.ownerSVGElement.querySelector("rect.side")).fill].map(light);
            const ink = light(getComputedStyle(text).fill);
            return Math.min(...grounds.map(
              ground => (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05)));
          });
        }"""
    )
    assert len(ratios) > 50
    assert min(ratios) >= 4.5


def test_diagram_lines_end_before_next_lane(viewer: Viewer, files: Path) -> None:
    """With the fonts of this machine, the longest line ends before the server's lane begins."""
    page, *_ = open_file(viewer, files / "page.html")
    ends = page.evaluate(
        """() => [...document.querySelectorAll("svg")].flatMap(svg => {
          const server = svg.querySelectorAll("line.lane")[1].x1.baseVal.value;
          return [...svg.querySelectorAll("text.said, text.ours, text.preview, text.words:not(.veil)")]
            .map(text => server - (text.getBBox().x + text.getBBox().width));
        })"""
    )
    assert len(ends) > 30
    assert min(ends) >= 0


def test_trace_page_works_with_keyboard_only(viewer: Viewer, files: Path) -> None:
    page, *_ = open_file(viewer, files / "page.html", Look(320))
    reached = []
    for _ in range(6):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.className || document.activeElement.tagName"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
    assert reached == ["exchange-wide", "SUMMARY"] * 3
    page.keyboard.press("Enter")
    expect(page.locator("details").nth(2)).to_have_attribute("open", "")
    tops = page.evaluate(
        "[...document.querySelectorAll('.exchange-wide, summary')].map(e => e.getBoundingClientRect().top)"
    )
    assert all(above < below for above, below in pairwise(tops))


def test_trace_page_without_script_has_table(viewer: Viewer, files: Path) -> None:
    page, *_ = open_file(viewer, files / "page.html", Look(script=False))
    page.locator("summary").first.click()
    rows = page.locator("table").first.locator("tbody tr")
    expect(rows).to_have_count(18)
    expect(rows.nth(4)).to_contain_text("AUTH TLS")
    expect(rows.nth(13)).to_contain_text("13 bytes")


def test_trace_page_prints_on_white(viewer: Viewer, files: Path) -> None:
    page, *_ = open_file(viewer, files / "page.html", Look(700, "dark"))
    page.emulate_media(media="print")
    assert overflow(page) <= 0
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.exchange')).backgroundColor")
        == "rgb(255, 255, 255)"
    )


def test_trace_page_shows_untrusted_text_as_text(viewer: Viewer, files: Path) -> None:
    page, complaints, asked = open_file(viewer, files / "attack.html")
    expect(page.locator("svg text", has_text="onerror").first).to_be_attached()
    assert page.evaluate("window.pwned") is None
    assert page.locator("img, script, iframe, a").count() == 0
    assert (complaints, asked) == ([], [])


def test_trace_page_policy_blocks_inserted_elements(viewer: Viewer, files: Path) -> None:
    """The policy also holds for elements that an editor or a mail program inserts later."""
    page, complaints, asked = open_file(viewer, files / "page.html")
    page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.pwned = 1";
          document.body.append(script);
          const style = document.createElement("style");
          style.textContent = "body { display: none }";
          document.body.append(style);
          const image = document.createElement("img");
          image.src = "http://127.0.0.1:9/x.png";
          document.body.append(image);
        }"""
    )
    expect(page.locator("body")).to_be_visible()
    assert page.evaluate("window.pwned") is None
    assert len(complaints) == 3
    assert all("Content Security Policy" in each for each in complaints)
    assert asked == []


def test_svg_file_is_displayed_with_its_colors(viewer: Viewer, files: Path) -> None:
    page, complaints, asked = open_file(viewer, files / "diagram.svg")
    assert page.evaluate("document.documentElement.tagName") == "svg"
    assert page.evaluate("getComputedStyle(document.querySelector('.say')).stroke") == "rgb(10, 76, 140)"
    assert (complaints, asked) == ([], [])
