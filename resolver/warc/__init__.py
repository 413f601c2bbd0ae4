"""Web archives of retrieved objects, in the formats WARC 1.0 and 1.1 (ISO 28500).

The bytes of a WARC file are untrusted, even if this package wrote the file, so all reads have limits. The
module `records` reads a file sequentially. The module `records` decompresses gzip members, parses record
headers and reports damage. The module `check` compares records with their digests and lengths. These modules
do not open files, because the caller passes a `RecordSource`.

An `Archive` serves the objects of WARC files. The module `catalog` finds a record by its URL and time, reads
blocks on demand, and joins the ranges of a resumed download. The module `metadata` reads the recorded
protocol exchange (dialogue). The module `replay` retrieves objects from an archive.

A `Recorder` writes an archive. The module `capture` records one request and the
response; each redirect is a separate capture. The module `group` converts a capture to records, `recorder`
writes the records to a file, and `index` writes the index of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resolver.warc.archive import Archive as Archive
    from resolver.warc.recorder import Recorder as Recorder


def __getattr__(name: str) -> object:
    """Import `Archive` or `Recorder` on first use."""
    if name == "Archive":
        from resolver.warc.archive import Archive

        return Archive
    if name == "Recorder":
        from resolver.warc.recorder import Recorder

        return Recorder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
