"""Archives of what was fetched, in the format that archives use: WARC 1.0 and 1.1 (ISO 28500).

What is in a file is a stranger's octets, whoever wrote it. It is read within bounds: `stretch` unpacks what
was packed, `head` reads what a record says of itself, `records` goes through a file from one end to the other
and tells what is damaged, `digests` and `inspection` hold a record to what it says, `check` a whole file.
Nothing that reads opens a file: whoever does hands over a `Source`.

What is in files an `Archive` serves: a `catalogue` of all records finds the one that is meant, by its URL
(`target`) and time (`moment`), `block` reads it when it is wanted, `joining` puts together what came in
parts, and `told` reads back what was said. Who fetches from it is `resolver/warc/replay.py`.

What is fetched is written by a `Recorder`, an extra: each hop is a `capture`, of http an `exchange`, with its
`dialogue`; it becomes a `group` of records, which `writing` puts into a `volume`, with its `index`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resolver.warc.archive import Archive as Archive
    from resolver.warc.recorder import Recorder as Recorder


def __getattr__(name: str) -> object:
    """`Recorder` needs the extra `warc`, and reading does not."""
    if name == "Archive":
        from resolver.warc.archive import Archive

        return Archive
    if name == "Recorder":
        from resolver.warc.recorder import Recorder

        return Recorder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
