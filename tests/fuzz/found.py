"""Inputs that failed once, with the name of their harness; each row names the defect."""

from __future__ import annotations

FOUND: tuple[tuple[str, bytes], ...] = (
    # A reply of which only the last packet arrived.
    ("ardp", b"\x0d\0\0\0\1\0\1\0\0\0\5\0\2a\xfe\xfe\x07\0\2\0\2b"),
)
