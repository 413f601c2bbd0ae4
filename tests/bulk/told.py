"""What a run over a cluster left in its place, as a test looks at it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator

from resolver.ledger import LedgerFault
from resolver.ledger.book import check_is_ours, connect, faults_of
from resolver.ledger.report import FinishedRow, list_finished
from tests.bulk.elsewhere import is_coming
from tests.bulk.house import House

#: Of two runs these may differ: when it was, and how often a server had to be asked.
_OF_ONE_RUN = ("attempts", "ended", "modified")

_TRIES = 1_000


def rows(out: Path) -> list[dict[str, Any]]:
    """What became of all, by URL."""
    found = [row for path in (out / "outcomes").glob("part-*") for row in _rows(path)]
    return sorted(found, key=lambda row: str(row["url"]))


def _rows(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        from pyarrow import parquet

        table: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
        return table
    return [json.loads(line) for line in path.read_text().splitlines()]


def alike(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What has to be the same in every run."""
    return [{name: row[name] for name in row if name not in _OF_ONE_RUN} for row in found]


def check(whole: Mapping[str, bytes | None], out: Path) -> None:
    """All that was asked for ended as it must, and each body is what there is: a file, or archived."""
    found = rows(out)
    archived = _archived(out)
    assert [row["url"] for row in found] == sorted(whole)
    for row in found:
        wanted = whole[row["url"]]
        if wanted is None:
            assert (row["status"], row["exit"], row["path"], row["digest"]) == ("failed", 8, None, None), row
            continue
        assert (row["status"], row["exit"], row["error"]) == ("done", 0, None), row
        octets = archived[row["url"]] if archived else (out / "bodies" / row["path"]).read_bytes()
        assert octets.endswith(wanted), row
        assert row["url"].startswith("nntp:") or octets == wanted, row
        assert row["bytes"] == len(octets)
        assert row["digest"].rpartition(":")[2] == hashlib.sha256(octets).hexdigest(), row
    named = {out / "bodies" / row["path"] for row in found if row["path"] is not None}
    assert set(bodies(out)) == named


def _archived(out: Path) -> dict[str, bytes]:
    """What archives have of each URL, if there are any."""
    by_digest, digests = dict[str, bytes](), dict[str, str]()
    for path in (out / "warc").glob("*.warc.gz"):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                if record.rec_type in ("response", "resource", "revisit"):
                    digest = record.rec_headers.get_header("WARC-Payload-Digest")
                    digests[record.rec_headers.get_header("WARC-Target-URI")] = digest
                    if record.rec_type != "revisit":
                        by_digest[digest] = record.content_stream().read()
    return {url: by_digest[digest] for url, digest in digests.items()}


def bodies(out: Path) -> Iterator[Path]:
    """All files that have their names, and what else lies there. A directory may go while it is looked at:
    who began a body and could not end it takes away what he had made for it."""
    found = (Path(folder) / name for folder, _, names in os.walk(out / "bodies") for name in names)
    return (path for path in found if path.is_file() and not is_coming(path))


def done(out: Path) -> set[str]:
    """The URLs that the ledgers say are done, as they are now."""
    ledgers = (str(path) for path in (out / "ledger").glob("*.ledger") if path.stat().st_size)
    return {row.url for ledger in ledgers for row in _became(ledger) if row.status == "done"}


def _became(ledger: str) -> list[FinishedRow]:
    """Where a worker that nobody waits for closes it in that moment, SQLite refuses to read it."""
    for _ in range(_TRIES):
        with suppress(LedgerFault):
            return list(list_finished(ledger)) if _is_begun(ledger) else []
    return list(list_finished(ledger))


def _is_begun(ledger: str) -> bool:
    """Not where a worker was killed before it had made the tables."""
    with faults_of(ledger), closing(connect(ledger)) as connection:
        return check_is_ours(connection, ledger)


def check_names(house: House, out: Path) -> None:
    """Whatever has its name is whole, while the run is not over: bodies, and tables."""
    whole = {octets for octets in house.whole.values() if octets is not None}
    for path in bodies(out):
        if ".part" not in path.name:
            octets = path.read_bytes()
            assert octets in whole or octets.partition(b"\r\n\r\n")[2] in whole, path
    for path in (out / "outcomes").glob("*.jsonl"):
        assert _rows(path), path
