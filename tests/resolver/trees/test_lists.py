"""Metalink 4 (files, ignored elements, errors, hostile XML) and lists of digests."""

from __future__ import annotations

import random
import shutil
import subprocess
from hashlib import new
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar
from xml.parsers.expat import ParserCreate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver import Finding, InvalidUrl, parse
from resolver.transfer.verification import Checksum
from resolver.trees.lists import (
    BadItem,
    BrokenList,
    Item,
    ListedDigest,
    ListedFile,
    MetalinkReader,
    is_metalink,
    parse_sum,
    safe_path,
    split_name,
)

SHA1, SHA256, SHA512 = (new(name, b"octets").hexdigest() for name in ("sha1", "sha256", "sha512"))
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<metalink xmlns="urn:ietf:params:xml:ns:metalink">'
TAIL = "</metalink>\n"
#: A complete file of a download generator, with elements that are ignored and an extension.
WHOLE = f"""{HEAD}
  <generator>a generator/1.0</generator>
  <published>1994-11-06T08:49:37Z</published>
  <origin dynamic="true">http://h.example/list.meta4</origin>
  <file name="pub/a.iso">
    <identity>a thing</identity>
    <version>1.0</version>
    <size>6</size>
    <hash type="sha-1">{SHA1}</hash>
    <hash type="sha-256">{SHA256}</hash>
    <hash type="sha-512">{SHA512}</hash>
    <pieces length="4" type="sha-1"><hash>{SHA1}</hash><hash>{SHA1}</hash></pieces>
    <signature mediatype="application/pgp-signature"><![CDATA[-----BEGIN PGP SIGNATURE-----]]></signature>
    <url location="de" priority="2">http://two.example/a.iso</url>
    <url location="fr">http://last.example/a.iso?b=1&amp;c=2</url>
    <url priority="1">ftp://one.example/a.iso</url>
    <url priority="2">http://two.example/again</url>
    <url priority="3">ftp://one.example/a.iso</url>
    <x:extra xmlns:x="http://h.example/ns"><url>http://not.example/</url></x:extra>
  </file>
  <file name="b">
    <url>http://h.example/b</url>
    <metaurl mediatype="torrent">http://h.example/b.torrent</metaurl>
  </file>
{TAIL}"""
FILES = [
    ListedFile(
        urls=(
            "ftp://one.example/a.iso",
            "http://two.example/a.iso",
            "http://two.example/again",
            "http://last.example/a.iso?b=1&c=2",
        ),
        name="pub/a.iso",
        size=6,
        checksum=Checksum("sha256", SHA256),
    ),
    ListedFile(
        urls=("http://h.example/b",),
        name="b",
        findings=(
            Finding("metalink:metaurl", "allow", "1 metaurl (a torrent or the like) not followed"),
            Finding("metalink:no-hash", "warn", "the Metalink has no hash to compare"),
        ),
    ),
]


def read(text: str | bytes, piece: int = 1_000_000) -> list[Item]:
    octets = text.encode() if isinstance(text, str) else text
    reader = MetalinkReader()
    pieces = (octets[start : start + piece] for start in range(0, len(octets), piece))
    return [*chain.from_iterable(map(reader.feed, pieces)), *reader.finish()]


def one(inside: str, name: str = ' name="x"') -> Item:
    (found,) = read(f"{HEAD}<file{name}>{inside}</file>{TAIL}")
    return found


@pytest.mark.parametrize("piece", [1, 7, 1_000_000])
def test_metalink_file_is_read_in_pieces(piece: int) -> None:
    assert read(WHOLE, piece) == FILES


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1"])
def test_metalink_in_other_encodings(encoding: str) -> None:
    assert read(WHOLE.replace("UTF-8", encoding).encode(encoding)) == FILES


def test_metalink_with_namespace_prefix() -> None:
    text = (
        '<m:metalink xmlns:m="urn:ietf:params:xml:ns:metalink"><m:file name="x"><m:url>ftp://h/x</m:url>'
        "<url>ftp://other/</url></m:file></m:metalink>"
    )
    (found,) = read(text)
    assert isinstance(found, ListedFile)
    assert found.urls == ("ftp://h/x",)


