"""Redirects: the next request, loops and the number of hops (S10), and credentials (S11)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import resolver
from fixtures.http import Page, moved, serve
from protocols.contract import Moved
from resolver import Credentials, Options, Policy, ProtocolError, Referrer, Refused, Url, parse
from resolver.transfer.redirects import RetrievalRequest, next_request

DEFAULT = Policy.default()
SECRETS = ((b"Authorization", b"Bearer t"), (b"Cookie", b"c"), (b"X-Key", b"k"))
HARMLESS = ((b"Accept", b"text/html"), (b"accept-LANGUAGE", b"en"))
OPTIONS = Options(headers=(*SECRETS, *HARMLESS), want="file", user_agent=b"me")


def step(
    start: str,
    location: str,
    options: Options | None = None,
    policy: Policy = DEFAULT,
    earlier: tuple[str, ...] = (),
    hops: int = 10,
) -> RetrievalRequest:
    request = RetrievalRequest(parse(start), options=Options() if options is None else options)
    return next_request(
        request, Moved(location, "302"), "192.0.2.1", [parse(item) for item in earlier], policy, hops
    )


def test_next_request_is_derived() -> None:
    request = step("http://u:p@a.example/x/y?z", "../w")
    assert request.url == parse("http://a.example/w")
    assert request.origin == "derived"
    assert request.referrer == Referrer("http://u:****@a.example/x/y?z", "192.0.2.1")


@pytest.mark.parametrize(
    "location",
    ["http://a b/", "http://\xe9/", "//", "http:/x", "http://h:0/", "/%zz", "http://a@b@c/", "/a\r\nb"],
)
def test_redirect_to_invalid_url_is_a_protocol_error(location: str) -> None:
    with pytest.raises(ProtocolError):
        step("http://a.example/x", location)


PLACE = "http://a.example/x"


@pytest.mark.parametrize(
    ("start", "location", "policy", "carried"),
    [
        (PLACE, "/y", DEFAULT, True),
        (PLACE, "http://a.example:80/y", DEFAULT, True),  # an explicit default port is the same port
        (PLACE, "http://A.EXAMPLE/y", DEFAULT, True),  # case is ignored
        # credentials for another port: the attack that S11 prevents
        (PLACE, "http://a.example:8081/", DEFAULT, False),
        (PLACE, "https://a.example/x", DEFAULT, False),  # https on the same host is not an exception
        (PLACE, "http://sub.a.example/x", DEFAULT, False),
        (PLACE, "http://example/x", DEFAULT, False),
        (PLACE, "http://b.example/x", DEFAULT, False),
        (PLACE, "http://b.example/x", Policy(allow_forward={"b.example"}), True),
        (PLACE, "http://c.example/x", Policy(allow_forward={"b.example"}), False),
        ("https://a.example/x", "http://a.example/x?", DEFAULT, False),
    ],
)
def test_redirect_keeps_credentials_only_for_same_port(
    start: str, location: str, policy: Policy, carried: bool
) -> None:
    held = Credentials(b"u", b"p")
    given_by_url = start.replace("//", "//u:p@")
    for before, options in ((given_by_url, OPTIONS), (start, Options(login=held, headers=OPTIONS.headers))):
        after = step(before, location, options, policy).options
        assert after.login == (held if carried else None)
        assert after.headers == (OPTIONS.headers if carried else HARMLESS)
        assert (after.want, after.user_agent) == (options.want, options.user_agent)


def test_redirect_back_does_not_restore_login() -> None:
    there = step("http://u:p@a.example/x", "http://b.example/")
    back = next_request(
        there, Moved("http://a.example/y", "302"), None, [parse("http://a.example/x")], DEFAULT, 10
    )
    assert back.options.login is None


def test_redirect_without_options_adds_none() -> None:
    assert step(PLACE, "/y").options == Options()
    assert step("http://@a.example/x", "/y").options.login == Credentials(b"", b"")


@pytest.mark.parametrize(
    ("start", "location", "earlier"),
    [
        (PLACE, "", ()),
        (PLACE, "#part", ()),  # a fragment does not change the object
        (PLACE, "http://a.example:80/x", ()),
        ("http://u:p@a.example/x", "/x", ()),
        ("http://a.example/y", "/x", (PLACE,)),
        ("http://a.example/y", "/x", ("http://u@a.example/x#p",)),
    ],
)
def test_redirect_loop_is_refused(start: str, location: str, earlier: tuple[str, ...]) -> None:
    with pytest.raises(Refused) as caught:
        step(start, location, earlier=earlier)
    assert (caught.value.rule, caught.value.exit_code) == ("S10", 15)


def test_redirects_over_ten_hops_are_refused() -> None:
    earlier = tuple(f"http://a.example/{number}" for number in range(9))
    assert step(PLACE, "/y", earlier=earlier).url == parse("http://a.example/y")
    with pytest.raises(Refused) as caught:
        step(PLACE, "/y", earlier=(*earlier, "http://a.example/9"))
    assert (caught.value.rule, caught.value.exit_code) == ("S10", 15)
    with pytest.raises(Refused):
        step(PLACE, "/y", hops=0)


@given(
    st.text(max_size=30)
    | st.lists(st.sampled_from(["http:", "//", "/", "..", "?", "#", "@", "a", ":"])).map("".join)
)
def test_any_location_is_followed_or_refused(location: str) -> None:
    with suppress(ProtocolError, Refused):
        assert isinstance(step(PLACE, location).url, Url)


# The finding that reports a page of another host in place of the requested data.

HTML = "text/html; charset=utf-8"

#: The path requested, the media type that another host sends, and whether a finding is expected.
ROWS = [
    ("/granule.nc", HTML, True),
    ("/archive.tar.gz", "application/xhtml+xml", True),
    ("/granule.nc", "application/octet-stream", False),
    ("/page.html", HTML, False),
    ("/PAGE.HTM", HTML, False),
    ("/show.php", HTML, False),
    ("/granule", HTML, False),
    ("/.hidden", HTML, False),
    ("/", HTML, False),
]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize(("path", "media_type", "told"), ROWS, ids=[" ".join(row[:2]) for row in ROWS])
async def test_page_of_another_host_instead_of_data_is_a_finding(
    path: str, media_type: str, told: bool, host: str, nursery: trio.Nursery
) -> None:
    """No finding is expected if the page comes from the requested host itself."""
    page = replace(Page(b"<form>who?</form>"), media_type=media_type)
    login = await serve(nursery, {"/login": page})
    data = await serve(nursery, {path: moved(f"http://{host}:{login.port}/login")})
    policy = resolver.Policy(allow_port={data.port, login.port})
    async with resolver.Resolver(policy=policy) as session:
        response = await session.fetch(f"http://127.0.0.1:{data.port}{path}")
        direct = await session.fetch(f"http://127.0.0.1:{login.port}/login")
    result = [finding for finding in response.findings if finding.rule == "http:landed-elsewhere"]
    assert len(result) == (told and host == "localhost")
    assert all("localhost" in finding.detail for finding in result)
    assert direct.findings == ()
