"""Hypothesis strategies: strings that resemble URLs, and URLs built from their components."""

from __future__ import annotations

from hypothesis import strategies as st

from protocols.syntax import RESERVED, UNRESERVED
from resolver import (
    FileUrl,
    FtpUrl,
    GopherUrl,
    HttpUrl,
    MailtoUrl,
    NewsUrl,
    NntpUrl,
    OtherUrl,
    ProsperoUrl,
    TelnetUrl,
    Url,
    WaisUrl,
)

_PIECES = [
    *(
        "ftp",
        "http",
        "gopher",
        "mailto",
        "news",
        "snews",
        "nntp",
        "telnet",
        "wais",
        "file",
        "prospero",
        "x-a",
    ),
    *("URL:", "<", ">", "://", "//", "/", ":", "@", "?", "#", ";", "=", "&", "*", ",", ".", "-", "_", "+"),
    *("[::1]", "[", "]", "\\", "~", "%41", "%09", "%0D", "%2F", "%40", "%FF", "%", "%4", ";type=i", ";type="),
    *("a", "B", "0", "1", "119", "65536", "127.0.0.1", "host.example", " ", "\t", "\n", '"', "é", "\x00"),
]
_STARTS = [f"{scheme}:" for scheme in ("mailto", "news", "file", "x")] + [
    f"{scheme}://h"
    for scheme in ("ftp", "http", "gopher", "news", "nntp", "telnet", "wais", "file", "prospero", "x")
]

#: Mostly near-URLs: any text, and the delimiters of URLs in any order.
texts = st.one_of(
    st.text(max_size=30),
    st.lists(st.sampled_from(_PIECES), max_size=12).map("".join),
    st.tuples(st.sampled_from(_STARTS), st.lists(st.sampled_from(_PIECES), max_size=10).map("".join)).map(
        "".join
    ),
)

octets = st.binary(max_size=8)
_maybe = st.none() | octets
_hosts = st.sampled_from(["h", "host.example", "127.0.0.1", "a_b", "h.", "-a", "::1", "2001:db8::1"])
_ports = st.none() | st.integers(1, 65535)
_words = st.text(UNRESERVED + ";:@&=/", max_size=8) | st.just("%2F%3f")
_fragments = st.none() | st.text(UNRESERVED + RESERVED, max_size=4)
_graphic = st.characters(min_codepoint=0x21, max_codepoint=0x7E)
_no_tab = octets.map(lambda value: value.replace(b"\t", b""))
_groups = st.text("abZ09-.+_", min_size=1, max_size=8).map(str.encode)
_ids = st.builds(
    lambda left, right: left + b"@" + right,
    st.binary(min_size=1, max_size=8).map(lambda value: bytes(octet % 94 + 0x21 for octet in value)),
    st.sampled_from([b"h", b"h.example", b"my_host", b"a/b", b"[x]"]),
).filter(lambda value: not set(value) & set(b"<>"))


def _login(scheme: str, default_port: int) -> dict[str, st.SearchStrategy[object]]:
    return {
        "scheme": st.just(scheme),
        "fragment": _fragments,
        "user": octets,
        "password": _maybe,
        "host": _hosts,
        "port": _ports.filter(lambda port: port != default_port),
        "default_port": st.just(default_port),
    }


_paths = st.builds(
    lambda cwds, name: {"cwds": cwds, "name": name}, st.lists(octets, max_size=3).map(tuple), octets
)
_ftp = st.builds(
    lambda login, path, typecode: FtpUrl(**login, **path, typecode=typecode),
    st.fixed_dictionaries(_login("ftp", 21)),
    _paths,
    st.sampled_from([None, "a", "i", "d"]),
)
_http = st.builds(
    lambda login, path, search: HttpUrl(**login, path=path, search=search),
    st.fixed_dictionaries(_login("https", 443)),
    _words,
    st.none() | _words.map(lambda word: word.replace("/", "")),
)
_gopher = st.builds(
    lambda login, gophertype, selector, search, gopherplus: GopherUrl(
        **login,
        gophertype=gophertype,
        selector=selector,
        search=search,
        gopherplus=None if search is None else gopherplus,
    ),
    st.fixed_dictionaries(_login("gopher", 70)),
    _graphic,
    _no_tab,
    st.none() | _no_tab,
    _maybe,
)
_mailto = st.builds(
    MailtoUrl,
    scheme=st.just("mailto"),
    fragment=_fragments,
    addr_spec=st.sampled_from([b"a@b", b'"x @,y"@c', b"a@b,c@d", b"\xe9~?/@b"]),
    headers=st.lists(st.tuples(octets, octets), max_size=3).map(tuple),
)
_anywhere = st.fixed_dictionaries(
    {"scheme": st.just("news"), "fragment": _fragments, "default_port": st.just(119)}
)
_anything_in_news = st.one_of(
    st.builds(lambda name: {"group": name}, _groups | st.sampled_from([b"*", b"a.*"])),
    st.builds(lambda name: {"message_id": name}, _ids),
)
_news = st.builds(
    lambda place, what: NewsUrl(**place, **what),
    _anywhere | st.fixed_dictionaries(_login("news", 119)),
    _anything_in_news,
)
_nntp = st.builds(
    lambda login, group, article: NntpUrl(**login, group=group, article=article),
    st.fixed_dictionaries(_login("nntps", 563)),
    _groups,
    st.none() | st.integers(0, 10**16 - 1),
)
_telnet = st.builds(lambda login: TelnetUrl(**login), st.fixed_dictionaries(_login("telnet", 23)))
_wais = st.builds(
    lambda login, database, rest: WaisUrl(**login, database=database, **rest),
    st.fixed_dictionaries(_login("wais", 210)),
    octets,
    st.one_of(
        st.fixed_dictionaries({"search": _maybe}), st.fixed_dictionaries({"wtype": octets, "wpath": _words})
    ),
)
_file = st.builds(
    FileUrl,
    scheme=st.just("file"),
    fragment=_fragments,
    host=st.just("") | _hosts,
    segments=st.lists(octets, max_size=3).map(tuple),
).filter(lambda url: url.segments or "@" not in (url.fragment or ""))  # This URL has no written form.
_prospero = st.builds(
    lambda login, hsoname, fields: ProsperoUrl(**login, hsoname=hsoname, fields=fields),
    st.fixed_dictionaries(_login("prospero", 1525)),
    octets,
    st.lists(st.tuples(octets, _maybe), max_size=3).map(tuple),
)
_other = st.builds(
    OtherUrl,
    scheme=st.sampled_from(["foo"]),
    fragment=_fragments,
    schemepart=_words,
)

#: URLs of every class, from components that a parser could return.
urls: st.SearchStrategy[Url] = st.one_of(
    _ftp, _http, _gopher, _mailto, _news, _nntp, _telnet, _wais, _file, _prospero, _other
)
