"""What a document type says of the octets (wais page, section 9)."""

from __future__ import annotations

#: The type of a source description.
SOURCE = b"WSRC"
#: The headline of such a hit is a URL, and there is nothing to retrieve; or it is a title, and there is.
LINK = b"URL"

SOURCE_MEDIA_TYPE = "application/x-wais-source"

_MEDIA_TYPES: dict[bytes, str] = {
    b"DVI": "application/x-dvi",
    b"GIF": "image/gif",
    b"HTML": "text/html",
    b"JFIF": "image/jpeg",
    b"JPEG": "image/jpeg",
    b"PICT": "image/pict",
    b"PS": "application/postscript",
    b"TEXT": "text/plain",
    b"TIFF": "image/tiff",
    b"WCAT": "text/plain",
    SOURCE: SOURCE_MEDIA_TYPE,
}


def media_type_of(wtype: bytes) -> str:
    """Of an unknown type nothing is known but that it has octets."""
    return _MEDIA_TYPES.get(wtype.upper(), "application/octet-stream")
