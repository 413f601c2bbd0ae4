"""Fuzz inputs that failed in the past, each with the name of its harness and a comment about the defect."""

from __future__ import annotations

FOUND: tuple[tuple[str, bytes], ...] = (
    # ARDP (Prospero): only the last packet of a reply arrived.
    ("ardp", b"\x0d\0\0\0\1\0\1\0\0\0\5\0\2a\xfe\xfe\x07\0\2\0\2b"),
    # A line of a cookie file: a domain with an empty label, which the written line does not have.
    ("cookies", b"#HttpOnly_..h\tTRUE\t/\tTRUE\t1900\tnam a"),
    # 2,000 zero bytes in br (brotli): the decoder returns complete blocks, even if fewer bytes are requested.
    ("codings", b"\0" + bytes.fromhex("1bcf07f82700c2b1402071")),
)
