"""Fuzz inputs that failed in the past, each with the name of its harness and a comment about the defect."""

from __future__ import annotations

FOUND: tuple[tuple[str, bytes], ...] = (
    # ARDP (Prospero): only the last packet of a reply arrived.
    ("ardp", b"\x0d\0\0\0\1\0\1\0\0\0\5\0\2a\xfe\xfe\x07\0\2\0\2b"),
)
