"""Access methods: default tokens, the URL of each method, and the choice among methods (protocol page 8)."""

from __future__ import annotations

import pytest

from protocols.prospero.access_method import AccessMethod, find_first_url, find_kind, list_access_methods
from protocols.prospero.objects import Attribute, ObjectPointer, RequestObject, pointer_to
from protocols.prospero.resolution import guess_media_type
from resolver import Kind, parse

ASKED = RequestObject("h.example", 15251, b"AFTP/pub/x")
LINK = ObjectPointer(b"INTERNET-D", b"ftp.example.org", b"ASCII", b"/pub/x")


def methods(*values: tuple[bytes, ...], default: ObjectPointer = LINK) -> list[AccessMethod]:
    attributes = [Attribute(b"CACHED", b"ACCESS-METHOD", b"SEQUENCE", value) for value in values]
    return list_access_methods(attributes, default, ASKED)


def method(*value: bytes, default: ObjectPointer = LINK) -> AccessMethod:
    (found,) = methods(value, default=default)
    return found


def named(name: bytes, host: bytes, hsoname: bytes, *arguments: bytes) -> AccessMethod:
    return method(name, b"INTERNET-D", host, b"ASCII", hsoname, *arguments)


#: Method, host token, name, argument; the URL, and the expected kind of the object (8.2).
MAPPED: list[tuple[bytes, bytes, bytes, bytes | None, str, Kind]] = [
    (
        b"AFTP",
        b"ftp.example.org(2121)",
        b"/pub/big file.tar.Z",
        b"BINARY",
        "ftp://ftp.example.org:2121/pub/big%20file.tar.Z;type=i",
        Kind.DOCUMENT,
    ),
    (b"AFTP", b"H", b"pub/x", b"TEXT", "ftp://h/pub/x;type=a", Kind.DOCUMENT),
    (b"AFTP", b"h(21)", b"/pub", b"DIRECTORY", "ftp://h/pub;type=d", Kind.DIRECTORY),
    (b"AFTP", b"h", b"/pub/x", None, "ftp://h/pub/x", Kind.DOCUMENT),
    (b"AFTP", b"h", b"/pub/x", b"EBCDIC", "ftp://h/pub/x", Kind.DOCUMENT),
    (b"AFTP", b"h", b"//a//b;c", b"TEXT", "ftp://h//a//b%3Bc;type=a", Kind.DOCUMENT),
    (b"AFTP", b"h", b"/%41 \xff#?", None, "ftp://h/%2541%20%FF%23?", Kind.DOCUMENT),
    (b"AFTP", b"h", b"/x;type=i", None, "ftp://h/x%3Btype=i", Kind.DOCUMENT),
    (
        b"FTP",
        b"files.example.org",
        b"/home/u/notes.txt",
        b"TEXT",
        "ftp://files.example.org/%2Fhome/u/notes.txt;type=a",
        Kind.DOCUMENT,
    ),
    (b"FTP", b"h", b"notes.txt", b"BINARY", "ftp://h/notes.txt;type=i", Kind.DOCUMENT),
    (b"GOPHER", b"h(70)", b"0/About this server", None, "gopher://h/00/About%20this%20server", Kind.DOCUMENT),
    (b"GOPHER", b"h(7070)", b"R0-100-/mail/box", b"0", "gopher://h:7070/0R0-100-/mail/box", Kind.DOCUMENT),
    (b"GOPHER", b"h", b"9/archive/x.zip", b"BINARY", "gopher://h/99/archive/x.zip", Kind.DOCUMENT),
    (b"GOPHER", b"h", b"0/x", b"TEXT", "gopher://h/00/x", Kind.DOCUMENT),
    (b"GOPHER", b"h", b"1/x", None, "gopher://h/11/x", Kind.DIRECTORY),
    (b"GOPHER", b"h", b"7/x", b"7", "gopher://h/77/x", Kind.SEARCH),
    (b"GOPHER", b"h", b"guest", b"8", "gopher://h/8guest", Kind.SERVICE),
    (b"GOPHER", b"h", b"1/x", b"STRANGE", "gopher://h/11/x", Kind.DIRECTORY),
    (b"GOPHER", b"h", b"a%09b;?", b"0", "gopher://h/0a%2509b;?", Kind.DOCUMENT),
    (
        b"TELNET",
        b"opac.example.org(2323)",
        b"ignored",
        b"Log in as x",
        "telnet://opac.example.org:2323/",
        Kind.SERVICE,
    ),
    (b"TELNET", b"h(23)", b"x", None, "telnet://h/", Kind.SERVICE),
    (
        b"WAIS",
        b"prospero.example",
        b"WAIS-GW/wais.example.org(210)/TEXT/demo-db/0%0a17%20x",
        None,
        "wais://wais.example.org/demo-db/TEXT/0%0a17%20x",
        Kind.DOCUMENT,
    ),
    (
        b"WAIS",
        b"p",
        b"WAIS-GW/w(8000)/TEXT/a b/1=x;2=/y/z ~%zz%41",
        None,
        "wais://w:8000/a%20b/TEXT/1=x;2=/y/z%20%7E%25zz%41",
        Kind.DOCUMENT,
    ),
    (b"WAIS", b"p", b"WAIS-GW/w/QUERY/db", None, "wais://w/db", Kind.SEARCH),
    (b"WAIS", b"p", b"WAIS-GW/w/QUERY/db/two words", None, "wais://w/db?two%20words", Kind.SEARCH),
]


