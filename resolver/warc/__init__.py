"""Archives of retrieved objects, in the format of web archives: WARC 1.0 and 1.1 (ISO 28500).

The bytes of a file are untrusted, whichever program wrote it, and limits apply to reading them. `records`
reads a file from end to end: it decompresses members, reads the heads of records and reports damage. `check`
compares records and whole files with their digests and lengths. The readers do not open files; their caller
passes a `RecordSource`.

An `Archive` serves the objects in files. A `catalog` of all records finds a record by its URL (`http`) and
time (`archive`). The catalog reads blocks on demand and joins the ranges of a response that was received in
several requests. `metadata` reads the stored dialogue. `replay` retrieves from an archive.

A `Recorder`, which needs the extra `warc`, writes an archive. Each hop is a `capture`. The capture becomes a
`group` of records, which `writing` puts into a file, with its `index`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resolver.warc.archive import Archive as Archive
    from resolver.warc.recorder import Recorder as Recorder


def __getattr__(name: str) -> object:
    """Import `Archive` or `Recorder` on first use: only `Recorder` needs the extra `warc`."""
    if name == "Archive":
        from resolver.warc.archive import Archive

        return Archive
    if name == "Recorder":
        from resolver.warc.recorder import Recorder

        return Recorder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
