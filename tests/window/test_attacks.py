"""Attacks of an untrusted page on the ports of the web UI, in a browser that has its session cookie.

The tests check the effects: nothing was fetched, and the log names each refused request.
"""

from __future__ import annotations

import ssl
import webbrowser
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import trio
import trustme
from playwright.sync_api import Error, Page, Response, expect

from resolver import Policy, Settings
from resolver.cli.serve import open_browser
from resolver.web import headers
from resolver.web.access import CHECKS, check_site
from tests.sampled import sampled
from tests.window.browser import Viewer
from tests.window.served import Opened, Sent, Site, served
from tests.window.steps import enter, enter_by_link, give_cookie
from tests.window.threats import PLANTED, THREATS

#: Every kind of request that a page can start without the user; at the end its title says so.
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
navigator.sendBeacon(target, "csrf=x");
document.body.append(made("a", {href: "#x", ping: target, id: "ping"}));
document.getElementById("ping").click();
document.body.append(made("embed", {src: target}), made("link", {rel: "modulepreload", href: target}));
Promise.allSettled([
  settled(made("img", {src: target})),
  settled(made("script", {src: target})),
  settled(made("link", {rel: "stylesheet", href: target})),
  settled(made("link", {rel: "prefetch", href: target})),
  settled(made("iframe", {src: target})),
  settled(made("object", {data: target})),
  settled(made("audio", {src: target})),
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


@pytest.fixture(scope="module")
def secured() -> Iterator[Site]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("evil.example", "127.0.0.1").configure_cert(context)
    with Site({}, context).running() as found:
        yield found


PORT = "another port"
ATTACKERS = (PORT, "another site", "a public site", "a secure site")


@pytest.fixture(params=sampled(ATTACKERS, lambda name: name == PORT))
def attacker(request: pytest.FixtureRequest) -> tuple[Site, str]:
    """Return the site of the attacking page, and its origin; the cookie is sent only from the first."""
    name = {"a public site": "public", "a secure site": "secured"}.get(request.param, "untrusted")
    found: Site = request.getfixturevalue(name)
    return found, found.elsewhere if request.param in ("another site", "a secure site") else found.origin


def fetch_address(window: Opened, target: Site) -> str:
    """Return the address of the web UI that would fetch the target."""
    return f"{window.origin}/u/{quote(target.origin + '/secret', safe='')}"


def attack(site: Site, origin: str, target: str) -> str:
    site.pages["/"] = ("text/html", _ATTACK.replace("TARGET", repr(target)))
    return f"{origin}/"


def open_entered(viewer: Viewer, window: Opened) -> Page:
    """Open a page in a browser that has the session cookie and accepts any certificate."""
    page = viewer.page(ignore_https_errors=True)
    give_cookie(page, window)
    del window.log[:]
    return page


def test_attacking_page_fetches_nothing(
    viewer: Viewer, permissive: Opened, attacker: tuple[Site, str], target: Site, public: Site
) -> None:
    page = open_entered(viewer, permissive)
    page.goto(attack(*attacker, fetch_address(permissive, target)))
    expect(page).to_have_title("done")
    assert target.connections == 0
    assert all(line.startswith("refused ") for line in permissive.log)
    # The browser itself keeps requests of the public network from this machine.
    assert attacker[0] is public or len(permissive.log) >= 12


def test_attacking_page_without_site_rule_succeeds(viewer: Viewer, untrusted: Site, target: Site) -> None:
    """Without the rule, the attack succeeds, which shows that the test above can fail."""
    checks = tuple(check for check in CHECKS if check is not check_site)
    settings = Settings(policy=Policy(allow_address={"127.0.0.0/8"}))
    with served(checks=checks, settings=settings) as open_to_all:
        page = open_entered(viewer, open_to_all)
        page.goto(attack(untrusted, untrusted.origin, fetch_address(open_to_all, target)))
        expect(page).to_have_title("done")
    assert "GET /secret" in target.asked


#: Ways in which a page leads the user to another address.
_LEADS = {
    "link": '<a href="{url}" id="go">Win</a>',
    "window": '<a href="{url}" id="go" target="_blank" rel="opener">Win</a>',
    "script": '<button id="go" onclick="location = \'{url}\'">Win</button>',
    "form": '<form action="{url}"><button id="go">Win</button></form>',
    "refresh": '<meta http-equiv="refresh" content="0;url={url}">',
    "redirect": '<a href="/moved" id="go">Win</a>',
}


#: An attacker whose requests carry the cookie, and attackers whose requests do not. Each run tests the
#: requests of all these ways (tests/resolver/web/test_access.py).
LED = sampled(
    [*((PORT, way) for way in _LEADS), *((each, "link") for each in ATTACKERS[1:])],
    lambda led: led[0] == PORT,
)


@pytest.mark.parametrize(("attacker", "way"), LED, indirect=["attacker"])
def test_navigation_from_untrusted_page_asks_first(
    way: str, viewer: Viewer, permissive: Opened, attacker: tuple[Site, str], target: Site
) -> None:
    page = open_entered(viewer, permissive)
    there, origin = attacker
    url = fetch_address(permissive, target)
    there.pages["/"] = ("text/html", f"<!doctype html><title>x</title>{_LEADS[way].format(url=url)}")
    there.pages["/moved"] = Sent("text/html", "", 302, {"Location": url})
    page.goto(f"{origin}/", wait_until="commit")
    if way == "window":
        with page.expect_popup() as popup:
            page.locator("#go").click()
        page = popup.value
    elif way != "refresh":
        page.locator("#go").click()
    expect(page.get_by_role("main")).to_contain_text("asked to open this")
    assert page.url.partition("?")[0] == url
    assert target.connections == 0
    page.get_by_role("link", name="Preview").click()
    expect(page.get_by_role("button", name="Open", exact=True)).to_be_visible()
    assert target.connections == 0
    page.get_by_role("button", name="Open", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text("found")
    assert target.asked == ["GET /secret"]
    assert permissive.log == ["refused GET /u/" + line.partition("/u/")[2] for line in permissive.log]


#: Sampled as `LED`.
SENT = sampled(
    [
        (PORT, "script", "application/x-www-form-urlencoded"),
        (PORT, "script", "text/plain"),
        *((each, "click", "application/x-www-form-urlencoded") for each in ATTACKERS),
    ],
    lambda sent: sent[0] == PORT,
)


@pytest.mark.parametrize(("attacker", "by", "enctype"), SENT, indirect=["attacker"])
def test_form_of_untrusted_page_is_refused(
    by: str, enctype: str, viewer: Viewer, permissive: Opened, attacker: tuple[Site, str], target: Site
) -> None:
    page = open_entered(viewer, permissive)
    there, origin = attacker
    script = "<script>document.forms[0].submit()</script>" if by == "script" else ""
    form = f"""<!doctype html><title>x</title>
<form method=post enctype="{enctype}" action="{permissive.origin}/save">
<input name=csrf value=x><input name=from value=""><input name=url value="{target.origin}/secret">
<button>Win</button></form>{script}"""
    there.pages["/"] = ("text/html", form)

    def is_answer(response: Response) -> bool:
        return bool(response.url == f"{permissive.origin}/save")

    with page.expect_response(is_answer) as answered:
        page.goto(f"{origin}/", wait_until="commit")
        if by == "click":
            page.get_by_role("button", name="Win").click()
    assert answered.value.status == 403
    assert (target.connections, len(permissive.log)) == (0, 1)


def test_rebound_name_is_refused(viewer: Viewer, window: Opened) -> None:
    """DNS rebinding: to the browser, the server appears to be the attacker's own site."""
    page = open_entered(viewer, window)
    port = urlsplit(window.origin).port
    with pytest.raises(Error, match="ERR_HTTP_RESPONSE_CODE_FAILURE"):  # Status 421 with an empty body.
        page.goto(f"http://evil.example:{port}/")
    assert any("evil.example" in line for line in window.log)


NAMES = ("localhost", "x.localhost", "0.0.0.0", "[::ffff:7f00:1]", "evil.example.")


@pytest.mark.parametrize("name", sampled(NAMES, lambda name: None))
def test_other_names_of_this_machine_are_refused(name: str, viewer: Viewer, window: Opened) -> None:
    """The browser may connect or not. Pages are served only at the IP address."""
    page = open_entered(viewer, window)
    with pytest.raises(Error):
        page.goto(f"http://{name}:{urlsplit(window.origin).port}/")
    assert page.locator("form").count() == 0
    assert all(line.startswith("refused GET /: Host: ") for line in window.log)


def test_browser_normalizes_other_spelling_of_address(viewer: Viewer, window: Opened) -> None:
    page = open_entered(viewer, window)
    page.goto(f"http://127.1:{urlsplit(window.origin).port}/")
    expect(page.get_by_role("textbox", name="Address", exact=True)).to_be_visible()
    assert page.url == f"{window.origin}/"


def test_entry_link_works_once_and_leaves_no_trace(viewer: Viewer, window: Opened, untrusted: Site) -> None:
    page = viewer.page()
    entry = window.entry()
    token = urlsplit(entry).query.partition("=")[2]
    del window.log[:]
    page.goto(entry)
    page.wait_for_url(f"{window.origin}/")
    seen = page.evaluate(
        "JSON.stringify([location.href, document.referrer, document.cookie, performance.getEntries()])"
    )
    assert token not in seen
    assert token not in page.content()
    # An empty page and the first page: the entry link was replaced.
    assert page.evaluate("history.length") == 2
    page.get_by_role("link", name="history", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert token not in page.content()
    assert not any(token in line for line in window.log)
    again = viewer.page()
    answer = again.goto(entry)
    assert answer is not None
    assert answer.status == 403
    assert token not in again.content()
    assert not any(token in line for line in window.log)


def frame_location(page: Page, origin: str, untrusted: Site, address: str) -> str:
    """Return the final address of a frame on the untrusted page that tries to load this address."""
    untrusted.pages["/"] = ("text/html", f'<!doctype html><title>x</title><iframe src="{address}"></iframe>')
    page.goto(f"{origin}/")
    (frame,) = page.frames[1:]
    return str(frame.evaluate("document.location.href"))


@pytest.mark.parametrize("elsewhere", sampled([False, True], lambda elsewhere: None))
def test_frame_of_untrusted_page_shows_no_page(
    elsewhere: bool, viewer: Viewer, window: Opened, untrusted: Site
) -> None:
    """Only pages of the web UI can frame the content port."""
    page = open_entered(viewer, window)
    origin = untrusted.elsewhere if elsewhere else untrusted.origin
    kept = window.keep(b"words")
    for address in (f"{window.origin}/", f"{window.origin}/help", kept):
        assert frame_location(page, origin, untrusted, address) == "chrome-error://chromewebdata/"


def test_frame_without_headers_shows_page(
    viewer: Viewer, untrusted: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headers, "make_page_headers", lambda content: {})
    checks = tuple(check for check in CHECKS if check is not check_site)
    with served(checks=checks) as bare:
        page = open_entered(viewer, bare)
        assert frame_location(page, untrusted.origin, untrusted, f"{bare.origin}/") == f"{bare.origin}/"


def test_lead_opens_file_that_enters(
    viewer: Viewer, window: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "a #%3F"))

    def start(address: str) -> bool:
        started.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", start)
    trio.run(open_browser, window.entry())
    page = viewer.page()
    page.goto(started[0])
    page.wait_for_url(f"{window.origin}/")
    expect(page.get_by_role("textbox", name="Address", exact=True)).to_be_visible()


def test_cookie_set_by_another_port_is_refused(viewer: Viewer, window: Opened, untrusted: Site) -> None:
    """Cookies ignore ports, so a server at another port can overwrite the session cookie.

    The result is a refusal, not a new session. A user with an entry link is let in again.
    """
    page = open_entered(viewer, window)
    name = f"__Host-resolve-{urlsplit(window.origin).port}"
    untrusted.pages["/"] = Sent(
        "text/html", "<title>set</title>", 200, {"Set-Cookie": f"{name}=forced; Secure; Path=/"}
    )
    page.goto(f"{untrusted.origin}/")
    answer = page.goto(f"{window.origin}/")
    assert answer is not None
    assert (answer.status, answer.header_value("set-cookie")) == (403, None)
    (refused,) = window.log
    assert all(word in refused for word in ("refused", "GET /:", "cookie"))
    enter_by_link(page, window)
    expect(page.get_by_role("textbox", name="Address", exact=True)).to_be_visible()


def test_cookie_is_inaccessible_to_page_of_another_port(
    viewer: Viewer, window: Opened, untrusted: Site
) -> None:
    page = open_entered(viewer, window)
    (cookie,) = page.context.cookies()  # For a given address, some versions omit secure cookies.
    untrusted.pages["/"] = ("text/html", "<title>x</title>")
    page.goto(f"{untrusted.origin}/")
    assert (
        page.evaluate(
            """name => {
          document.cookie = name + "=x; Secure; Path=/";
          for (let n = 0; n < 250; n++) document.cookie = "c" + n + "=x; Path=/";
          return document.cookie.includes(name);
        }""",
            cookie.get("name", ""),
        )
        is False
    )
    assert cookie in page.context.cookies()
    answer = page.goto(f"{window.origin}/")
    assert answer is not None
    assert answer.status == 200


def test_port_used_as_proxy_refuses(viewer: Viewer, window: Opened, target: Site) -> None:
    """The browser is configured to use the port as a proxy, for host names and for tunnels."""
    del window.log[:]
    page = viewer.page(proxy={"server": window.origin})
    with pytest.raises(Error):
        page.goto(f"http://evil.example:{target.port}/secret")
    with pytest.raises(Error, match="ERR_TUNNEL_CONNECTION_FAILED"):
        page.goto(f"https://evil.example:{target.port}/secret")
    assert target.connections == 0
    assert {line.split()[1] for line in window.log} == {"GET", "CONNECT"}  # Some are logged more than once.
    assert all(line.startswith("refused ") for line in window.log)


@pytest.mark.slow
def test_worker_of_previous_server_is_removed(viewer: Viewer) -> None:
    """The service worker of a previous server at a fixed port would answer first and see our addresses."""
    page = viewer.page()
    with Site(
        {
            "/": ("text/html", "<title>before</title>"),
            "/worker.js": ("text/javascript", "self.addEventListener('fetch', () => {});"),
        }
    ).running() as before:
        page.goto(f"{before.origin}/")
        page.evaluate(
            "navigator.serviceWorker.register('/worker.js').then(() => navigator.serviceWorker.ready)"
        )
        assert page.evaluate("navigator.serviceWorker.getRegistrations().then(found => found.length)") == 1
    with served(port=before.port) as window:
        enter(page, window)
        page.evaluate(  # The browser requests the worker's script again once the page is loaded.
            """async () => {
              while ((await navigator.serviceWorker.getRegistrations()).length)
                await new Promise(done => setTimeout(done, 50));
            }"""
        )
        page.goto("about:blank")  # The worker stops when its last page is closed.
        page.goto(f"{window.origin}/")
        assert page.evaluate("navigator.serviceWorker.controller") is None


# Each threat has a test, and each rule has a test that fails without the rule. Here only their existence is
# checked; the tests in `PLANTED` show that they find their threat.


def is_test(name: str) -> bool:
    """Return whether this test exists and pytest collects it."""
    module, _, function = name.partition(":")
    return function.startswith("test_") and callable(
        getattr(import_module(f"tests.{module}"), function, None)
    )


def test_threats_are_numbered() -> None:
    assert list(THREATS) == list(range(1, 30))


@pytest.mark.parametrize("number", THREATS)
def test_threats_name_existing_tests(number: int) -> None:
    threat = THREATS[number]
    names = threat.by_octets + threat.in_chromium
    assert names
    assert [name for name in names if not is_test(name)] == []


def test_rules_have_tests_without_them() -> None:
    assert {check.__name__ for check in CHECKS} < PLANTED.keys()
    names = [name for tests in PLANTED.values() for name in tests]
    assert [name for name in names if not is_test(name)] == []


def test_is_test_with_unknown_name_returns_false() -> None:
    assert not is_test("window.test_attacks:test_nothing")
    assert is_test("window.test_attacks:test_threats_are_numbered")


# A crash of a browser process is distinguished from a failing page.


def crash_page(viewer: Viewer) -> Page:
    page = viewer.page()
    with page.expect_event("crash"), pytest.raises(Error):
        page.goto("chrome://crash")
    return page


def test_crash_has_recognized_message(viewer: Viewer) -> None:
    page = crash_page(viewer)
    with pytest.raises(Error, match=r"(Page|Target) crashed"):
        page.goto("about:blank")


def test_browser_continues_after_crash(viewer: Viewer) -> None:
    crash_page(viewer)
    page = viewer.page()
    page.set_content("<title>still here</title>")
    assert page.title() == "still here"
