"""The parser of all schemes: corpus, common steps, strict mode, `build`, passwords, joins, extraction."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import httpx2
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import resolver
from fixtures.http import ABOUT, serve
from fixtures.recordings import URLS
from protocols.syntax import encode_written
from resolver import Extracted, FtpUrl, InvalidUrl, Resolver, Url, build, extract, parse
from resolver.url import parsing as url_module
from resolver.url.extraction import MAX_ALTERNATES
from resolver.url.parsing import (
    MAX_URL,
    UrlLike,
    join,
    make_url,
    redact,
    strip_user,
)
from resolver.url.registry import SCHEMES
from tests.fresh import environment
from tests.protocols.url_rows import Bad, Good, check_bad, check_good
from tests.resolver.url_strategies import texts, urls
from tests.sampled import examples, sampled

CASES: list[dict[str, Any]] = [json.loads(line) for line in URLS.read_text(encoding="utf-8").splitlines()]


def named(case: dict[str, Any]) -> str:
    return str(case.get("url", case.get("text")))[:60]


@pytest.mark.parametrize("case", [case for case in CASES if "expect" in case], ids=named)
def test_parse_corpus_returns_expected_components(case: dict[str, Any]) -> None:
    check_good(Good(case["url"], case["expect"], " ".join(case["findings"])))


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case], ids=named)
def test_parse_corpus_raises_expected_errors(case: dict[str, Any]) -> None:
    for strict in (False, True):
        with pytest.raises(InvalidUrl) as caught:
            parse(case["url"], strict=strict)
        assert caught.value.kind == case["error"]


def test_corpus_has_only_known_shapes() -> None:
    assert all(len({"expect", "error", "urls"} & case.keys()) == 1 for case in CASES)
    assert len(CASES) > 150


STEPS = [
    Good("hTTp://h/", {"scheme": "http"}),
    Good("uRl:http://h/", {"scheme": "http"}),
    Good("<http://h/>", {"path": ""}, "wrapper"),
    Good("<url:http://h/#f>", {"fragment": "f"}, "wrapper"),
    Good("<URL:x:>", {"scheme": "x", "schemepart": ""}, "wrapper"),
    Good("http://h/#", {"fragment": ""}),
    Good("http://h/#%41", {"fragment": "%41"}),  # as written
    Good("http://h/#a#b##", {"fragment": "a#b##"}, "unsafe-char"),
    Good("http://h/#;/?:@&=~", {"fragment": ";/?:@&=~"}),  # no scheme restricts its fragment
    Good("http://h/" + "a" * (MAX_URL - 9), {}),
]

DOUBLY_WRONG = [
    # Checks in this order: length, ASCII, characters, prefix, scheme, escapes.
    Bad("→", "empty"),
    Bad("é" * MAX_URL + "→é", "too-long"),
    Bad(" http://h/→é", "non-ascii"),
    Bad("<→>", "empty"),
    Bad("<URL:→>", "empty"),
    Bad("URL:→", "empty"),
    Bad("<→<http://h/>>", "bad-char"),
    Bad("<http://h/→>>", "bad-char"),
    Bad("→<", "bad-char"),
    Bad("→>", "bad-char"),
    Bad("→<http://h/", "bad-char"),
    Bad("http://h/→>", "bad-char"),
    Bad("→<http://h/> ", "bad-char"),  # nothing is trimmed: not a wrapper
    Bad("URL:→ http://h/", "bad-char"),
    *(Bad(f"h_ttp://h/→{octet}x", "bad-char") for octet in '\x00\x1f\x7f\t\n\r "'),
    Bad("http://h/#→ ", "bad-char"),
    Bad("→h%zz", "no-scheme"),
    Bad("→h/x:y%", "no-scheme"),
    Bad("→?x:y", "no-scheme"),
    Bad("→#x:y", "no-scheme"),
    Bad("URL:→//h", "no-scheme"),
    Bad("→:x", "bad-scheme"),
    Bad("→1a:%", "bad-scheme"),
    Bad("→-a:x", "bad-scheme"),
    Bad("→+a:x", "bad-scheme"),
    Bad("→.a:x", "bad-scheme"),
    Bad("a→_b:%", "bad-scheme"),
    Bad("a→%62:x", "bad-scheme"),
    Bad("URL:→url:x", "bad-scheme"),
    Bad("<URL:→URL:http://h/>", "bad-scheme"),
    Bad("URL:→url://h", "bad-scheme"),
    Bad("a" * 64 + "→b:c", "bad-scheme"),
    Bad("URL:" + "a" * 64 + "→" + "b" * 60_000 + ":c", "bad-scheme"),
    Bad("http:→%", "bad-escape"),
    Bad("http:x→%4", "bad-escape"),
    Bad("http:x→%g0", "bad-escape"),
    Bad("http:x→%0g", "bad-escape"),
    Bad("http://h/%41#→%4", "bad-escape"),
    Bad("<http://h/→%4>", "bad-escape"),
    Bad("x-foo:→%", "bad-escape"),
    # Then the scheme-specific part, authority first.
    Bad("http:→x", "no-authority"),
    Bad("nntp://h:→0/", "bad-port"),
    Bad("gopher://→1.2/%09", "bad-host"),
    Bad("<URL:gopher://h/→%09>", "bad-gophertype"),  # positions count in the text as given
]


@pytest.mark.parametrize("row", STEPS, ids=lambda row: row.text[:60])
def test_parse_common_steps(row: Good) -> None:
    check_good(row)


@pytest.mark.parametrize("row", DOUBLY_WRONG, ids=lambda row: row.text[:60].encode("unicode_escape").decode())
def test_parse_reports_first_error(row: Bad) -> None:
    check_bad(row)


@pytest.mark.parametrize(
    ("text", "kind", "position"),
    [
        ("<http://u:p:q@a_b/>", "wrapper", 0),
        ("URL:http://u@a_b:/", "userinfo-not-allowed", 11),
        ("ftp://u:p:q@h/", "userinfo-colon", 9),
        ("http://h:/", "empty-port", 8),
        ("http://a_b/~", "host-syntax", 7),
        ("http://a%2Db/", "encoded-host", 8),
        ("http://[::1]/", "ipv6-literal", 7),
        ("http://h?x", "missing-slash", 8),
        ("file://h", "missing-slash", 8),
        ("file:/x", "file-no-authority", 5),
        ("ftp://h/a;b~", "reserved-char", 9),
        ("ftp://h/a~b;", "unsafe-char", 9),
        ("ftp://h/a;type=x", "bad-typecode", 9),
        ("telnet://h/x", "telnet-path", 11),
        ("gopher://h/0a%0A", "selector-control", 13),
        ("mailto:a@b?c", "mailto-headers", 10),
        ("mailto:a@b,c@d", "mailto-multiple", 7),
        ("news://h/a", "news-server", 5),
        ("news:a.*", "news-wildmat", 5),
        ("news:a%2Eb", "group-syntax", 6),
        ("prospero://h/a;b", "field-without-value", 15),
        ("http://h/#a#", "unsafe-char", 11),
    ],
)
def test_parse_strict_raises_first_finding_at_its_position(text: str, kind: str, position: int) -> None:
    assert parse(text).findings[0] == kind
    with pytest.raises(InvalidUrl) as caught:
        parse(text, strict=True)
    assert (caught.value.kind, caught.value.position) == (kind, position)
    assert caught.value.url == parse(text).shown


def test_parse_adds_text_scheme_fragment_and_positions() -> None:
    url = parse("<URL:HTTP://h/a#b>")
    assert (url.text, url.scheme, url.fragment) == ("<URL:HTTP://h/a#b>", "http", "b")
    assert {place.name: url.text[place.start : place.end] for place in url.places} == {
        "scheme": "HTTP",
        "fragment": "b",
        "host": "h",
        "path": "a",
    }


def test_urls_with_equal_components_are_equal() -> None:
    assert parse("ftp://H/%61") == parse("<ftp://h/a>")
    assert parse("ftp://h/a") != parse("ftps://h/a")
    assert len({parse("ftp://h/a"), parse("ftp://h/%61"), parse("ftp://h/b")}) == 2


def outcome(text: str, *, strict: bool = False) -> Url | InvalidUrl:
    try:
        return parse(text, strict=strict)
    except InvalidUrl as error:
        return error


@given(texts)
@settings(max_examples=examples(600))
@pytest.mark.slow
def test_parse_any_text_returns_url_or_invalid_url(text: str) -> None:
    leniently, strictly = outcome(text), outcome(text, strict=True)
    if isinstance(leniently, InvalidUrl):
        assert isinstance(strictly, InvalidUrl)
        assert 0 <= leniently.position <= len(text)
        assert (strictly.kind, strictly.position) == (leniently.kind, leniently.position)
        return
    assert all(0 <= place.start <= place.end <= len(text) for place in leniently.places)
    if isinstance(strictly, InvalidUrl):
        assert strictly.kind == leniently.findings[0]
    else:
        assert strictly == leniently
        assert leniently.findings == ()


#: Findings that remain in a rebuilt URL, because the components cause them.
INHERENT = {
    *("host-syntax", "ipv6-literal", "encoded-host", "userinfo-not-allowed", "selector-control"),
    *("mailto-headers", "mailto-multiple", "news-server", "news-wildmat", "group-syntax"),
    *("field-without-value", "file-no-authority"),
}


def comparable(url: Url) -> dict[str, object]:
    """Return the components in the form that `build` gives them.

    The default port is left out, a search gets a slash before it, and national characters are escaped.
    """
    parts: dict[str, object] = dict(url.components())
    if parts.get("port") == parts.get("default_port"):
        parts["port"] = None
    if "path" in parts and parts["search"] is not None:
        parts["path"] = parts["path"] or ""
    for name in {"path", "search", "wpath", "schemepart", "fragment"} & parts.keys():
        written = getattr(url, name)
        if isinstance(written, str) and written:
            parts[name] = encode_written(name, written, ";/?:@&=#")
    return parts


@given(texts)
@settings(max_examples=examples(400))
@pytest.mark.slow
def test_build_of_parsed_url_parses_to_same_components(text: str) -> None:
    url = outcome(text)
    if isinstance(url, InvalidUrl):
        return
    again = parse(build(url))
    assert comparable(again) == comparable(url)
    assert build(again) == build(url)
    kept = {"reserved-char", "missing-slash", "unsafe-char"} & set(url.findings)
    assert set(again.findings) <= INHERENT | kept


@given(urls)
@settings(max_examples=examples(600))
@pytest.mark.slow
def test_build_of_components_parses_to_same_url(url: Url) -> None:
    again = parse(build(url))
    assert again == url
    allowed = INHERENT | ({"missing-slash"} if url.scheme == "file" else set())
    allowed |= {"reserved-char"} if url.scheme == "wais" else set()
    assert set(again.findings) <= allowed


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("<URL:FTP://h:21/a>", "ftp://h/a"),
        ("http://h?q", "http://h/?q"),
        ("http://@h:/~a", "http://@h/%7Ea"),
        ("ftp://u:@h/", "ftp://u:@h/"),
        ("ftp://u:a:b@h/", "ftp://u:a%3Ab@h/"),
        ("ftp://h/a;type=x", "ftp://h/a%3Btype=x"),
        ("x-a:b~#c~", "x-a:b%7E#c%7E"),
        ("telnet://h/x", "telnet://h/"),
        ("http://h/a#b#c", "http://h/a#b#c"),
    ],
)
def test_build_normalizes_urls(text: str, written: str) -> None:
    assert build(parse(text)) == written


@pytest.mark.parametrize("text", ["http://h/", "ftp://h/", "file://h/"])
def test_build_refuses_fragment_that_reads_as_host(text: str) -> None:
    url = replace(parse(f"{text}#@evil.example"), text="")
    absent: dict[str, dict[str, Any]] = {
        "http://h/": {"path": None},
        "ftp://h/": {"name": None},
        "file://h/": {"segments": ()},
    }
    assert build(url) == f"{text}#@evil.example"
    with pytest.raises(InvalidUrl, match="ambiguous-authority"):
        build(replace(url, **absent[text]))


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("ftp://u:p@h:2121/a;type=i#f", "ftp://h:2121/a;type=i"),
        ("news://u:p@h/a", "news://h/a"),
        ("file://u@h/a", "file://h/a"),
        ("mailto:a@b#f", "mailto:a@b"),
        ("x-a://u:p@h/b#c", "x-a://h/b"),
        ("http://u@h/?x#y", "http://h/?x"),
    ],
)
def test_strip_user_removes_user_and_fragment(text: str, public: str) -> None:
    assert strip_user(parse(text)) == public


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://h/a@b:c", "http://h/a@b:c"),
        ("ftp://u@h/", "ftp://u@h/"),
        ("ftp://u:@h/", "ftp://u:@h/"),  # an empty password is shown: there is nothing to hide
        ("<URL:ftp://u:p%40@h/a@b>", "<URL:ftp://u:****@h/a@b>"),
        ("news://u:p@h/a@b", "news://u:****@h/a@b"),
        ("file://u:p@h/a", "file://u:****@h/a"),
        ("x-a://u:p@h/a", "x-a://u:****@h/a"),
        # An invalid URL loses everything between its scheme and the last @.
        ("ftp://u:p@ss@host/", "ftp://****@host/"),
        ("<URL:ftp://u:p@ss@host/>", "<URL:ftp://****@host/>"),
        (" ftp://u:p@host/", "****@host/"),
        ("ftp:u:p@host", "ftp:****@host"),
        ("u:p@host", "u:p@host"),
        ("/x@y", "/****@y"),
        ("http://h/ x", "http://h/ x"),
        ("", ""),
    ],
)
def test_redact_hides_passwords(text: str, shown: str) -> None:
    assert redact(text) == shown


SECRET = "s3cr3t"


@given(
    st.sampled_from([*sorted(set(SCHEMES) - {"mailto"}), "x-a"]),
    st.sampled_from(["", "a", "a:b", "%41"]),
    st.sampled_from(["/", "/a", "", "/a?b", "/a#@b", ":0/", "/%zz", "?@", "#@", "/\x00"]),
    st.sampled_from([" ", "\n", "é", '"', "@", "\\", ""]),
    st.booleans(),
)
@settings(max_examples=examples(400))
@pytest.mark.slow
def test_messages_do_not_show_passwords(scheme: str, user: str, rest: str, wrong: str, strict: bool) -> None:
    text = f"{scheme}://{user}:{SECRET}{wrong}@h{rest}"
    assert SECRET not in redact(text)
    url = outcome(text, strict=strict)
    if isinstance(url, InvalidUrl):
        assert SECRET not in f"{url} {url!r} {url.message} {url.url}"
    else:
        assert SECRET not in f"{url!r} {url.shown} {redact(build(url))} {strip_user(url)}"


def test_redact_of_built_url_hides_password() -> None:
    url = FtpUrl(scheme="ftp", host="h", user=b"u", password=SECRET.encode(), name=b"a")
    assert redact(build(url)) == "ftp://u:****@h/a"
    assert SECRET not in repr(url)
    assert redact(build(replace(url, password=None))) == "ftp://u@h/a"


SMALL, LARGE = 2_500, 40_000

#: Shorter times in seconds are too inexact to compare, and need no comparison.
NEXT_TO_NOTHING = 0.03

#: A machine that pauses makes a measurement too long, and never too short.
TRIES = 3


def seconds(work: Callable[[str], object], text: str) -> float:
    """Return the minimum processor time of several runs, of this thread alone."""
    times = []
    for _ in range(TRIES):
        started = time.thread_time()
        with suppress(InvalidUrl):
            work(text)
        times.append(time.thread_time() - started)
        if times[-1] < NEXT_TO_NOTHING / 100:
            break
    return min(times)


def grows_linearly(work: Callable[[str], object], start: str, piece: str, end: str = "") -> bool:
    """Return whether 16 times the text takes about 16 times as long at most; quadratic work takes 256."""
    small, large = (start + piece * (size // len(piece)) + end for size in (SMALL, LARGE))
    took = seconds(work, large)
    return took < NEXT_TO_NOTHING or took < 64 * seconds(work, small)


def test_linearity_check_detects_quadratic_work() -> None:
    assert not grows_linearly(lambda text: [text.count("ab", at) for at in range(0, len(text), 8)], "", "a")


def parse_and_build(text: str) -> None:
    build(parse(text))


LONG = [
    ("ftp://h/", ["%41", "/", ";", "@", "~", ";type="]),
    ("ftp://u:", [":", "%40", "@"]),
    ("http://", ["a.", "%41", "@", "-", "1.", "\\", "0"]),
    ("http://h/", ["%7E", "?", "~", "#"]),
    ("gopher://h/0", ["%09", "%0D", "?"]),
    ("mailto:", ["a@b,", "%22", "@", "%22a"]),
    ("mailto:a@b?", ["&", "a=b&", "="]),
    ("news:", ["%61", "a", "*", "a@"]),
    ("news:a@", ["-", "%2D", "a-."]),
    ("nntp://h/a/", ["0", "/"]),
    ("wais://h/", ["/", "%41", ";"]),
    ("file:///", ["/", "%00/"]),
    ("prospero://h/a", [";", ";a=b", "=", "/"]),
    ("x-a://", ["@", ":", "%41"]),
    ("", ["a", "+", ":", "%", "<", "URL:"]),
]
#: A segment of each scheme.
TRIED = sampled([(start, piece) for start, pieces in LONG for piece in pieces], lambda row: row[0])


@pytest.mark.parametrize(("start", "piece"), TRIED)
@pytest.mark.slow
def test_parse_and_build_take_linear_time(start: str, piece: str) -> None:
    assert grows_linearly(parse_and_build, start, piece)


@pytest.mark.parametrize(
    ("start", "pieces", "end"),
    [
        ("", ["<", "<URL:", ">", "<>", "-\n", "<x:-\n>", "<URL:x:a-\n>"], ""),
        ("<URL:http://h/", ["-\n", "a-\n", "- ", " ", "\n"], ">"),
    ],
)
def test_extract_takes_linear_time(start: str, pieces: list[str], end: str) -> None:
    assert [piece for piece in pieces if not grows_linearly(extract, start, piece, end)] == []


def test_parse_does_not_import_heavy_modules() -> None:
    program = (
        "import sys, resolver.url.parsing, resolver.url.parsing, resolver.url.parsing;"
        "[resolver.url.parsing.parse(text) for text in ('http://h/', 'mailto:a@b', 'news:a')];"
        "heavy = {'trio', 'httpx', 'httpx2', 'idna', 'ssl', 'asyncio', 'email', 'ipaddress'};"
        "heavy.add('importlib.metadata');"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    root = Path(url_module.__file__).parents[1]
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=root, env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# Types that may name a URL, and the error for other types.


class AFile:
    """A path that is not a pathlib object."""

    def __init__(self, path: str | bytes) -> None:
        self._path = path

    def __fspath__(self) -> str | bytes:
        return self._path


class Own(httpx.URL):
    """A subclass of httpx.URL."""


@pytest.mark.parametrize("made", [str, httpx.URL, httpx2.URL, resolver.parse, Own])
async def test_session_accepts_url_types(
    made: Callable[[str], UrlLike], nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery)
    url = made(server.url("/about.txt?a%2Fb"))
    shown = server.url("/about.txt?a%2Fb")
    async with Resolver() as session:
        assert (await session.fetch(url)).requested_url == shown
        assert (await session.info(url)).url == shown
        saved = await session.save(server.url("/missing"), tmp_path / "file", mirrors=[url])
    assert (saved.mirror, (tmp_path / "file").read_bytes()) == (shown, ABOUT)
    assert (await resolver.fetch(url)).content == ABOUT
    async with resolver.stream(url) as reply:
        assert reply.requested_url == shown


@pytest.mark.parametrize("name", ["a", "a b%41;type=a?#é", os.fsdecode(b"\xff")])
@pytest.mark.parametrize("made", [Path, AFile, lambda path: AFile(os.fsencode(path))])
async def test_path_object_is_a_file_url(
    name: str, made: Callable[[str], os.PathLike[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_bytes(b"here")
    monkeypatch.chdir(tmp_path)
    for path in (str(tmp_path / name), name, f"../{tmp_path.name}/{name}"):
        assert (await resolver.fetch(made(path))).content == b"here"


async def test_path_object_is_checked_by_policy(tmp_path: Path) -> None:
    with pytest.raises(resolver.Refused, match="S12"):
        await resolver.fetch(tmp_path, policy=resolver.Policy.untrusted())


@pytest.mark.parametrize("wrong", [b"http://h.example/", None, 7, urlsplit("http://h.example/"), ["http:"]])
def test_url_of_unsupported_type_raises_type_error(wrong: UrlLike) -> None:
    with pytest.raises(TypeError, match=rf"^a URL .* {type(wrong).__name__!r}$"):
        make_url(wrong)


def test_url_of_strict_applies_to_text_and_httpx_urls() -> None:
    assert make_url("HTTP://h.example/").findings == ()
    for text in ("http://h.example/{", httpx.URL("http://h.example/")):
        make_url(text)
    with pytest.raises(resolver.InvalidUrl):
        make_url("http://h.example/{", strict=True)


def test_url_of_does_not_import_httpx() -> None:
    use = "from resolver.url.parsing import make_url; make_url('http://h/')"
    code = f"import sys; {use}; assert not sys.modules.keys() & {{'httpx', 'httpx2'}}"
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())


# References against a base (RFC 3986 5.2 to 5.4).

BASE = "http://a/b/c/d;p?q"


@pytest.mark.parametrize(
    ("reference", "joined"),
    [
        ("http://x/y", "http://x/y"),
        ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g"),
        ("//g/x/../y?z", "http://g/y?z"),
        ("?y", "http://a/b/c/d;p?y"),
        ("?", "http://a/b/c/d;p?"),
        ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q#s"),
        ("g#s", "http://a/b/c/g#s"),
        ("g?y#s", "http://a/b/c/g?y#s"),
        (";x", "http://a/b/c/;x"),
        ("", "http://a/b/c/d;p?q"),
        (".", "http://a/b/c/"),
        ("./", "http://a/b/c/"),
        ("..", "http://a/b/"),
        ("../", "http://a/b/"),
        ("../g", "http://a/b/g"),
        ("../..", "http://a/"),
        ("../../g", "http://a/g"),
        # Above the root the path is empty.
        ("../../../g", "http://a/g"),
        ("/../g", "http://a/g"),
        # Names that only look like dot segments.
        ("g.", "http://a/b/c/g."),
        (".g", "http://a/b/c/.g"),
        ("..g", "http://a/b/c/..g"),
        ("%2e%2e/g", "http://a/b/c/%2e%2e/g"),
        # Dots in the middle; dots in a search or fragment are not segments.
        ("./../g", "http://a/b/g"),
        ("./g/.", "http://a/b/c/g/"),
        ("g/./h", "http://a/b/c/g/h"),
        ("g/../h", "http://a/b/c/h"),
        ("g;x=1/../y", "http://a/b/c/y"),
        ("g#s/../x", "http://a/b/c/g#s/../x"),
    ],
)
def test_join_resolves_references_of_rfc_3986(reference: str, joined: str) -> None:
    assert build(join(parse(BASE), reference)) == joined


@pytest.mark.parametrize(
    ("base", "reference", "joined"),
    [
        ("http://a", "g", "http://a/g"),
        ("http://a", "?y", "http://a/?y"),
        ("http://a", "", "http://a"),
        ("http://a?q", "", "http://a/?q"),
        ("https://a:8443/x", "/y", "https://a:8443/y"),
        ("https://a/x", "//b", "https://b"),
        ("http://[::1]:81/x", "y", "http://[::1]:81/y"),
        ("<http://a/b>", "c", "http://a/c"),
        # User information is dropped; the fragment is kept unless the reference has one.
        ("http://u:p@a/b", "c", "http://a/c"),
        ("http://a/b#f", "c", "http://a/c#f"),
        ("http://a/b#f", "http://x/", "http://x/#f"),
        ("http://a/b#f", "c#", "http://a/c#"),
        ("http://a/b", "ftp://u:p@h/", "ftp://u:p@h/"),
    ],
)
def test_join_keeps_or_drops_parts_of_the_base(base: str, reference: str, joined: str) -> None:
    assert build(join(parse(base), reference)) == joined


@pytest.mark.parametrize(
    ("reference", "kind"),
    [
        ("http:g", "no-authority"),
        ("//", "no-host"),
        ("///x", "no-host"),
        ("//h@i@j/", "ambiguous-authority"),
        ("a b", "bad-char"),
        (" /x", "bad-char"),
        ("/é", "non-ascii"),
        ("/%", "bad-escape"),
        ("//1.2/", "bad-host"),
        ("//h:0/", "bad-port"),
    ],
)
def test_join_does_not_repair_references(reference: str, kind: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        join(parse(BASE), reference)
    assert caught.value.kind == kind


@given(texts)
def test_join_any_reference_returns_url_or_invalid_url(reference: str) -> None:
    try:
        joined = join(parse(BASE), reference)
    except InvalidUrl:
        return
    if not reference[:1].isalpha() and not reference.startswith(("//", "<")):
        assert (joined.scheme, joined.components()["host"]) == ("http", "a")


# Wrapped URLs in running text (RFC 1738, appendix).

EXTRACTION_CASES: list[dict[str, Any]] = [
    case for line in URLS.read_text(encoding="utf-8").splitlines() if "urls" in (case := json.loads(line))
]


@pytest.mark.parametrize("case", EXTRACTION_CASES, ids=lambda case: case["text"][:50])
def test_extract_finds_urls_of_the_corpus(case: dict[str, Any]) -> None:
    found = extract(case["text"])
    assert [one.url for one in found] == case["urls"]
    expected = case.get("alternates", [[]] * len(case["urls"]))
    assert [set(one.alternates) for one in found] == [set(alternates) for alternates in expected]


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("", []),
        ("no wrapper: http://h/", []),
        ("<>", []),
        ("<URL:>", []),
        ("<URL:x>", []),
        ("<URL:/x:y>", []),
        ("<URL:1x:y>", []),
        ("<URL:URL:http://h/>", []),  # `url` is not a scheme
        ("<url:x:>", ["x:"]),
        ("<URL:x-foo:a b>", ["x-foo:ab"]),
        ("<UR\nL:x:y>", ["x:y"]),
        ("< uRl : x:y >", ["x:y"]),
        # Without the prefix only a built-in scheme counts.
        *((f"<{scheme}:x>", [f"{scheme}:x"]) for scheme in SCHEMES),
        ("<HTTP://h/>", ["HTTP://h/"]),
        ("<x-foo:a>", []),
        ("<afs:a>", []),
        ("<localhost:80>", []),
        ("<httpx:a>", []),
        ("<http>", []),
        ("<joe@h.example>", []),
        ('<a href="http://h/">', []),
        ("<ht tp : //h>", ["http://h"]),
        # A `<` always starts over; a `>` ends.
        ("<http://h/<URL:x:y>>", ["x:y"]),
        ("<http://a/><http://b/>", ["http://a/", "http://b/"]),
        ("> <http://a/", []),
        ("<<<http://a/>>>", ["http://a/"]),
        # All whitespace is removed; escapes stay; nothing is parsed.
        ("<http://h/ \t a\r\n\x0b\x0c b%20c%0A>", ["http://h/ab%20c%0A"]),
        ('<http://h/é"%zz>', ['http://h/é"%zz']),
    ],
)
def test_extract_finds_wrapped_urls(text: str, urls: list[str]) -> None:
    assert [found.url for found in extract(text)] == urls
    assert all(found.alternates == () for found in extract(text))


@pytest.mark.parametrize(
    ("text", "url", "alternates"),
    [
        ("<URL:x:a-\nb>", "x:a-b", {"x:ab"}),
        ("<URL:x:a-\rb>", "x:a-b", {"x:ab"}),
        ("<URL:x:a- \t\r\n b>", "x:a-b", {"x:ab"}),
        ("<URL:x:a- b>", "x:a-b", set()),  # blanks only
        ("<URL:x:a -b>", "x:a-b", set()),
        ("<URL:x:a\n-b>", "x:a-b", set()),  # the line ends before the hyphen
        ("<URL:x:a-b\n>", "x:a-b", set()),
        ("<URL:x:a%2D\nb>", "x:a%2Db", set()),
        ("<URL:x:a-\n>", "x:a-", {"x:a"}),
        ("<URL:x:a--\nb>", "x:a--b", {"x:a-b"}),
        ("<URL:x:a-\n-\nb>", "x:a--b", {"x:a-b", "x:ab"}),
        (
            "<URL:x:-\na-\nb>",
            "x:-a-b",
            {"x:a-b", "x:-ab", "x:ab"},
        ),
        ("<URL:x-\ny:a>", "x-y:a", {"xy:a"}),
        ("<http://a/b-\nc>", "http://a/b-c", {"http://a/bc"}),
    ],
)
def test_extract_returns_alternates_for_line_end_hyphens(text: str, url: str, alternates: set[str]) -> None:
    (found,) = extract(text)
    assert found.url == url
    assert set(found.alternates) == alternates
    assert len(found.alternates) == len(alternates)


def test_extract_bounds_the_number_of_alternates() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    (six,) = extract("<URL:x:" + "-\n".join(letters[:7]) + ">")
    (many,) = extract("<URL:x:" + "-\n".join(letters) + ">")
    assert len(six.alternates) == 2**6 - 1 == MAX_ALTERNATES
    assert len(many.alternates) == MAX_ALTERNATES
    singly = {f"x:{'-'.join(letters)}".replace(f"{letter}-", letter) for letter in letters[:-1]}
    assert singly <= set(many.alternates)  # the fewest drops come first


def test_extract_returns_positions() -> None:
    text = "a <b> <URL:x:y> <http://h/>"
    assert extract(text) == [Extracted("x:y", (), 6), Extracted("http://h/", (), 16)]


@given(st.text(st.sampled_from("<>URLurl:http/x-\n \r@é"), max_size=60))
def test_extract_accepts_any_text(text: str) -> None:
    for found in extract(text):
        assert text[found.position] == "<"
        assert not set("<> \r\n") & set("".join([found.url, *found.alternates]))
        assert all(found.url.replace("-", "") == other.replace("-", "") for other in found.alternates)