@pytest.mark.parametrize(("method", "host", "hsoname", "argument", "url", "kind"), MAPPED)
def test_access_method_maps_to_url(
    method: bytes, host: bytes, hsoname: bytes, argument: bytes | None, url: str, kind: Kind
) -> None:
    arguments = () if argument is None else (argument,)
    found = named(method, host, hsoname, *arguments)
    assert (found.url, find_kind(found), found.unusable) == (url, kind, "")
    assert parse(url).scheme == url.partition(":")[0]


#: Values without a usable URL, and part of the reason.
UNUSABLE: list[tuple[tuple[bytes, ...], str]] = [
    ((b"LOCAL", b"", b"", b"", b"/etc/passwd"), "this machine"),
    ((b"LOCAL", b"", b"", b"", b"AFTP/pub/x"), "absolute path"),
    ((b"AFS", b"DUMMY", b"DUMMY", b"ASCII", b"/afs/x"), "no URL"),
    ((b"NFS", b"", b"", b"", b"", b"/export"), "no URL"),
    ((b"RCP", b"", b"", b"", b""), "no URL"),
    ((b"TN3270", b"", b"", b"", b""), "no URL"),
    ((b"AFTP", b"VIRTUAL-SYSTEM", b"", b"", b""), "'VIRTUAL-SYSTEM'"),
    ((b"AFTP", b"", b"h(0)", b"", b""), "bad-port"),
    ((b"AFTP", b"", b"h(99999)", b"", b""), "bad-port"),
    ((b"AFTP", b"", b"a/../b", b"", b""), "bad-host"),
    ((b"AFTP", b"", b"h@evil", b"", b""), "bad-host"),
    ((b"AFTP", b"", b"2130706433", b"", b""), "bad-host"),
    ((b"AFTP", b"", b"", b"", b"a\r\nDELE b"), "CR or LF"),
    ((b"GOPHER", b"", b"", b"", b"0/a\tb"), "TAB"),
    ((b"GOPHER", b"", b"", b"", b"x", b" "), "gopher type"),
    ((b"GOPHER", b"", b"", b"", b"\xff"), "gopher type"),
    ((b"WAIS", b"", b"", b"", b"WAIS/OBJECT/locator"), "opaque"),
    ((b"WAIS", b"", b"", b"", b"x", b"locator"), "opaque"),
    ((b"WAIS", b"", b"", b"", b"WAIS-GW/w/TEXT/db"), "no document"),
    ((b"WAIS", b"", b"", b"", b"WAIS-GW/w/QUERY"), "opaque"),
    ((b"WAIS", b"", b"", b"", b"WAIS-GW/w(x)/TEXT/db/1"), "bad-host"),
    ((b"PROSPERO-CONTENTS", b"NULL", b"", b"", b""), "'NULL'"),
    ((b"PROSPERO-CONTENTS", b"", b"", b"", b"a\nb"), "CR or LF"),
]


@pytest.mark.parametrize(("value", "words"), UNUSABLE)
def test_unusable_access_method_has_reason(value: tuple[bytes, ...], words: str) -> None:
    found = method(*value)
    assert (found.url, found.target) == (None, None)
    assert words in found.unusable
    assert words in found.description