@pytest.mark.parametrize(
    ("hashes", "algorithm"),
    [
        (("sha-1", "sha-512", "sha-256"), "sha256"),
        (("md5", "sha-512", "sha-1"), "sha512"),
        (("md5", "SHA-1"), "sha1"),
        (("md5",), "md5"),
        (("blake2b-512",), None),
    ],
)
def test_metalink_uses_best_known_digest(hashes: tuple[str, ...], algorithm: str | None) -> None:
    digests = {"blake2b-512": "0"} | {
        name: new(name.lower().replace("-", ""), b"").hexdigest() for name in hashes if "blake" not in name
    }
    text = "".join(f'<hash type="{name}"> {digests[name]} </hash>' for name in hashes)
    found = one(f"{text}<url>ftp://h/x</url>")
    assert isinstance(found, ListedFile)
    assert (found.checksum and found.checksum.algorithm) == algorithm
    told = [finding.detail for finding in found.findings]
    assert ["blake2b-512" in detail for detail in told] == ([] if algorithm else [True])


@pytest.mark.parametrize(
    ("inside", "name", "words"),
    [
        ("<url>ftp://h/x</url>", "", "RFC 5854"),
        ("<url>ftp://h/x</url>", ' name="../x"', "'../x'"),
        ("<url>ftp://h/x</url>", ' name="/x"', "S14"),
        ("<url>ftp://h/x</url>", ' name="a/../x"', "S14"),
        ("<url>ftp://h/x</url>", ' name=""', "S14"),
        ("<url>ftp://h/x</url>", ' name="a\\b"', "S14"),
        ("", ' name="x"', "url is missing"),
        ("<metaurl>http://h/x</metaurl>", ' name="x"', "metaurl"),
        ("<size>-1</size>", ' name="x"', "size"),
        ("<size>6</size><size>7</size>", ' name="x"', "two different sizes"),
        (f"<size>{'9' * 19}</size>", ' name="x"', "size"),
        ("<size>\u0666</size>", ' name="x"', "size"),
        ('<hash type="sha-256">abc</hash>', ' name="x"', "'abc'"),
        ('<url priority="first">ftp://h/x</url>', ' name="x"', "priority"),
        (
            f'<hash type="sha-1">{SHA1}</hash><hash type="SHA-1">{"0" * 40}</hash>',
            ' name="x"',
            "two different hashes",
        ),
        ("<url>ftp://h/x</url>" * 1_001, ' name="x"', " 1000 "),
    ],
)
def test_metalink_invalid_file_is_reported_and_others_read(inside: str, name: str, words: str) -> None:
    """The error is reported in order, and the other files are read."""
    found = read(f"{HEAD}<file{name}>{inside}</file><file name='y'><url>ftp://h/y</url></file>{TAIL}")
    assert isinstance(found[0], BadItem)
    assert words in str(found[0])
    assert isinstance(found[1], ListedFile)


def test_metalink_white_space_around_texts_is_ignored() -> None:
    found = one(f"<url>\n  ftp://h/x\t</url><size>\n6 </size><hash type='sha-1'>\n{SHA1} </hash>")
    assert isinstance(found, ListedFile)
    assert (found.urls, found.size, found.checksum) == (("ftp://h/x",), 6, Checksum("sha1", SHA1))


_LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 20))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "well-formed"),
        ("<metalink>", "not a Metalink"),
        ('<metalink xmlns="http://www.metalinker.org/"/>', "Metalink 3"),
        ("<html/>", "not a Metalink"),
        (f"{HEAD}", "well-formed"),
        (f"{HEAD}<file></metalink>", "well-formed"),
        (HEAD.replace("UTF-8", "x-none") + TAIL, "unknown encoding"),
        (HEAD.replace("UTF-8", "big5") + TAIL, "multi-byte encodings"),
        (f"{HEAD}&lol;{TAIL}", "well-formed"),
        (f'<!DOCTYPE metalink [<!ENTITY l0 "lol">{_LAUGHS}]>{HEAD[39:]}&l19;{TAIL}', "document type"),
        (f'<!DOCTYPE x SYSTEM "file:///etc/passwd">{HEAD[39:]}{TAIL}', "document type"),
        (f"{HEAD}{'<a>' * 100}", " 32 "),
        (f"{HEAD}<file name='x'><url>{'x' * 70_000}", " 65536 "),
        (f"{HEAD}<file name='{'x' * 2_000_000}'/>", " 1048576 "),
        (f"{HEAD}<!--{'x' * 2_000_000}-->", " 1048576 "),
    ],
)
def test_metalink_malformed_list_is_broken(text: str, words: str) -> None:
    with pytest.raises(BrokenList, match=words):
        read(text, 65_536)


def test_metalink_files_before_error_are_returned() -> None:
    reader = MetalinkReader()
    found: list[Item] = []
    with pytest.raises(BrokenList):
        found.extend(reader.feed(WHOLE.encode().partition(b"</metalink>")[0] + b"<<"))
    assert found == FILES


