"""Content-Disposition: the name a server would give a file."""

from __future__ import annotations

import pytest

from protocols.http.response import suggested_name


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("attachment; filename=a.txt", b"a.txt"),
        ('Attachment ; FileName = "a b.txt" ; size=3', b"a b.txt"),
        (r'inline; filename="a\"b\\c"', rb'a"b\c'),
        ('attachment; filename="a;b=c.txt"', b"a;b=c.txt"),
        ("attachment; filename=first; filename=second", b"first"),
        ("attachment; filename*=UTF-8''%e2%82%ac%20rates", "€ rates".encode()),
        ("attachment; filename=EURO; filename*=utf-8'en'%e2%82%ac", "€".encode()),
        ("attachment; filename*=iso-8859-1''%a3", "£".encode()),
        ("attachment; filename=plain; filename*=UTF-8''%zz", b"plain"),  # not written as RFC 8187 has it
        ("attachment; filename=plain; filename*=koi8-r''%c1", b"plain"),
        ('attachment; filename="caf\xe9"', b"caf\xe9"),
        ('attachment; filename="../../.bashrc"', b"../../.bashrc"),  # whoever makes the file cleans it
        ("attachment; filename*=UTF-8''..%2f..%2fx", b"../../x"),
        ('attachment; filename=""', b""),
        ("attachment", None),
        ("attachment;", None),
        ("", None),
        ("attachment; name=a", None),
        ('attachment; filename="a', None),
        ("attachment; filename=a b", None),
        ("filename=a", None),
        ("attachment; filename", None),
    ],
)
def test_suggested_name(value: str, name: bytes | None) -> None:
    assert suggested_name(value) == name
