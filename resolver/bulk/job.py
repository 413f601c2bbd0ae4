"""What holds for all slices of a run: sent to each worker, and so a value that can be pickled."""

from __future__ import annotations

from typing import Literal, TypeAlias

from protocols.values import dataclass
from resolver.settings import Settings

Format: TypeAlias = Literal["parquet", "jsonl"]

#: Requests of one slice that are under way at once, over all its hosts.
CONCURRENCY = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkJob:
    """`out` is a directory that all workers reach under this name, or a URL that fsspec knows; `ledger` is a
    directory for the ledgers where they do not go there, too. `per_host` is how many one host has under way,
    `host_rate` how many begin there a second, `box` the seconds after which a slice begins nothing more.
    With `warc` bodies go into archives, and into no files."""

    out: str
    ledger: str | None = None
    settings: Settings
    per_host: int | None = None
    host_rate: float | None = None
    format: Format = "parquet"
    warc: bool = False
    box: float
    concurrency: int = CONCURRENCY
