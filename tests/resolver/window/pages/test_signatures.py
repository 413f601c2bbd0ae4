"""Media types that the window tells a browser, by the first octets of a document."""

from __future__ import annotations

import pytest

from resolver.web.pages.text import media_type_of, media_type_of_picture

SIGNATURES = {
    "image/png": [b"\x89PNG\r\n\x1a\n"],
    "image/jpeg": [b"\xff\xd8\xff\xe0"],
    "image/gif": [b"GIF87a", b"GIF89a"],
    "image/webp": [b"RIFF\n\0\0\0WEBP"],
    "image/avif": [b"\0\0\0\x1cftypavif", b"\0\0\n\x1cftypavis"],
    "image/bmp": [b"BM\n\0\0\0\0\0\0\0"],
    "application/pdf": [b"%PDF-1.7"],
    "audio/ogg": [b"OggS"],
    "audio/flac": [b"fLaC"],
    "audio/mpeg": [b"ID3\x04", b"\xff\xfb\x90", b"\xff\xf3\x90", b"\xff\xf2\x90"],
    "audio/wav": [b"RIFF\n\0\0\0WAVE"],
    "video/mp4": [b"\0\0\0\x20ftypisom", b"\0\0\n\x20ftypmp42"],
    "video/webm": [b"\x1a\x45\xdf\xa3"],
}


@pytest.mark.parametrize(
    ("media_type", "octets"), [(each, octets) for each, found in SIGNATURES.items() for octets in found]
)
def test_media_type_of_signature_names_the_type(media_type: str, octets: bytes) -> None:
    assert media_type_of(octets + b"...") == media_type
    is_picture = media_type.startswith("image/")
    assert media_type_of_picture(octets + b"...") == (media_type if is_picture else None)


@pytest.mark.parametrize(
    "octets", [b"", b"<!DOCTYPE html>", b" %PDF-", b"RIFF\0\0\0\0AVI ", b"GIF88a", b"\xff\xf1"]
)
def test_media_type_of_other_octets_is_none(octets: bytes) -> None:
    assert media_type_of(octets) is None
