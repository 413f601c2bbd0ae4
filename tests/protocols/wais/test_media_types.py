"""What types say of octets (wais page, section 9)."""

from __future__ import annotations

import pytest

from protocols.wais.listing import media_type_of

TYPES = [
    (b"TEXT", "text/plain"),
    (b"WCAT", "text/plain"),
    (b"HTML", "text/html"),
    (b"WSRC", "application/x-wais-source"),
    (b"GIF", "image/gif"),
    (b"TIFF", "image/tiff"),
    (b"PICT", "image/pict"),
    (b"JPEG", "image/jpeg"),
    (b"JFIF", "image/jpeg"),
    (b"PS", "application/postscript"),
    (b"DVI", "application/x-dvi"),
    (b"gif", "image/gif"),
    (b"TEXT-FTP", "application/octet-stream"),
    (b"FTP-DIR", "application/octet-stream"),
    (b"", "application/octet-stream"),
    (b"TEXT,GIF", "application/octet-stream"),
    (b"\xff", "application/octet-stream"),
]


@pytest.mark.parametrize(("wtype", "media_type"), TYPES)
def test_media_types(wtype: bytes, media_type: str) -> None:
    assert media_type_of(wtype) == media_type