@pytest.mark.parametrize(
    ("beginning", "is_one"),
    [
        *((HEAD.encode(), True), (b"\xef\xbb\xbf\n <?xml version", True), (b"<metalink>", True)),
        *((b"<!-- x -->", True), (b"<m:metalink x", True), (b"<metalinks>", False)),
        *((b"<URL:http://h/>", False), (b"<http://h/>", False), (b"http://h/", False), (b"", False)),
    ],
)
def test_is_metalink_by_first_bytes(beginning: bytes, is_one: bool) -> None:
    assert is_metalink(beginning) is is_one


def mutated(chance: random.Random) -> bytes:
    """Return `WHOLE` with random doubled, dropped, moved, replaced or truncated parts."""
    octets = bytearray(WHOLE.encode())
    for _ in range(chance.randint(1, 8)):
        start = chance.randrange(len(octets) + 1)
        end = min(len(octets), start + chance.randint(0, 40))
        match chance.randrange(5):
            case 0:
                del octets[start:end]
            case 1:
                octets[start:start] = octets[start:end] * chance.randint(1, 3)
            case 2:
                octets[start:end] = chance.randbytes(end - start)
            case 3:
                at = chance.randrange(len(octets) + 1)
                octets[at:at] = octets[start:end]
            case 4 if chance.random() < 0.2:
                del octets[start:]
    return bytes(octets)


def test_metalink_mutated_yields_files_or_error() -> None:
    chance = random.Random(5854)
    ended = {"read": 0, "broken": 0}
    for _ in range(2_000):
        try:
            found = read(mutated(chance), 997)
        except BrokenList:
            ended["broken"] += 1
            continue
        ended["read"] += 1
        for item in found:
            assert isinstance(item, BadItem) or (item.urls and item.name and ".." not in item.name.split("/"))
    assert min(ended.values()) > 50


@given(st.binary(max_size=200), st.integers(1, 50))
def test_metalink_random_bytes_are_broken(octets: bytes, piece: int) -> None:
    with pytest.raises(BrokenList):
        read(octets, piece)


class Parser:
    """An expat parser that records the size of each input."""

    parsed: ClassVar[list[int]] = []

    def __init__(self, **words: Any) -> None:
        self.__dict__["_parser"] = ParserCreate(**words)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._parser, name, value)

    def Parse(self, octets: bytes, last: bool) -> None:  # expat's name
        self.parsed.append(len(octets))
        self._parser.Parse(octets, last)


@pytest.mark.parametrize("piece", [1, 100])
def test_metalink_long_comment_in_small_pieces_is_parsed_once(
    piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xml.parsers.expat.ParserCreate", Parser)
    monkeypatch.setattr(Parser, "parsed", [])
    text = WHOLE.replace("<file", f"<!--{'x' * 200_000}--><file", 1)
    assert read(text, piece) == FILES
    assert sum(Parser.parsed) == len(text)
    assert len(Parser.parsed) < len(WHOLE)


def test_metalink_long_list_is_read_incrementally() -> None:
    """Each file is returned as soon as it is complete, and is not held afterwards."""
    reader = MetalinkReader()
    assert list(reader.feed(HEAD.encode())) == []
    for number in range(1_000):
        octets = f"<file name='{number}'><url>ftp://h/{number}</url></file>".encode()
        (found,) = reader.feed(octets)
        assert isinstance(found, ListedFile)
        assert found.name == str(number)


# Lines of digests: all formats, escaped names, and no line that could be a URL.

LENGTHS = {"md5": 32, "sha1": 40, "sha224": 56, "sha256": 64, "sha384": 96, "sha512": 128}
SUMS_SHA256 = new("sha256", b"octets").hexdigest()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"{SUMS_SHA256}  a.iso", "a.iso"),
        (f"{SUMS_SHA256} *a.iso", "a.iso"),
        (f"{SUMS_SHA256} a.iso", "a.iso"),  # `sha256 -r`, and lists written by hand
        (f"{SUMS_SHA256}\ta.iso", "a.iso"),
        (f"{SUMS_SHA256.upper()}  a.iso", "a.iso"),
        (f"{SUMS_SHA256}   a ", " a "),  # blanks are part of the name
        (f"{SUMS_SHA256}  *a", "*a"),
        (f"{SUMS_SHA256}  ./pub/a", "./pub/a"),
        # without a backslash at the start of the line, escapes are not decoded
        (f"{SUMS_SHA256}  \\n", "\\n"),
        (f"\\{SUMS_SHA256}  a\\nb\\\\c\\r", "a\nb\\c\r"),
        (f"SHA256 (a.iso) = {SUMS_SHA256}", "a.iso"),
        (f"SHA2-256(a.iso)= {SUMS_SHA256}", None),
        (f"SHA256(a.iso)= {SUMS_SHA256}", "a.iso"),
        (f"SHA256 (a) = {SUMS_SHA256}) = {SUMS_SHA256}", f"a) = {SUMS_SHA256}"),
        (f"\\SHA256 (a\\nb) = {SUMS_SHA256}", "a\nb"),
    ],
)
def test_parse_sum_formats(line: str, name: str | None) -> None:
    if name is None:
        with pytest.raises(BadItem, match="SHA2-256"):
            parse_sum(line)
    else:
        assert parse_sum(line) == ListedDigest(name, Checksum("sha256", SUMS_SHA256))


