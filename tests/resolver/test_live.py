"""Entries on their way to whoever listed: a link made of a peer's data has to be one for our parser."""

from __future__ import annotations

import pytest

from protocols.contract import Entry, Referrer
from resolver.live import settle

FOUND_IN = Referrer("gopher://h.example/1", "192.0.2.1")


@pytest.mark.parametrize(
    ("text", "url", "reason"),
    [
        ("http://u:secret@a.example/", "http://u@a.example/", None),
        ("http://a.example/", "http://a.example/", None),
        ("http://a.example/<x>", None, "bad-char"),
        ("http://127.1/", None, "bad-host"),
        (None, None, None),
    ],
)
def test_what_is_no_url_is_unusable_and_says_why(
    text: str | None, url: str | None, reason: str | None
) -> None:
    entry = settle(Entry(name="n", url=text, extra={"type": "h"}), FOUND_IN)
    assert (entry.url, entry.origin, entry.referrer) == (url, "derived", FOUND_IN)
    assert entry.extra is not None
    assert entry.extra["type"] == "h"
    assert ("unusable" in entry.extra) == (reason is not None)
    assert str(reason or "") in str(entry.extra.get("unusable", ""))