def test_unknown_or_short_access_methods_are_skipped() -> None:
    found = methods((b"NEW", b"", b"", b"", b""), (b"AFTP", b"", b"", b""), (b"AFTP", b"", b"", b"", b""), ())
    assert [each.url for each in found] == ["ftp://ftp.example.org/pub/x"]


#: Each of the four tokens has its own default.
GAPS: list[tuple[tuple[bytes, bytes, bytes, bytes], str]] = [
    ((b"", b"", b"", b""), "ftp://ftp.example.org/pub/x"),
    ((b"INTERNET-D", b"", b"", b""), "ftp://ftp.example.org/pub/x"),
    ((b"", b"other(2121)", b"", b""), "ftp://other:2121/pub/x"),
    ((b"", b"", b"", b"/y"), "ftp://ftp.example.org/y"),
    ((b"", b"other", b"ASCII", b"/y"), "ftp://other/y"),
]


@pytest.mark.parametrize(("tokens", "url"), GAPS)
def test_empty_token_defaults_to_token_of_link(tokens: tuple[bytes, ...], url: str) -> None:
    assert method(b"AFTP", *tokens).url == url


def test_default_port_applies_only_with_default_host() -> None:
    """Page 11, 11: an empty host takes the link's host and port; a given host has the default port."""
    asked = pointer_to(ASKED)
    assert method(b"AFTP", b"", b"", b"", b"/y", default=asked).url == "ftp://h.example:15251/y"
    assert method(b"AFTP", b"", b"H.EXAMPLE", b"", b"/y", default=asked).url == "ftp://h.example/y"


def test_prospero_contents_targets_requested_or_other_object() -> None:
    asked = pointer_to(ASKED)
    assert method(b"PROSPERO-CONTENTS", b"", b"", b"", b"", default=asked).target is ASKED
    other = method(b"PROSPERO-CONTENTS", b"", b"b.example", b"", b"y", default=asked).target
    assert other == RequestObject("b.example", 1525, b"y", via=ASKED)
    there = method(b"PROSPERO-CONTENTS", b"", b"", b"", b"y", default=asked).target
    assert there is not None
    assert there.url == "prospero://h.example:15251/y"


FTP = (b"AFTP", b"", b"", b"", b"")
TELNET = (b"TELNET", b"", b"", b"", b"")
LOCAL = (b"LOCAL", b"", b"", b"", b"/x")


@pytest.mark.parametrize(
    ("values", "url"),
    [
        ((LOCAL, TELNET, FTP), "ftp://ftp.example.org/pub/x"),
        ((LOCAL, TELNET), "telnet://ftp.example.org/"),
        ((LOCAL,), None),
        ((), None),
    ],
)
def test_find_first_url_prefers_files_to_sessions(
    values: tuple[tuple[bytes, ...], ...], url: str | None
) -> None:
    first = find_first_url(methods(*values))
    assert (first and first.url) == url
    assert find_kind(None) is Kind.UNKNOWN


def test_access_method_as_json_keeps_tokens() -> None:
    found = method(b"AFS", b"D\xff", b"", b"", b"")
    assert found.as_json() == {
        "method": "AFS",
        "url": None,
        "tokens": ["AFS", "D\xff", "", "", ""],
        "unusable": found.unusable,
    }
    assert "URL" in found.unusable
    assert found.description == f"AFS Dÿ '' '' '' ({found.unusable})"
    message = named(b"TELNET", b"h", b"", b"as \xfc").mapped_url
    assert message is not None
    assert message.message == "as ü"


@pytest.mark.parametrize(
    ("values", "hsoname", "media_type"),
    [
        ([(*FTP, b"TEXT")], b"x", "text/plain"),
        ([(*FTP, b"BINARY")], b"AFTP/pub/x.gif", "image/gif"),
        ([], b"/pub/x.txt", "text/plain"),
        ([], b"/pub/x.txt.gz", "application/octet-stream"),
        ([], b"//h/x", None),
        ([], b"", None),
        ([], b"data:text/html,", None),
    ],
)
def test_guess_media_type_uses_methods_and_name(
    values: list[tuple[bytes, ...]], hsoname: bytes, media_type: str | None
) -> None:
    assert guess_media_type(methods(*values), hsoname) == media_type
