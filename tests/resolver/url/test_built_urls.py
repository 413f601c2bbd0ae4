"""URLs of entries that our own builders vouch for (`BuiltUrl`).

For any bytes from a server, our parser accepts these URLs and finds the bytes in the right component, and
no password. The URLs therefore need no second parsing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.contract import BuiltUrl, FileStatus
from protocols.file.dialogue import DirectoryReader
from protocols.ftp.listing import MlsdReader, NlstReader
from protocols.gopher.menu import MenuReader, make_link, parse_item
from protocols.news.listing import EntryUrls
from protocols.prospero.objects import ObjectPointer, make_target
from protocols.wais.apdu import encode_element
from protocols.wais.listing import document_url, libwww_url
from protocols.wais.record import DocumentHeader
from protocols.wais.url import WrittenId, parse_wpath
from resolver import InvalidUrl, Kind, Limits, Referrer, Url, parse
from resolver.transfer.streaming import add_provenance
from resolver.url.parsing import MAX_URL
from tests.protocols.file.files import MadeUpFile

names = st.binary(min_size=1, max_size=40) | st.sampled_from(
    [b"a;type=d", b"//h/x", b"@", b"u:p@h", b"%41", b"#f", b"?q", b"URL:x", b"<a>", b"..", b"\xff\0", b"a/b"]
)


def read(url: BuiltUrl | str | None) -> Url:
    """Parse a URL that a builder vouches for; assert that it has no password."""
    assert isinstance(url, BuiltUrl)
    value = parse(url)
    assert value.place("password") is None
    return value


def components(url: Url, *members: str) -> tuple[Any, ...]:
    return tuple(getattr(url, member) for member in members)


FTP = [
    "ftp://h/",
    "ftp://h",
    "ftp://u:p@h:2121/a%2Fb//c;type=d",
    "ftps://u@[::1]/%7E/",
    "<URL:ftp://u:@h/x/#f>",
]


FACTS = b"type=file; "


@pytest.mark.parametrize("text", FTP)
@given(name=names)
def test_ftp_entry_url_has_the_received_name(text: str, name: bytes) -> None:
    """A name with a line feed is two lines; the second may begin with other facts or without facts.

    A name that is not valid in a directory has no URL if it is reported at all.
    """
    parent: Any = parse(text)
    facts = MlsdReader(parent, Limits(), [])
    for reader, line in ((NlstReader(parent, b"", Limits(), []), name), (facts, FACTS + name)):
        for entry in [*reader.feed(line + b"\r\n"), *reader.finish()]:
            assert entry.raw is not None
            if entry.url is None:
                assert reader is facts
                assert leads_nowhere(entry.raw)
                continue
            child: Any = read(entry.url)
            assert components(child, "scheme", "host", "port", "user", "typecode", "fragment") == (
                *components(parent, "scheme", "host", "port", "user"),
                None,
                None,
            )
            above = (*parent.cwds, parent.name) if parent.name else parent.cwds
            before, _, behind = entry.raw.rpartition(child.name)
            assert (child.cwds, behind, before[-1:]) == (above, b"", b" " if reader is facts else b"")


def leads_nowhere(line: bytes) -> bool:
    """Return whether the name is invalid in a directory, or came after a line feed without facts."""
    _, begins, name = line.rpartition(FACTS)
    return not begins or name in (b"", b".", b"..") or b"/" in name or b"\0" in name


FILES = ["file:///", "file:/a/b", "file://u:p@localhost/a//", "file:////a", "file://127.0.0.1/%2F/"]


@pytest.mark.parametrize("text", FILES)
@pytest.mark.parametrize("kind", [Kind.DOCUMENT, Kind.DIRECTORY])
@given(name=names.filter(lambda name: b"/" not in name and b"\0" not in name))
def test_file_entry_url_has_the_name(text: str, kind: Kind, name: bytes) -> None:
    parent: Any = parse(text)
    status = FileStatus(kind, None, datetime(2026, 1, 1, tzinfo=UTC))
    reader = DirectoryReader(parent, MadeUpFile(names={name: status}), [name])
    (entry,) = reader.feed(b"x\n")
    child = read(entry.url)
    above = parent.segments
    while above and above[-1] == b"":
        above = above[:-1]
    below = (name, b"") if kind is Kind.DIRECTORY else (name,)
    assert components(child, "segments", "host", "user") == ((*above, *below), parent.host, parent.user)


HOSTS = names | st.sampled_from(
    [b"h", b"H.example", b"127.0.0.1", b"h.", b"1.2", b"-", b"::1", b"[::1]", b"%68"]
)
PORTS = st.sampled_from([b"70", b"0", b"1", b"65535", b"65536", b"070", b"x"])
MENUS = ["gopher://h/", "gophers://h:7070/1a", "gopher://127.0.0.1/"]


@pytest.mark.parametrize("text", MENUS)
@given(
    what=names,
    selector=st.binary(max_size=40),
    host=HOSTS,
    port=PORTS,
    tag=st.sampled_from([b"", b"\t+", b"\t?", b"\tx"]),
)
def test_gopher_item_url_has_the_received_fields(
    text: str, what: bytes, selector: bytes, host: bytes, port: bytes, tag: bytes
) -> None:
    menu: Any = parse(text)
    line = what + b"\t" + selector + b"\t" + host + b"\t" + port + tag
    for entry in MenuReader(menu).feed(line + b"\n"):
        item = parse_item(entry.raw or b"")
        url = make_link(item, item.character, menu).url
        if isinstance(url, BuiltUrl) and item.character != "+":  # "+" has the type of the item before
            assert entry.url == url
            check_item(read(url), item)


def check_item(child: Any, item: Any) -> None:
    host = item.host.decode("latin-1").lower()
    assert (child.host if hasattr(child, "host") else host, child.fragment) == (host, None)
    if child.scheme in ("gopher", "gophers"):
        assert components(child, "gophertype", "selector", "effective_port") == (
            item.character,
            item.selector or b"",
            int(item.port),
        )
        assert child.gopherplus == (item.tag.encode() or None)
    else:
        assert child.scheme in ("telnet", "tn3270")
        assert getattr(child, "user", None) in (item.selector or None, None)


NEWS = ["nntp://h/g", "nntps://h:5630/g", "news://u:p@h/g", "news:g", "snews://h/g", "snews://u:p@h:99/*"]


@pytest.mark.parametrize("text", NEWS)
@given(
    group=names | st.sampled_from([b"comp.misc", b"a.*", b"*", b"alt.c++"]),
    number=st.integers(-1, 10**16) | st.just(0),
    message_id=st.none() | names | st.builds(lambda one, two: one + b"@" + two, names, names),
)
def test_news_entry_url_has_group_and_article(
    text: str, group: bytes, number: int, message_id: bytes | None
) -> None:
    parent: Any = parse(text)
    if (url := EntryUrls(parent).group(group)) is not None:
        assert read(url).components()["group"] == group.decode("latin-1")
    if (url := EntryUrls(parent).article(group, number, message_id)) is not None:
        child: Any = read(url)
        if hasattr(child, "article"):
            assert components(child, "group", "article", "host") == (group, number, parent.host)
        else:
            assert child.message_id == message_id


WAIS = ["wais://h/db?x", "wais://u:p@h:8000/%00%2F?", "wais://[::1]/a%20b#f"]


@pytest.mark.parametrize("text", WAIS)
@given(
    document_id=st.binary(max_size=40)
    | st.builds(lambda one, two: encode_element(1, one) + encode_element(3, two), names, names),
    wtype=st.binary(max_size=10),
    length=st.none() | st.integers(0, 10**9),
)
def test_wais_hit_url_has_the_document_id(
    text: str, document_id: bytes, wtype: bytes, length: int | None
) -> None:
    place: Any = parse(text)
    hit = DocumentHeader(octets=b"", document_id=document_id, length=length, types=(wtype,))
    child: Any = read(document_url(hit, wtype, place))
    assert components(child, "database", "wtype", "host", "port") == (
        place.database,
        wtype,
        *components(place, "host", "port"),
    )
    assert parse_wpath(child.wpath) == WrittenId(document_id)
    if (url := libwww_url(hit, place)) is not None:
        child = read(url)
        assert parse_wpath(child.wpath).octets == document_id


@given(
    host=st.sampled_from([b"h", b"H.example(1600)", b"127.0.0.1(1525)", b"h(0)", b"a b"]) | names,
    hsoname=st.binary(max_size=40),
    hsoname_type=st.sampled_from([b"ASCII", b""]) | names,
    version=st.integers(0, 9),
)
def test_prospero_target_url_has_the_object_name(
    host: bytes, hsoname: bytes, hsoname_type: bytes, version: int
) -> None:
    asked: Any = parse("prospero://h/x")
    try:
        target = ObjectPointer(b"INTERNET-D", host, hsoname_type, hsoname, version).target(make_target(asked))
    except InvalidUrl:
        return
    child: Any = read(target.url)
    assert components(child, "host", "effective_port", "hsoname") == (target.host, target.port, hsoname)
    assert make_target(child)._replace(via=target.via) in (
        target,
        target._replace(hsoname_type=b"ASCII"),  # an empty type is unspecified
    )


def test_built_url_that_is_too_long_is_refused() -> None:
    parent: Any = parse("ftp://h/")
    (entry,) = NlstReader(parent, b"", Limits(), []).feed(b"\xff" * (MAX_URL // 3) + b"\n")
    found = add_provenance(entry, Referrer("ftp://h/"))
    assert found.url is None
    assert "too-long" in str((found.extra or {})["unusable"])