@pytest.mark.parametrize(("algorithm", "length"), LENGTHS.items())
def test_parse_sum_detects_algorithm_by_length(algorithm: str, length: int) -> None:
    found = parse_sum(f"{'a' * length}  x")
    assert found is not None
    assert found.checksum == Checksum(algorithm, "a" * length)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"{'a' * 33}  x", "33 digits"),
        (f"BLAKE2b (x) = {'a' * 128}", "BLAKE2b"),
        (f"SHA256 (x) = {'a' * 40}", "SHA256"),
        (f"\\{SUMS_SHA256}  a\\t", r"unknown escape '\\\\t'"),
        (f"\\{SUMS_SHA256}  a\\", "unknown escape"),
    ],
)
def test_parse_sum_unknown_algorithm_or_escape_is_bad(line: str, words: str) -> None:
    with pytest.raises(BadItem, match=words):
        parse_sum(line)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "",
            "http://h.example/a",
            "<URL:http://h.example/a>",
            SUMS_SHA256,
            f"{SUMS_SHA256} ",
            f"{SUMS_SHA256[:31]}  a",
        ),
        *(
            f"{SUMS_SHA256}-  a",
            f"{'a' * 129}  x",
            "SHA256 (a) = ",
            f"sha256 (a) = {SUMS_SHA256}",
            '{"url": "x:"}',
        ),
        "-----BEGIN PGP SIGNED MESSAGE-----",
    ],
)
def test_parse_sum_other_line_is_none(line: str) -> None:
    assert parse_sum(line) is None


@pytest.mark.parametrize(
    ("name", "path"),
    [("a", "a"), ("./a/b", "a/b"), ("././a", "a"), ("a.part", "a.part_"), ("con/.x", "_con/_x")],
)
def test_safe_path_stays_below_directory(name: str, path: str) -> None:
    assert safe_path(split_name(name)) == path


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/etc/passwd", "../a", "a/../b", "a/..", "a//b", "a/", "a\\b", "a\0", "x" * 4_097]
)
def test_parts_of_unsafe_name_is_bad(name: str) -> None:
    with pytest.raises(BadItem):
        split_name(name)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum here")
@pytest.mark.parametrize("options", [(), ("--binary",), ("--tag",)])
def test_parse_sum_reads_output_of_sha256sum(options: tuple[str, ...], tmp_path: Path) -> None:
    names = ["plain", "two words", "back\\slash", "line\nend", "(x) = y", " blank"]
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    written = subprocess.run(
        ["sha256sum", *options, "--", *names], cwd=tmp_path, capture_output=True, check=True
    ).stdout.decode()
    found = [parse_sum(line) for line in written.removesuffix("\n").split("\n")]
    assert found == [
        ListedDigest(name, Checksum("sha256", new("sha256", name.encode()).hexdigest())) for name in names
    ]


_PIECES = st.sampled_from(
    [
        SUMS_SHA256,
        "a" * 40,
        "SHA256",
        " ",
        "  ",
        " *",
        "(",
        ")",
        " = ",
        "=",
        "\\",
        "\\n",
        "a/b",
        "..",
        "http://h/",
        "\t",
    ]
)


@given(st.one_of(st.text(), st.lists(_PIECES, max_size=12).map("".join)))
def test_parse_sum_any_line_is_never_a_url(line: str) -> None:
    try:
        found = parse_sum(line)
    except BadItem:
        return
    if found is not None:
        with pytest.raises(InvalidUrl):
            parse(line)
        try:
            path = safe_path(split_name(found.name))
        except BadItem:
            return
        assert ".." not in path.split("/")
        assert not path.startswith("/")
