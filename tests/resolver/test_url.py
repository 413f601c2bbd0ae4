"""One parser for every scheme: the corpus, the common steps, both modes, writing, hiding."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.recordings import URLS
from protocols.syntax import encode_written
from resolver import FtpUrl, InvalidUrl, Url, build, extract, parse
from resolver.url import parsing as url_module
from resolver.url.parsing import LONGEST, display, redact, without_user
from resolver.url.registry import SCHEMES
from tests.fresh import environment
from tests.protocols.url_rows import Bad, Good, check_bad, check_good
from tests.resolver.url_strategies import texts, urls
from tests.sampled import examples, sampled

CASES: list[dict[str, Any]] = [json.loads(line) for line in URLS.read_text(encoding="utf-8").splitlines()]
NO_FRAGMENT: dict[str, Any] = {"fragment": None}


def named(case: dict[str, Any]) -> str:
    return str(case.get("url", case.get("text")))[:60]


@pytest.mark.parametrize("case", [case for case in CASES if "expect" in case], ids=named)
def test_the_corpus_is_read(case: dict[str, Any]) -> None:
    check_good(Good(case["url"], case["expect"], " ".join(case["findings"])))


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case], ids=named)
def test_the_corpus_is_refused(case: dict[str, Any]) -> None:
    for strict in (False, True):
        with pytest.raises(InvalidUrl) as caught:
            parse(case["url"], strict=strict)
        assert caught.value.kind == case["error"]


def test_the_corpus_has_no_other_shape() -> None:
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
    Good("http://h/#;/?:@&=~", {"fragment": ";/?:@&=~"}),  # no scheme has a say in a fragment
    Good("http://h/" + "a" * (LONGEST - 9), {}),
]

DOUBLY_WRONG = [
    # Length, ASCII, characters, prefix, scheme, escapes: in this order.
    Bad("→", "empty"),
    Bad("é" * LONGEST + "→é", "too-long"),
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
    Bad("→<http://h/> ", "bad-char"),  # nothing is trimmed, so this is no wrapper
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
    # Then the scheme's part, authority first.
    Bad("http:→x", "no-authority"),
    Bad("nntp://h:→0/", "bad-port"),
    Bad("gopher://→1.2/%09", "bad-host"),
    Bad("<URL:gopher://h/→%09>", "bad-gophertype"),  # positions count in the text as given
]


@pytest.mark.parametrize("row", STEPS, ids=lambda row: row.text[:60])
def test_the_common_steps(row: Good) -> None:
    check_good(row)


@pytest.mark.parametrize("row", DOUBLY_WRONG, ids=lambda row: row.text[:60].encode("unicode_escape").decode())
def test_the_first_error_decides(row: Bad) -> None:
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
def test_strict_raises_the_first_finding_where_it_stands(text: str, kind: str, position: int) -> None:
    assert parse(text).findings[0] == kind
    with pytest.raises(InvalidUrl) as caught:
        parse(text, strict=True)
    assert (caught.value.kind, caught.value.position) == (kind, position)
    assert caught.value.url == parse(text).shown


def test_what_parse_adds_to_the_components() -> None:
    url = parse("<URL:HTTP://h/a#b>")
    assert (url.text, url.scheme, url.fragment) == ("<URL:HTTP://h/a#b>", "http", "b")
    assert {place.name: url.text[place.start : place.end] for place in url.places} == {
        "scheme": "HTTP",
        "fragment": "b",
        "host": "h",
        "path": "a",
    }


def test_equal_components_make_equal_urls() -> None:
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
def test_any_text_gives_a_url_or_invalid_url_in_both_modes(text: str) -> None:
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


#: Findings that stay when the components are written anew, because the components are their cause.
INHERENT = {
    *("host-syntax", "ipv6-literal", "encoded-host", "userinfo-not-allowed", "selector-control"),
    *("mailto-headers", "mailto-multiple", "news-server", "news-wildmat", "group-syntax"),
    *("field-without-value", "file-no-authority"),
}


def comparable(url: Url) -> dict[str, object]:
    """Components in the form that `build` gives them: the default port left out, a slash before a
    search, national characters escaped."""
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
def test_what_was_read_is_written_and_read_again(text: str) -> None:
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
def test_components_are_written_and_read_again(url: Url) -> None:
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
def test_urls_are_written_anew(text: str, written: str) -> None:
    assert build(parse(text)) == written


@pytest.mark.parametrize("text", ["http://h/", "ftp://h/", "file://h/"])
def test_a_fragment_that_would_be_taken_for_a_host_is_not_written(text: str) -> None:
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
def test_a_url_without_its_user(text: str, public: str) -> None:
    assert without_user(parse(text)) == public


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://h/a@b:c", "http://h/a@b:c"),
        ("ftp://u@h/", "ftp://u@h/"),
        ("ftp://u:@h/", "ftp://u:@h/"),  # nothing to hide, and it shows
        ("<URL:ftp://u:p%40@h/a@b>", "<URL:ftp://u:****@h/a@b>"),
        ("news://u:p@h/a@b", "news://u:****@h/a@b"),
        ("file://u:p@h/a", "file://u:****@h/a"),
        ("x-a://u:p@h/a", "x-a://u:****@h/a"),
        # What is no URL loses all between its scheme and the last @.
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
def test_passwords_are_cut_out(text: str, shown: str) -> None:
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
def test_no_message_shows_a_password(scheme: str, user: str, rest: str, wrong: str, strict: bool) -> None:
    text = f"{scheme}://{user}:{SECRET}{wrong}@h{rest}"
    assert SECRET not in redact(text)
    url = outcome(text, strict=strict)
    if isinstance(url, InvalidUrl):
        assert SECRET not in f"{url} {url!r} {url.message} {url.url}"
    else:
        assert SECRET not in f"{url!r} {url.shown} {display(url)} {without_user(url)}"


def test_a_built_url_is_shown_without_its_password() -> None:
    url = FtpUrl(scheme="ftp", host="h", user=b"u", password=SECRET.encode(), name=b"a")
    assert display(url) == "ftp://u:****@h/a"
    assert SECRET not in repr(url)
    assert display(replace(url, password=None)) == "ftp://u@h/a"


SMALL, LARGE = 2_500, 40_000

#: Seconds that cannot be compared, and need not be.
NEXT_TO_NOTHING = 0.03

#: A machine that stands still for a moment makes a measure too long, and never too short.
TRIES = 3


def seconds(work: Callable[[str], object], text: str) -> float:
    """Processor time of the quickest of some runs, of this thread alone."""
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
    """Sixteen times the text takes at most about sixteen times as long; 256 times would be quadratic."""
    small, large = (start + piece * (size // len(piece)) + end for size in (SMALL, LARGE))
    took = seconds(work, large)
    return took < NEXT_TO_NOTHING or took < 64 * seconds(work, small)


def test_the_measure_finds_quadratic_work() -> None:
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
#: A piece of each scheme's.
TRIED = sampled([(start, piece) for start, pieces in LONG for piece in pieces], lambda row: row[0])


@pytest.mark.parametrize(("start", "piece"), TRIED)
@pytest.mark.slow
def test_long_texts_are_read_in_linear_time(start: str, piece: str) -> None:
    assert grows_linearly(parse_and_build, start, piece)


@pytest.mark.parametrize(
    ("start", "pieces", "end"),
    [
        ("", ["<", "<URL:", ">", "<>", "-\n", "<x:-\n>", "<URL:x:a-\n>"], ""),
        ("<URL:http://h/", ["-\n", "a-\n", "- ", " ", "\n"], ">"),
    ],
)
def test_long_texts_are_searched_in_linear_time(start: str, pieces: list[str], end: str) -> None:
    assert [piece for piece in pieces if not grows_linearly(extract, start, piece, end)] == []


def test_reading_a_url_loads_nothing_heavy() -> None:
    program = (
        "import sys, resolver.url.parsing, resolver.url.parsing, resolver.url.parsing;"
        "[resolver.url.parsing.parse(text) for text in ('http://h/', 'mailto:a@b', 'news:a')];"
        "heavy = {'trio', 'httpx', 'idna', 'ssl', 'asyncio', 'email', 'ipaddress', 'importlib.metadata'};"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    root = Path(url_module.__file__).parents[1]
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=root, env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
