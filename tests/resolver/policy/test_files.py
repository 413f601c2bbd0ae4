"""S12: file URLs, as far as the URL alone decides; S14: local names from untrusted text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver import Policy, Refused, check
from resolver.policy.files import (
    is_below,
    is_companion_name,
    is_safe_name,
    local_name,
    local_path,
    number_name,
)
from tests.resolver.policy.rows import CAUTIOUS, DEFAULT, MENU, PAGE, UNTRUSTED, Row

ROOTED = Policy(file_root="/srv/data")
ROOTED_UNTRUSTED = Policy(name="untrusted", file_root="/srv/data")
PARENT = ("file:///srv/data/", None)


@pytest.mark.parametrize(
    "row",
    [
        Row("file:///etc/motd", "allow", (), CAUTIOUS),
        Row("file://localhost/etc/motd", "allow"),
        Row("file://LOCALHOST/etc/motd", "allow"),
        Row("file:/etc/motd", "allow"),
        Row("file://localhost", "allow"),
        Row("file://h.example/etc/motd", "refuse", ("S12",)),
        Row("file://127.0.0.1/etc/motd", "allow"),
        Row("file://[::1]/etc/motd", "allow"),
        Row("file://127.0.0.2/etc/motd", "refuse", ("S12",)),
        Row("file://[::ffff:127.0.0.1]/etc/motd", "refuse", ("S12",)),
        Row("file://x.localhost/etc/motd", "refuse", ("S12",)),
        Row("file://localhost./etc/motd", "refuse", ("S12",)),
        Row("file:///a%00b", "refuse", ("S12",)),
        Row("file:///a%2Fb", "refuse", ("S12",)),
        Row("file:///..%2f..%2fetc/passwd", "refuse", ("S12",)),
        Row("file:///a%0Ab", "allow"),
        Row("file:///etc/motd", "refuse", ("S12",), origin="chosen", referrer=PAGE),
        Row("file:///etc/motd", "refuse", ("S12",), origin="chosen"),
        Row("file:///etc/motd", "refuse", ("S20", "S12"), origin="chosen", referrer=MENU),
        Row("file:///srv/data/x", "allow", origin="chosen", referrer=PARENT),
        Row("file:///etc/motd", "refuse", ("S12",), UNTRUSTED),
        Row("file:///srv/data/x", "allow", (), ROOTED_UNTRUSTED),
        Row("file:///etc/motd", "refuse", ("S12",), ROOTED_UNTRUSTED),
        Row("file:///srv/data/x", "refuse", ("S12",), ROOTED, "chosen", PAGE),
        # A root restricts the paths; the path in the URL stays as written.
        Row("file:///srv/data", "allow", (), ROOTED),
        Row("file:///srv/data/", "allow", (), ROOTED),
        Row("file:///srv//./data/a/b", "allow", (), ROOTED),
        Row("file:///srv/data/a/../b", "allow", (), ROOTED),
        Row("file:///etc/../srv/data/b", "allow", (), ROOTED),
        Row("file:///srv/data/%2e%2e/%2e%2e/etc/passwd", "refuse", ("S12",), ROOTED),
        Row("file:///srv/data/..", "refuse", ("S12",), ROOTED),
        Row("file:///srv/database/x", "refuse", ("S12",), ROOTED),
        Row("file:///x", "refuse", ("S12",), ROOTED),
        Row("file:///../../srv/data/x", "allow", (), ROOTED),
        Row("file:///anything", "allow", (), Policy(name="untrusted", file_root="/")),
        Row("file:///dev/null", "allow"),  # only the disk shows that this is a special file
    ],
    ids=str,
)
def test_s12_decides_file_url(row: Row) -> None:
    row.hold()


def test_s12_refusal_points_at_the_escape_and_names_the_flag() -> None:
    separator = check("file:///a/b%2Fc").error()
    assert isinstance(separator, Refused)
    assert (separator.rule, separator.flag, separator.position) == ("S12", None, 11)
    forbidden = check("file:///x", policy=UNTRUSTED).error()
    assert isinstance(forbidden, Refused)
    assert (forbidden.rule, forbidden.flag) == ("S12", "--file-root DIR")
    assert forbidden.setting == "file_root DIR"


def test_s12_applies_despite_allow_special() -> None:
    for policy in (DEFAULT, Policy(allow_special=True)):
        assert check("file://h.example/x", policy=policy).rules == ("S12",)


def test_file_root_relative_is_resolved_against_cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    policy = Policy(file_root="data")
    assert policy.file_root == str(tmp_path / "data")
    assert check(f"{tmp_path.as_uri()}/data/x", policy=policy).action == "allow"


@pytest.mark.parametrize(
    ("path", "root", "below"),
    [
        ("/a/b", "/a", True),
        ("/a", "/a", True),
        ("/ab", "/a", False),
        ("/a/..", "/a", False),
        ("/", "/", True),
    ],
)
def test_is_below(path: str, root: str, below: bool) -> None:
    assert is_below(os.fsencode(path).split(b"/"), root) is below


# S14: names of local files from untrusted text.


@pytest.mark.parametrize(
    ("component", "name"),
    [
        (b"README", "README"),
        (b"na\xc3\xafve.txt", "naïve.txt"),
        (b"a b.txt", "a b.txt"),
        (b"../../.bashrc", "_bashrc"),  # a value of Content-Disposition in a CVE
        (b"/etc/passwd", "passwd"),
        (b"..\\..\\x.exe", "x.exe"),
        (b"a/b\\c", "c"),
        (b"...", "_._"),
        (b"..x", "_.x"),
        (b"-rf", "_rf"),
        (b"--help", "_-help"),
        (b"-", "_"),
        (b"x.", "x_"),
        (b"x ", "x_"),
        (b" x", " x"),
        (b" ", "_"),
        (b"x..", "x._"),
        (b'a:b*c?d"e<f>g|h', "a_b_c_d_e_f_g_h"),
        (b"a\0b\nc\x1b[31md\x7f", "a_b_c_[31md_"),
        (b"caf\xe9", "caf_"),
        (b"\xff\xfe", "__"),
        (b"a\xc2\x9bb", "a_b"),  # a C1 control
        ("a\u202etxt.exe".encode(), "a_txt.exe"),
        ("a\u061cb\u200ec\u2066d\u2069".encode(), "a_b_c_d_"),
        (b"con", "_con"),
        (b"CON", "_CON"),
        (b"nul.txt", "_nul.txt"),
        (b"Aux.tar.gz", "_Aux.tar.gz"),
        (b"com1", "_com1"),
        (b"lpt9.x", "_lpt9.x"),
        ("com¹".encode(), "_com¹"),
        (b"nul .txt", "_nul .txt"),
        (b"conx", "conx"),
        (b"com10", "com10"),
        (b"console.log", "console.log"),
        (b"a" * 300, "a" * 200),
        ("é".encode() * 150, "é" * 100),
        (b"a" + "é".encode() * 150, "a" + "é" * 99),
        (b"a" * 199 + b"..b", "a" * 199 + "_"),
        # names of the files that a transfer keeps next to its file, also after case or Unicode folding
        (b"tool.bin.part", "tool.bin.part_"),
        (b"tool.bin.part-state", "tool.bin.part-state_"),
        (b"tool.bin.part-state.new", "tool.bin.part-state.new_"),
        (b"tool.bin.meta.json", "tool.bin.meta.json_"),
        (b"tool.bin.Meta.JSON.new", "tool.bin.Meta.JSON.new_"),
        (b"meta.json", "meta.json"),
        (b"x.meta.jsonl", "x.meta.jsonl"),
        (b"x.PaRt", "x.PaRt_"),
        ("x.\uff30\uff41\uff32\uff34".encode(), "x.\uff30\uff41\uff32\uff34_"),  # fullwidth letters
        ("x\uff0epart".encode(), "x\uff0epart_"),
        ("x\u2024part".encode(), "x\u2024part_"),  # a one dot leader
        ("x.part-\u017ftate".encode(), "x.part-\u017ftate_"),  # a long s
        ("x.par\ufb06-state".encode(), "x.par\ufb06-state"),  # a ligature: st, but not .part
        ("x.pa\u200drt".encode(), "x.pa\u200drt_"),  # an invisible character, which HFS+ and ext4 ignore
        ("x.part\ufe0f".encode(), "x.part\ufe0f_"),
        (b"x.part.", "x.part_"),
        (b"a" * 195 + b".part", "a" * 195 + ".par_"),
        (b"a" * 195 + b".partition", "a" * 195 + ".par_"),
        (b".part", "_part"),
        (b"x.parts", "x.parts"),
        (b"x.part1.rar", "x.part1.rar"),
        (b"part", "part"),
    ],
)
def test_local_name_replaces_unsafe_characters(component: bytes, name: str) -> None:
    assert local_name(component) == name


@pytest.mark.parametrize("component", [b"", b".", b"..", b"a/", b"a/..", b"a\\.", b"/", b"\\"])
def test_local_name_of_nothing_is_refused(component: bytes) -> None:
    with pytest.raises(Refused) as caught:
        local_name(component)
    assert (caught.value.rule, caught.value.flag) == ("S14", "-O FILE")


_ENDINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=3).map(str.encode)


@given(st.one_of(st.binary(max_size=400), st.tuples(st.just(b"x.part"), _ENDINGS).map(b"".join)))
def test_local_name_of_any_bytes_is_safe_or_refused(component: bytes) -> None:
    try:
        name = local_name(component)
    except Refused:
        return
    octets = name.encode("utf-8")
    assert 1 <= len(octets) <= 200
    assert not set(octets) & set(b'\0\n\r\x1b/\\:*?"<>|')
    assert name[0] not in ".-"
    assert name[-1] not in ". "
    assert not is_companion_name(name)
    assert local_name(octets) in (name, "_" + name)


@pytest.mark.parametrize(
    ("name", "ok"),
    [
        (b"x", True),
        (b"-la", True),
        (b"a..b", True),
        (b"caf\xe9", True),
        (b"", False),
        (b".", False),
        (b"..", False),
        (b"../x", False),
        (b"a/b", False),
        (b"a\\b", False),
        (b"a\0b", False),
    ],
)
def test_listing_name_ok_rejects_separators_and_dots(name: bytes, ok: bool) -> None:
    assert is_safe_name(name) is ok


@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("n", "n.2"),
        ("data.tar.gz", "data.2.tar.gz"),
        ("data.tgz", "data.2.tgz"),
        ("index.html", "index.2.html"),
        # the compression suffix stays with the suffix before it; otherwise one suffix is enough
        ("a.b.txt", "a.b.2.txt"),
        ("x.ps.gz", "x.2.ps.gz"),
        ("x.tar.gz.asc", "x.2.tar.gz.asc"),
        ("linux-6.1.tar.xz", "linux-6.1.2.tar.xz"),
        ("x.7z", "x.2.7z"),
        ("x.Z", "x.2.Z"),
        ("ls.1", "ls.1.2"),  # a number is not a type suffix
        ("ls.1.gz", "ls.1.2.gz"),
        ("RFC-1.5", "RFC-1.5.2"),
        ("Mr. Smith", "Mr. Smith.2"),
        ("_bashrc", "_bashrc.2"),
        (".gz", ".gz.2"),
        ("x.", "x..2"),
        ("n.part_", "n.part_.2"),
    ],
)
def test_number_name_inserts_number_before_suffixes(name: str, second: str) -> None:
    assert (number_name(name, 1), number_name(name, 2)) == (name, second)
    assert number_name(name, 12) == second.replace(".2", ".12")


@given(st.binary(max_size=400), st.integers(1, 10_000))
def test_number_name_keeps_name_safe(component: bytes, number: int) -> None:
    try:
        name = number_name(local_name(component), number)
    except Refused:
        return
    assert len(name.encode()) + len(".part-state.new") <= 255
    assert not is_companion_name(name)
    assert "/" not in name
    assert name[0] not in ".-"


@pytest.mark.parametrize(
    ("components", "path"),
    [
        ([], ""),
        ([b"h", b"", b".", b"pub"], "h/pub"),
        ([b"..", b"a\0b", b"x.part"], "__/a_b/x.part_"),
        ([b"...", b"-r", b"con"], "_._/_r/_con"),
        ([b"::1"], "__1"),
    ],
)
def test_local_path_cleans_each_component(components: list[bytes], path: str) -> None:
    assert local_path(components) == path
