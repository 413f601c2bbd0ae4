"""What a stranger's page does to our ports, in a browser that a person has entered with. What counts is what
came of it: nothing was fetched, and what was refused is in the log."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Error, expect

from resolver import Policy
from resolver.settings import Settings
from resolver.window.entrance import CHECKS, site
from tests.window.browser import Viewer
from tests.window.served import Opened, Site, served
from tests.window.steps import enter, open_

#: Everything that a page can make a browser ask for by itself; then its title says so.
_ATTACK = """<!doctype html><title>attacking</title><body><script>
const target = TARGET;
const settled = element => new Promise(done => {
  element.onload = element.onerror = done;
  document.body.append(element);
});
const made = (tag, values) => Object.assign(document.createElement(tag), values);
const form = (name, enctype) => new Promise(done => {
  const frame = made("iframe", {name});
  document.body.append(frame);
  const sent = made("form", {action: target, method: "post", target: name, enctype});
  sent.append(made("input", {name: "csrf", value: "x"}));
  document.body.append(sent);
  frame.onload = done;
  sent.submit();
});
Promise.allSettled([
  settled(made("img", {src: target})),
  settled(made("script", {src: target})),
  settled(made("link", {rel: "stylesheet", href: target})),
  settled(made("iframe", {src: target})),
  fetch(target, {mode: "no-cors", credentials: "include"}),
  fetch(target, {credentials: "include"}),
  fetch(target, {method: "POST", mode: "no-cors", credentials: "include", body: "csrf=x"}),
  form("one", "application/x-www-form-urlencoded"),
  form("two", "text/plain"),
  new Promise(done => {
    const source = new EventSource(target, {withCredentials: true});
    source.onerror = source.onopen = () => { source.close(); done(); };
  }),
  new Promise(done => {
    const socket = new WebSocket(target.replace("http", "ws"));
    socket.onerror = socket.onopen = done;
  }),
]).then(() => { document.title = "done"; });
</script>"""


@pytest.fixture
def target() -> Iterator[Site]:
    """What must not be asked for."""
    with Site({"/secret": ("text/plain", "found")}).running() as site:
        yield site


@pytest.fixture
def stranger() -> Iterator[Site]:
    with Site({}).running() as site:
        yield site


def attack(site: Site, target: str) -> str:
    site.pages["/"] = ("text/html", _ATTACK.replace("TARGET", repr(target)))
    return f"{site.origin}/"


def test_a_page_on_another_port_gets_nothing(
    viewer: Viewer, window: Opened, stranger: Site, target: Site
) -> None:
    """Of the same machine, so that the cookie goes along."""
    page = viewer.page()
    enter(page, window)
    del window.told[:]
    ours = f"{window.origin}/u/{quote(target.origin + '/secret', safe='')}"
    page.goto(attack(stranger, ours))
    expect(page).to_have_title("done")
    assert target.asked == []
    assert len(window.told) >= 9


def test_a_link_of_a_stranger_is_asked_about_first(
    viewer: Viewer, window: Opened, stranger: Site, target: Site
) -> None:
    page = viewer.page()
    enter(page, window)
    ours = f"{window.origin}/u/{quote(target.origin + '/secret', safe='')}"
    stranger.pages["/"] = ("text/html", f'<!doctype html><title>x</title><a href="{ours}">Win</a>')
    page.goto(f"{stranger.origin}/")
    page.get_by_role("link", name="Win").click()
    expect(page.get_by_role("main")).to_contain_text("asked to open this")
    assert target.asked == []
    page.get_by_role("link", name="Look at it").click()
    expect(page.get_by_role("main")).to_contain_text("S08")  # a stranger leads inside
    expect(page.get_by_role("button", name="Open", exact=True)).to_have_count(0)
    assert target.asked == []


def test_a_name_that_is_made_to_lead_here_leads_nowhere(viewer: Viewer, window: Opened) -> None:
    """DNS rebinding: to the browser it is the stranger's own site."""
    page = viewer.page()
    enter(page, window)
    port = urlsplit(window.origin).port
    del window.told[:]
    with pytest.raises(Error, match="ERR_HTTP_RESPONSE_CODE_FAILURE"):  # 421, without a word
        page.goto(f"http://evil.example:{port}/")
    assert any("evil.example" in line for line in window.told)


