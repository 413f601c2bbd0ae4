"""Sanitized markup: untrusted HTML and XML, rewritten so that no host is named."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver.web.pages.sanitizer import allowed_markup

LOADING = re.compile(
    "applet|audio|base|embed|feimage|fencedframe|form|frame|frameset|iframe|input|link|meta|object|portal"
    "|script|source|track|video"
)
WITH_A_URL = re.compile("action|background|cite|data|formaction|on.*|ping|poster|srcdoc|srcset")


def page(markup: str, *, is_xml: bool = False) -> str:
    return allowed_markup(markup, is_xml=is_xml).removeprefix("<!doctype html>\n")


class Reader(HTMLParser):
    """The tags that a browser finds in the markup."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def assert_names_nothing_elsewhere(markup: str) -> None:
    """Check the markup for a parser of HTML, and for one that reads each `<` as the start of a tag."""
    assert not any(map(LOADING.fullmatch, re.findall("</?([^\\s/>]*)", markup)))
    for tag, values in Reader(markup).tags:
        assert not LOADING.fullmatch(tag)
        assert not any(map(WITH_A_URL.fullmatch, values))
        for name in ("href", "src"):
            if (value := values.get(name)) is not None:
                assert value.startswith("#") or (tag in ("img", "image") and value.startswith("data:image/"))


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<p CLASS=a onclick=x>one</p>", '<p class="a">one</p>'),
        ("<p title='a\"b>c'>x", '<p title="a&quot;b&gt;c">x'),
        ("1 < 2 &amp; &lt;iframe>", "1 &lt; 2 &amp; &lt;iframe>"),
        ('<a href="http://h/?a&amp;b">x</a>', '<a title="http://h/?a&amp;b">x</a>'),
        ('<a href="http://h/" title="t">x</a>', '<a title="t">x</a>'),
        ('<a href="#x">x</a>', '<a href="#x">x</a>'),
        ('<a href="data:image/png,x">x</a>', '<a title="data:image/png,x">x</a>'),
        ('<img alt="a" src="http://h/" srcset="u">', '<img alt="a">'),
        ('<img src="data:image/gif;base64,R0">', '<img src="data:image/gif;base64,R0">'),
        ('<img src="data:text/html,x">', "<img>"),
        ("a<script>if (1<2) '<p>'</script>b<iframe>c</iframe>d", "abd"),
        ("<style>p>a{}</style><style>@x '<iframe>'", "<style>p>a{}</style><style>@x '\\3c iframe>'</style>"),
        ("<noscript><p>x</noscript><object>y</object>", "<p>xy"),
        ("<!-- <p> -->a<!-->b<!doctype x><?x?>c</ >d", "abcd"),
        ("a<p", "a"),
        ('a<p title="x>y', "a"),
        ("a<!-- x", "a"),
        ("a<title>x", "a"),
        (
            '<svg viewBox="0 0 9 9"><path d="M0"/><p>x</svg><p>',
            '<svg viewbox="0 0 9 9"><path d="M0"></path>x</svg><p>',
        ),
        (
            "<svg><foreignObject><p>x</foreignObject><metadata><li>y</metadata><rect/>",
            "<svg><foreignobject><p>x</foreignobject><rect></rect>",
        ),
        ('<svg><use xlink:href="#x"/><image href="http://h/"/>', '<svg><use href="#x"></use><image></image>'),
        ("<p/>x<br/>", "<p>x<br>"),
        ("<svg/><p>x", "<svg></svg><p>x"),
    ],
)
def test_allowed_markup_of_html_keeps_only_allowed_items(markup: str, expected: str) -> None:
    assert page(markup) == expected


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ('<?xml version="1.0"?><svg:svg><svg:g/></svg:svg>', "<svg><g></g></svg>"),
        ("<svg><style><![CDATA[a>b{}]]></style></svg>", "<svg><style>a>b{}</style></svg>"),
        ("<svg><style>a&gt;b{}</style></svg>", "<svg><style>a>b{}</style></svg>"),
        ("<s:svg><s:style>x</s:style><s:g/></s:svg>", "<svg><style>x</style><g></g></svg>"),
        ("<p>a<![CDATA[<iframe>&lt;]]>b</p>", "<p>a&lt;iframe&gt;&amp;lt;b</p>"),
        ("<p>a<![CDATA[<iframe>", "<p>a&lt;iframe&gt;"),
        ("<div/><script/>x<h:iframe src='u'/>", "<div></div>x"),
        ("<rss><title>x</title><item>y</item></rss>", "y"),
    ],
)
def test_allowed_markup_of_xml_keeps_only_allowed_items(markup: str, expected: str) -> None:
    assert page(markup, is_xml=True) == expected


#: Pieces that tokenizers disagree about, in any order.
PIECES = st.lists(
    st.sampled_from(
        [
            *("<", ">", "/", "=", " ", '"', "'", "<!--", "-->", "--!>", "<![CDATA[", "]]>", "<?", "\x00"),
            *("iframe", "<iframe ", "</iframe>", "src=", "http://h/", "<p ", "<svg>", "</svg>", "<math>"),
            *("<style>", "</style>", "<title>", "</title>", "<textarea>", "<noscript>", "<template>", "#"),
            *("<foreignObject>", "<plaintext>", "<img ", "<a ", "href=", "srcdoc=", "onload=", "&lt;"),
            *("<frameset>", "<frame ", "<link ", "<script>", "</script>", "<desc>", "<xmp>", "<table>"),
            "data:image/x,",
        ]
    ),
    max_size=40,
)


@given(PIECES, st.booleans())
def test_allowed_markup_names_no_host(pieces: list[str], is_xml: bool) -> None:
    parsed = page("".join(pieces), is_xml=is_xml)
    assert_names_nothing_elsewhere(parsed)
    again = page(parsed)
    assert_names_nothing_elsewhere(again)


def test_allowed_markup_escapes_starts_of_elements() -> None:
    """A browser may parse any of these places as text or markup: each `<` starts a tag of the sanitizer."""
    inside = "<iframe src=http://h/>"
    for markup in (
        f"<p title='{inside}'>",
        f"<style>{inside}</style>",
        f"<![CDATA[{inside}]]>",
        f"<{inside}",
    ):
        for is_xml in (False, True):
            assert "<iframe" not in page(markup, is_xml=is_xml)
