"""An HTML sanitizer. It rewrites untrusted HTML, SVG and XML without references to other hosts.

The Content-Security-Policy of a document (`headers.make_content_headers`) blocks network requests, but for
frames it takes effect too late. Chromium 156 connects to the host of an `iframe` or a `frame` before it
applies the Content-Security-Policy. Chromium 156 also connects too early for frames in SVG, XML, `srcdoc`,
`noscript` and shadow trees. In a measurement, 11 of 71 kinds of references to a host caused a connection.

So the document is rewritten with only the allowed elements and attributes below. Text and attribute values
are escaped. Even if the browser parses the original document differently (mutation XSS), the output has only
allowed elements.

The input is parsed in one pass without backtracking, like in the HTML tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from resolver.web.pages.text import plain


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_ELEMENTS = _names(
    """
    a abbr acronym address article aside b bdi bdo big blockquote body br caption center cite code col
    colgroup dd del details dfn dir div dl dt em fieldset figcaption figure font footer h1 h2 h3 h4 h5
    h6 header hgroup hr html i img ins kbd legend li main mark menu nav nobr ol p pre q rb rp rt rtc
    ruby s samp section small span strike strong style sub summary sup svg table tbody td tfoot th thead
    time tr tt u ul var wbr
    """
)
#: The allowed SVG elements, in lower case. HTML parsers restore capitals in names such as `linearGradient`.
_SHAPES = _names(
    """
    a circle clippath defs ellipse feblend fecolormatrix fecomponenttransfer fecomposite fedropshadow
    feflood fefunca fefuncb fefuncg fefuncr fegaussianblur femerge femergenode femorphology feoffset
    feturbulence filter foreignobject g image line lineargradient marker mask path pattern polygon
    polyline radialgradient rect stop style svg switch symbol text textpath tspan use
    """
)
_EMPTY = frozenset(("br", "col", "hr", "img", "wbr"))
_WITHOUT_END = _EMPTY | {"style"}
#: Elements that are removed together with their content.
_REMOVED = frozenset(("iframe", "metadata", "noembed", "script", "template", "textarea", "title", "xmp"))
#: The allowed attributes. Only `href` and `src` contain URLs, and their values are checked. Styles may also
#: contain URLs, but Chromium applies the Content-Security-Policy to styles before it connects.
_ATTRIBUTES = _names(
    """
    align alt bgcolor border cellpadding cellspacing class clear color colspan compact datetime dir face
    height href hspace id lang media noshade nowrap open reversed rowspan rules scope size span src
    start style text title type valign value vspace width clip-path clip-rule clippathunits cx cy d
    display dominant-baseline dx dy fill fill-opacity fill-rule filter filterunits flood-color
    flood-opacity font-family font-size font-style font-weight fx fy gradienttransform gradientunits in
    in2 k1 k2 k3 k4 letter-spacing marker-end marker-mid marker-start markerheight markerunits
    markerwidth mask maskcontentunits maskunits mode numoctaves offset opacity operator orient
    pathlength patterncontentunits patterntransform patternunits points preserveaspectratio
    primitiveunits r radius refx refy result rotate rx ry seed slope spreadmethod startoffset
    stddeviation stop-color stop-opacity stroke stroke-dasharray stroke-dashoffset stroke-linecap
    stroke-linejoin stroke-miterlimit stroke-opacity stroke-width tablevalues text-anchor
    text-decoration textlength transform values viewbox visibility writing-mode x x1 x2 y y1 y2
    """
)
_PICTURE = re.compile(r"data:image/[a-z0-9.+-]+[;,]", re.IGNORECASE)

_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
_GAP = re.compile(r"[\s/]*")
_NAME = re.compile(r"=?[^\s/>=]*")
_EQUALS = re.compile(r"\s*=\s*")
_BARE = re.compile(r"[^\s>]*")


class _OpenTag(NamedTuple):
    """A parsed tag: its attributes, its end position, and whether it is self-closing (`is_closed`)."""

    values: dict[str, str]
    end: int
    is_closed: bool


def allowed_markup(markup: str, *, is_xml: bool) -> str:
    """Return `markup` with only the allowed elements and attributes, as HTML; never raises."""
    return "".join(("<!doctype html>\n", *_pieces(markup, is_xml)))


def _pieces(markup: str, is_xml: bool) -> Iterator[str]:
    at = 0
    namespaces: list[str] = []
    while at >= 0 and (opening := markup.find("<", at)) >= 0:
        yield _escape_text(markup[at:opening])
        tag = _TAG.match(markup, opening)
        if tag is None:
            text, at = _read_other(markup, opening, is_xml)
            yield _escape_text(text)
            continue
        opened = _read_tag(markup, tag.end())
        if opened is None:
            return  # HTML parsers ignore an unclosed tag at the end of the document
        name = tag[2].rpartition(":")[2].lower()
        at = opened.end
        is_svg = bool(namespaces) and namespaces[-1] == "svg"
        is_allowed = name in (_SHAPES if is_svg else _ELEMENTS)
        if tag[1]:
            if namespaces and namespaces[-1] == name:
                namespaces.pop()
            if (is_allowed and name not in _WITHOUT_END) or name == "foreignobject":
                yield f"</{name}>"
            continue
        is_closed = opened.is_closed and (is_xml or is_svg or name == "svg")
        content = ""
        if (name in _REMOVED or name == "style") and not is_closed:
            content, at = _read_raw_text(markup, opened.end, name)
        if not is_allowed:
            continue
        yield _make_tag(name, opened.values)
        if name == "style":
            yield f"{_escape_sheet(content, is_xml)}</style>"
        elif is_closed and name not in _EMPTY:
            yield f"</{name}>"
        elif name in ("svg", "foreignobject"):
            namespaces.append(name)
    if at >= 0:
        yield _escape_text(markup[at:])


def _read_other(markup: str, opening: int, is_xml: bool) -> tuple[str, int]:
    """Return the text and the end position of a construct with `<` that is not a tag, such as a comment.

    The end position is -1 if the construct is not closed.
    """
    if markup.startswith("<!--", opening):
        return "", _find_end(markup, "-->", opening + 2)
    if is_xml and markup.startswith("<![CDATA[", opening):
        end = _find_end(markup, "]]>", opening)
        return escape(markup[opening + 9 : end - 3 if end >= 0 else len(markup)]), end
    if markup[opening + 1 : opening + 2] in ("!", "?", "/"):
        return "", _find_end(markup, ">", opening)
    return "<", opening + 1


def _find_end(markup: str, end: str, start: int) -> int:
    position = markup.find(end, start)
    return -1 if position < 0 else position + len(end)


def _read_tag(markup: str, at: int) -> _OpenTag | None:
    """Parse a tag from the end of its tag name; return None if the tag is not closed."""
    values: dict[str, str] = {}
    while True:
        gap = _match(_GAP, markup, at)
        at = gap.end()
        if markup.startswith(">", at):
            return _OpenTag(values, at + 1, gap[0].endswith("/"))
        if at == len(markup):
            return None
        named = _match(_NAME, markup, at)
        at = named.end()
        value = ""
        if equals := _EQUALS.match(markup, at):
            at = equals.end()
            if (quote := markup[at : at + 1]) in ('"', "'") and quote:
                end = markup.find(quote, at + 1)
                if end < 0:
                    return None
                value, at = markup[at + 1 : end], end + 1
            else:
                bare = _match(_BARE, markup, at)
                value, at = bare[0], bare.end()
        values.setdefault(named[0].rpartition(":")[2].lower(), value)


def _match(pattern: re.Pattern[str], markup: str, at: int) -> re.Match[str]:
    """Return the match of a pattern, which also matches the empty string, at a position."""
    match = pattern.match(markup, at)
    assert match is not None
    return match


def _read_raw_text(markup: str, start: int, name: str) -> tuple[str, int]:
    """Return the content of a raw text element, and the position of its end tag or -1."""
    closing = re.compile(rf"</(?:[\w-]{{1,40}}:)?{name}(?=[\s/>])", re.IGNORECASE).search(markup, start)
    return (markup[start:], -1) if closing is None else (markup[start : closing.start()], closing.start())


def _make_tag(name: str, values: dict[str, str]) -> str:
    attributes = {key: plain(value) for key, value in values.items() if key in _ATTRIBUTES}
    is_allowed = _PICTURE.match if name in ("image", "img") else re.compile("#").match
    for key in ("href", "src"):
        if key in attributes and not is_allowed(attributes[key]):
            target = attributes.pop(key)
            if name == "a":
                attributes.setdefault("title", target)
    fields = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{fields}>"


def _escape_text(text: str) -> str:
    """Escape `<` in text; character references such as `&lt;` stay unchanged."""
    return text.replace("<", "&lt;")


def _escape_sheet(text: str, is_xml: bool) -> str:
    r"""Escape `<` in CSS as `\3c `, so that the stylesheet cannot contain a tag."""
    if is_xml:
        text = plain(text.replace("<![CDATA[", "").replace("]]>", ""))
    return text.replace("<", "\\3c ")
