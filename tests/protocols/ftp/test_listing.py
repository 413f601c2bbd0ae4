"""NLST and MLSD as entries: what servers send, and what becomes of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from protocols.ftp.listing import MlsdReader, NlstReader, split_lines
from resolver import Finding, FtpUrl, Kind, LimitExceeded, Limits, parse


def ftp(text: str) -> FtpUrl:
    url = parse(text)
    assert isinstance(url, FtpUrl)
    return url


def names(url: str, argument: bytes, octets: bytes) -> tuple[list[str], list[str | None], list[Finding]]:
    findings: list[Finding] = []
    reader = NlstReader(ftp(url), argument, Limits(), findings)
    entries = [*reader.feed(octets), *reader.finish()]
    return [entry.name for entry in entries], [entry.url for entry in entries], findings


NLST = [
    ("all three servers", "ftp://h/pub/", b"", b"a\r\nb\r\n", ["a", "b"]),
    ("NLST dir gives dir/name", "ftp://h/pub;type=d", b"pub", b"pub/a\r\npub/b\r\n", ["a", "b"]),
    ("Pure-FTPd lists itself and its parent", "ftp://h/x;type=d", b"x", b"x/a\r\nx/.\r\nx/..\r\n", ["a"]),
    ("an empty directory of Pure-FTPd", "ftp://h/x;type=d", b"x", b"x/.\r\nx/..\r\n", []),
    ("Pure-FTPd without argument", "ftp://h/x/", b"", b"a\r\n.\r\n..\r\n", ["a"]),
    ("Pure-FTPd and NLST .", "ftp://h/.;type=d", b".", b"./a\r\n./b\r\n", ["a", "b"]),
    ("the root", "ftp://h/%2F;type=d", b"/", b"/etc\r\n/pub\r\n", ["etc", "pub"]),
    ("names without the argument", "ftp://h/x;type=d", b"x", b"a\r\nb\r\n", ["a", "b"]),
    ("the prefix only if all have it", "ftp://h/x;type=d", b"x", b"x/a\r\nb\r\n", ["b"]),
    ("what still leads elsewhere", "ftp://h/x;type=d", b"x", b"x/a\r\nx/../b\r\nx/c/d\r\n", ["a"]),
    ("absolute", "ftp://h/x/", b"", b"/etc/passwd\r\nb\r\n", ["b"]),
    ("bare LF", "ftp://h/x/", b"", b"a\nb\n", ["a", "b"]),
    ("a name with CR, by bare LF", "ftp://h/x/", b"", b"a\rb\nc\n", ["a\\x0db", "c"]),
    ("a name with LF cannot be told", "ftp://h/x/", b"", b"new\nline\r\nplain\r\n", ["new", "line", "plain"]),
    ("no line end at the end", "ftp://h/x/", b"", b"a\r\nb", ["a", "b"]),
    ("empty lines", "ftp://h/x/", b"", b"\r\na\r\n\r\n", ["a"]),
    ("nothing", "ftp://h/x/", b"", b"", []),
    ("not UTF-8", "ftp://h/x/", b"", b"caf\xe9\r\n", ["caf\udce9"]),
    ("dot files stay", "ftp://h/x/", b"", b".hidden\r\n...\r\n", [".hidden", "..."]),
    ("NUL", "ftp://h/x/", b"", b"a\0b\r\nc\r\n", ["c"]),
]


@pytest.mark.parametrize(("why", "url", "argument", "octets", "expected"), NLST, ids=[row[0] for row in NLST])
def test_names(why: str, url: str, argument: bytes, octets: bytes, expected: list[str]) -> None:
    found, _, findings = names(url, argument, octets)
    assert found == expected
    left_out = why in ("the prefix only if all have it", "what still leads elsewhere", "absolute", "NUL")
    assert [finding.rule for finding in findings] == ["ftp:foreign-name"] * left_out


CHILDREN = [
    ("ftp://h", b"a", "ftp://h/a"),
    ("ftp://h/", b"a", "ftp://h/a"),
    ("ftp://h/pub", b"a", "ftp://h/pub/a"),
    ("ftp://h/pub;type=d", b"a", "ftp://h/pub/a"),
    ("ftp://h/pub/;type=d", b"a", "ftp://h/pub/a"),
    ("ftp://h:2121/pub/#top", b"a", "ftp://h:2121/pub/a"),
    ("<URL:ftp://h/pub/>", b"a", "ftp://h/pub/a"),
    ("ftp://u@h/%2Fetc//", b"motd", "ftp://u@h/%2Fetc//motd"),
    ("ftp://u:secret@h/d/", b"a", "ftp://u@h/d/a"),
    ("ftps://h/d/", b"a", "ftps://h/d/a"),
    ("ftp://h/", b"a;type=d", "ftp://h/a%3Btype%3Dd"),
    ("ftp://h/", b"q?a=b&c:@%#", "ftp://h/q%3Fa%3Db%26c%3A%40%25%23"),
    ("ftp://h/", b" b ", "ftp://h/%20b%20"),
    ("ftp://h/", b"~x\xff\x01", "ftp://h/%7Ex%FF%01"),
    ("ftp://h/", b"a$-_.+!*'(),b", "ftp://h/a$-_.+!*'(),b"),
]


@pytest.mark.parametrize(("url", "name", "child"), CHILDREN)
def test_a_child_is_one_step_below(url: str, name: bytes, child: str) -> None:
    _, (written,), _ = names(url, b"", name + b"\r\n")
    assert written == child
    parsed = ftp(child)
    assert parsed.name == name
    assert parsed.typecode is None
    assert parsed.password is None


def test_lines_are_the_same_however_they_come() -> None:
    octets = b"pub/a\r\npub/b\r\n"
    reader = NlstReader(ftp("ftp://h/pub"), b"pub", Limits(), [])
    assert [list(reader.feed(octets[at : at + 1])) for at in range(len(octets))] == [[]] * len(octets)
    assert [(entry.name, entry.raw) for entry in reader.finish()] == [("a", b"pub/a"), ("b", b"pub/b")]


def test_a_line_is_held_within_a_limit() -> None:
    reader = NlstReader(ftp("ftp://h/"), b"", Limits(body=10), [])
    reader.feed(b"0123456789")
    with pytest.raises(LimitExceeded) as raised:
        reader.feed(b"x")
    assert raised.value.limit == "body"
    with pytest.raises(LimitExceeded) as raised:
        NlstReader(ftp("ftp://h/"), b"", Limits(line=10), []).feed(b"a\r\n0123456789x")
    assert raised.value.limit == "line"


def test_names_come_as_their_lines_do() -> None:
    """How lines end is seen of each."""
    reader = NlstReader(ftp("ftp://h/pub/"), b"", Limits(body=10), [])
    pieces = [b"a\r", b"\nb", b"", b"b\r\n", b"c\nd\r\n", b"e" * 9 + b"\n"]
    found = [[entry.name for entry in reader.feed(piece)] for piece in pieces]
    assert found == [[], ["a"], [], ["bb"], ["c", "d"], ["e" * 9]]
    assert list(reader.finish()) == []


def test_only_the_first_names_are_held_to_see_what_they_begin_with() -> None:
    """It is a matter of all of them, but nobody waits for the last of a million."""
    findings: list[Finding] = []
    reader = NlstReader(ftp("ftp://h/x;type=d"), b"x", Limits(), findings)
    lines = [b"x/%05d\r\n" % number for number in range(10_000)]
    held = max(number for number, line in enumerate(lines) if not list(reader.feed(line)))
    assert held < 2_000
    assert [entry.name for entry in reader.feed(b"x/y\nno/prefix\nnone\nx/z\n")] == ["y", "z"]
    assert [finding.rule for finding in findings] == ["ftp:foreign-name"]
    other = NlstReader(ftp("ftp://h/x;type=d"), b"x", Limits(), [])
    assert [entry.name for entry in other.feed(b"x/a\nb\n")] == ["b"]
    assert [entry.name for entry in other.feed(b"c\n")] == ["c"], "one without settles it"


def test_one_finding_for_many_foreign_names() -> None:
    _, _, findings = names("ftp://h/", b"", b"a/b\r\n" * 1000)
    assert len(findings) == 1


def test_split_lines() -> None:
    assert split_lines(b"a\r\nb\r\n") == [b"a", b"b", b""]
    assert split_lines(b"a\nb\r\n") == [b"a", b"b", b""]


MLSD = (
    b"Type=cdir;Modify=20010909014640;Perm=flcdmpe; .\r\n"
    b"type=pdir;modify=20010909014640; ..\r\n"
    b"Size=29;Type=file;Modify=20010909014640.5;UNIX.mode=0644; a.txt\r\n"
    b"type=DIR;modify=191010909014640; with  blanks \r\n"
    b"type=OS.unix=slink:/etc;size=x; link\r\n"
    b"; no facts; at all\n"
    b"nothing-that-is-a-line\r\n"
    b"type=file; a name with\r\n"
    b"line ends in it.txt\r\n"  # ProFTPD
    b"type=file;size=99999999999999999999; big\r\n"
    b"type=file; a/b\r\n"
    b"broken\r\n"
)


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_facts(step: int) -> None:
    findings: list[Finding] = []
    reader = MlsdReader(ftp("ftp://h/pub/"), Limits(), findings)
    entries = [entry for at in range(0, len(MLSD), step) for entry in reader.feed(MLSD[at : at + step])]
    entries += reader.finish()
    moment = datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    assert [(e.name, e.kind, e.size, e.modified) for e in entries] == [
        ("a.txt", Kind.DOCUMENT, 29, moment),
        ("with  blanks ", Kind.DIRECTORY, None, None),
        ("link", Kind.LINK, None, None),
        ("no facts; at all", Kind.UNKNOWN, None, None),
        ("nothing-that-is-a-line", Kind.UNKNOWN, None, None),
        ("a name with", Kind.DOCUMENT, None, None),
        ("line ends in it.txt", Kind.UNKNOWN, None, None),
        ("big", Kind.DOCUMENT, None, None),
        ("a/b", Kind.UNKNOWN, None, None),
        ("broken", Kind.UNKNOWN, None, None),
    ]
    nowhere = [entry.name for entry in entries if entry.url is None]
    assert nowhere == ["nothing-that-is-a-line", "line ends in it.txt", "a/b", "broken"]
    assert entries[1].url == "ftp://h/pub/with%20%20blanks%20"
    assert entries[0].extra == {
        "size": "29",
        "type": "file",
        "modify": "20010909014640.5",
        "unix.mode": "0644",
    }
    assert [finding.rule for finding in findings] == ["ftp:facts-line", "ftp:foreign-name"]


def test_a_line_of_facts_has_a_limit() -> None:
    reader = MlsdReader(ftp("ftp://h/"), Limits(line=20), [])
    with pytest.raises(LimitExceeded):
        reader.feed(b"x" * 21)
