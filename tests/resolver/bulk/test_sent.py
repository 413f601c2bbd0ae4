"""A task on its way: it arrives as it was, and nobody reads it before."""

from __future__ import annotations

from pathlib import Path

from resolver import Policy, Settings
from resolver.bulk.messages import BulkJob, BulkRequest, RequestSlice
from resolver.bulk.slice import fetch_packed, packed


def test_what_is_sent_is_done_by_who_gets_it(tmp_path: Path) -> None:
    """Also with what only somebody's notebook has; and it is small."""
    settings: Settings = {"policy": Policy.untrusted(), "credentials": lambda *asked: None}
    job = BulkJob(out=str(tmp_path), settings=settings, box=60.0)
    items = tuple(
        BulkRequest(f"gopher://h.example:25/0/{number}", f"h.example/{number}") for number in range(100)
    )
    octets = packed(job, RequestSlice(3, 8, "h.example", items, False, 1.0))
    assert b"h.example" not in octets
    assert len(octets) < 30 * len(items)
    report = fetch_packed(octets)
    assert (report.partition, report.number, dict(report.counts)) == (3, 8, {"refused": 100})