def test_the_way_in_is_good_once_and_nowhere_to_be_found(viewer: Viewer, window: Opened) -> None:
    page = viewer.page()
    entry = window.entry()
    token = urlsplit(entry).query.partition("=")[2]
    page.goto(entry)
    page.wait_for_url(f"{window.origin}/")
    seen = page.evaluate(
        "JSON.stringify([location.href, document.referrer, document.cookie, performance.getEntries()])"
    )
    assert token not in seen
    assert token not in page.content()
    assert page.evaluate("history.length") == 2  # an empty page, and ours: the entry was replaced
    assert not any(token in line for line in window.told)
    answer = viewer.page().goto(entry)
    assert answer is not None
    assert answer.status == 403


def test_nobody_puts_our_pages_into_a_frame(viewer: Viewer, window: Opened, stranger: Site) -> None:
    page = viewer.page()
    enter(page, window)
    stranger.pages["/"] = (
        "text/html",
        f'<!doctype html><title>x</title><iframe src="{window.origin}/"></iframe>',
    )
    page.goto(f"{stranger.origin}/")
    frame = page.frames[1]
    assert frame.locator("form").count() == 0


#: A document that tries to run, to ask elsewhere, and to leave.
_DOCUMENT = """<!doctype html><title>theirs</title><body>words of a stranger
<img src="SITE/img"><link rel=stylesheet href="SITE/css">
<script>fetch("SITE/script"); parent.pwned = 1</script>
<iframe src="SITE/frame"></iframe><meta http-equiv=refresh content="0;url=SITE/refresh">
<object data="SITE/object"></object><video src="SITE/video" autoplay></video>
<form action="SITE/form"><button>Send</button></form><a href="SITE/link" target=_top>Leave</a>"""


_DRAWING = """<svg xmlns="http://www.w3.org/2000/svg"><script>fetch("SITE/script")</script>
<image href="SITE/img"/><text y="20">words of a stranger</text></svg>"""


@pytest.mark.parametrize("path", ["/page.html", "/page.xhtml", "/page.svg"])
def test_a_document_runs_nothing_and_asks_nobody(
    path: str, viewer: Viewer, window: Opened, stranger: Site
) -> None:
    types = {"html": "text/html", "xhtml": "application/xhtml+xml", "svg": "image/svg+xml"}
    svg = _DRAWING.replace("SITE", stranger.origin)
    text = svg if path.endswith("svg") else _DOCUMENT.replace("SITE", stranger.origin)
    stranger.pages[path] = (types[path.rpartition(".")[2]], text)
    page = viewer.page()
    enter(page, window)
    open_(page, f"{stranger.origin}{path}")
    asked = list(stranger.asked)
    page.get_by_role("link", name="as page", exact=False).first.click()
    frame = page.frame_locator("iframe")
    if path == "/page.html":
        expect(frame.locator("body")).to_contain_text("words of a stranger")
        frame.get_by_role("link", name="Leave").click()
        frame.get_by_role("button", name="Send").click()
    else:
        expect(page.locator("iframe")).to_be_visible()
    later = [each for each in stranger.asked[len(asked) :] if each != f"GET {path}"]
    assert later == []
    assert page.evaluate("window.pwned") is None
    assert page.url.startswith(window.origin)


def test_without_the_rule_another_port_would_get_in(viewer: Viewer, stranger: Site, target: Site) -> None:
    """What shows that the tests above look where it counts."""
    checks = tuple(check for check in CHECKS if check is not site)
    settings = Settings(policy=Policy(allow_address={"127.0.0.0/8"}))
    with served(checks=checks, settings=settings) as open_to_all:
        page = viewer.page()
        enter(page, open_to_all)
        ours = f"{open_to_all.origin}/u/{quote(target.origin + '/secret', safe='')}"
        page.goto(attack(stranger, ours))
        expect(page).to_have_title("done")
    assert "GET /secret" in target.asked
