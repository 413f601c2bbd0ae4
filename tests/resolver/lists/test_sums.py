"""Lines of digests: each way to write them, names that were escaped, and nothing that a URL could be."""

from __future__ import annotations

import shutil
import subprocess
from hashlib import new
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver import InvalidUrl, parse
from resolver.transfer.verification import Checksum
from resolver.trees.lists import BadItem, ListedDigest, parse_sum, parts_of, safe_path

LENGTHS = {"md5": 32, "sha1": 40, "sha224": 56, "sha256": 64, "sha384": 96, "sha512": 128}
SHA256 = new("sha256", b"octets").hexdigest()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"{SHA256}  a.iso", "a.iso"),
        (f"{SHA256} *a.iso", "a.iso"),
        (f"{SHA256} a.iso", "a.iso"),  # `sha256 -r`, and what people write
        (f"{SHA256}\ta.iso", "a.iso"),
        (f"{SHA256.upper()}  a.iso", "a.iso"),
        (f"{SHA256}   a ", " a "),  # blanks are of the name
        (f"{SHA256}  *a", "*a"),
        (f"{SHA256}  ./pub/a", "./pub/a"),
        (f"{SHA256}  \\n", "\\n"),  # without the backslash before the line nothing is escaped
        (f"\\{SHA256}  a\\nb\\\\c\\r", "a\nb\\c\r"),
        (f"SHA256 (a.iso) = {SHA256}", "a.iso"),
        (f"SHA2-256(a.iso)= {SHA256}", None),
        (f"SHA256(a.iso)= {SHA256}", "a.iso"),
        (f"SHA256 (a) = {SHA256}) = {SHA256}", f"a) = {SHA256}"),
        (f"\\SHA256 (a\\nb) = {SHA256}", "a\nb"),
    ],
)
def test_each_way_to_write_one(line: str, name: str | None) -> None:
    if name is None:
        with pytest.raises(BadItem, match="SHA2-256"):
            parse_sum(line)
    else:
        assert parse_sum(line) == ListedDigest(name, Checksum("sha256", SHA256))


@pytest.mark.parametrize(("algorithm", "length"), LENGTHS.items())
def test_the_length_tells_the_algorithm(algorithm: str, length: int) -> None:
    found = parse_sum(f"{'a' * length}  x")
    assert found is not None
    assert found.checksum == Checksum(algorithm, "a" * length)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"{'a' * 33}  x", "33 digits"),
        (f"BLAKE2b (x) = {'a' * 128}", "BLAKE2b"),
        (f"SHA256 (x) = {'a' * 40}", "SHA256"),
        (f"\\{SHA256}  a\\t", r"no escape '\\\\t'"),
        (f"\\{SHA256}  a\\", "no escape"),
    ],
)
def test_what_means_nothing_here(line: str, words: str) -> None:
    with pytest.raises(BadItem, match=words):
        parse_sum(line)


@pytest.mark.parametrize(
    "line",
    [
        *("", "http://h.example/a", "<URL:http://h.example/a>", SHA256, f"{SHA256} ", f"{SHA256[:31]}  a"),
        *(f"{SHA256}-  a", f"{'a' * 129}  x", "SHA256 (a) = ", f"sha256 (a) = {SHA256}", '{"url": "x:"}'),
        "-----BEGIN PGP SIGNED MESSAGE-----",
    ],
)
def test_what_is_none(line: str) -> None:
    assert parse_sum(line) is None


@pytest.mark.parametrize(
    ("name", "path"),
    [("a", "a"), ("./a/b", "a/b"), ("././a", "a"), ("a.part", "a.part_"), ("con/.x", "_con/_x")],
)
def test_names_lead_below_the_directory(name: str, path: str) -> None:
    assert safe_path(parts_of(name)) == path


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/etc/passwd", "../a", "a/../b", "a/..", "a//b", "a/", "a\\b", "a\0", "x" * 4_097]
)
def test_names_that_lead_elsewhere(name: str) -> None:
    with pytest.raises(BadItem):
        parts_of(name)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum here")
@pytest.mark.parametrize("options", [(), ("--binary",), ("--tag",)])
def test_what_sha256sum_writes(options: tuple[str, ...], tmp_path: Path) -> None:
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
        SHA256,
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
def test_any_line_is_one_or_none_and_never_a_url(line: str) -> None:
    try:
        found = parse_sum(line)
    except BadItem:
        return
    if found is not None:
        with pytest.raises(InvalidUrl):
            parse(line)
        try:
            path = safe_path(parts_of(found.name))
        except BadItem:
            return
        assert ".." not in path.split("/")
        assert not path.startswith("/")
