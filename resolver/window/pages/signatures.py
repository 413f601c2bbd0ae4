"""What octets are by their own first ones: the only word that decides how a document is shown. Never what a
server, a menu or a part of a mail says of itself."""

from __future__ import annotations

import re

_SIGNATURES: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"....ftypavi[fs]", re.DOTALL), "image/avif"),
    (re.compile(rb"BM....\0\0\0\0", re.DOTALL), "image/bmp"),
    (re.compile(rb"%PDF-"), "application/pdf"),
    (re.compile(rb"OggS"), "audio/ogg"),
    (re.compile(rb"fLaC"), "audio/flac"),
    (re.compile(rb"ID3|\xff[\xfb\xf3\xf2]"), "audio/mpeg"),
    (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wav"),
    (re.compile(rb"....ftyp", re.DOTALL), "video/mp4"),
    (re.compile(rb"\x1a\x45\xdf\xa3"), "video/webm"),
)


def media_type_of(octets: bytes) -> str | None:
    """The type that a browser may be told, out of those that it can show; None for all others."""
    return next((media_type for signature, media_type in _SIGNATURES if signature.match(octets)), None)


def media_type_of_picture(octets: bytes) -> str | None:
    found = media_type_of(octets[:64])
    return found if found is not None and found.startswith("image/") else None
