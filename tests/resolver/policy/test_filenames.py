"""S14: names for files of ours that somebody else's words suggest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.errors import Refused
from resolver.policy import listing_name_ok, local_name


@pytest.mark.parametrize(
    ("component", "name"),
    [
        (b"README", "README"),
        (b"na\xc3\xafve.txt", "naïve.txt"),
        (b"a b.txt", "a b.txt"),
        (b"../../.bashrc", "_bashrc"),  # Content-Disposition of a CVE
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
    ],
)
def test_cleaning(component: bytes, name: str) -> None:
    assert local_name(component) == name


@pytest.mark.parametrize("component", [b"", b".", b"..", b"a/", b"a/..", b"a\\.", b"/", b"\\"])
def test_nothing_left(component: bytes) -> None:
    with pytest.raises(Refused) as caught:
        local_name(component)
    assert (caught.value.rule, caught.value.flag) == ("S14", "-O FILE")
    assert "-O FILE" in str(caught.value)


@given(st.binary(max_size=400))
def test_any_octets_give_a_harmless_name_or_a_refusal(component: bytes) -> None:
    try:
        name = local_name(component)
    except Refused:
        return
    octets = name.encode("utf-8")
    assert 1 <= len(octets) <= 200
    assert not set(octets) & set(b'\0\n\r\x1b/\\:*?"<>|')
    assert name[0] not in ".-"
    assert name[-1] not in ". "
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
def test_names_in_listings(name: bytes, ok: bool) -> None:
    assert listing_name_ok(name) is ok
