"""The output of a run on a cluster, for the checks of tests."""

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
from resolver.ledger.book import connect, convert_errors, has_ledger
from resolver.ledger.report import FinishedRow, list_finished
from tests.bulk.elsewhere import is_coming
from tests.bulk.hosts import Hosts

#: Fields that may differ between two runs: the times, and the number of attempts.
_OF_ONE_RUN = ("attempts", "ended", "modified")

_TRIES = 1_000


def rows(out: Path) -> list[dict[str, Any]]:
    """Return the outcomes of all URLs, sorted by URL."""
    found = [row for path in (out / "outcomes").glob("part-*") for row in _rows(path)]
    return sorted(found, key=lambda row: str(row["url"]))


def _rows(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        from pyarrow import parquet

        table: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
        return table
    return [json.loads(line) for line in path.read_text().splitlines()]


def comparable_rows(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the outcomes without the fields that may differ between runs."""
    return [{name: row[name] for name in row if name not in _OF_ONE_RUN} for row in found]


def check(whole: Mapping[str, bytes | None], out: Path) -> None:
    """Check that each URL has the expected outcome and the expected body, as a file or archived."""
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
    """Return the archived body of each URL, empty without archives."""
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
    """Yield all files in `bodies`. A directory may disappear during the walk.

    A worker that cannot finish a body removes the directory that it created for it.
    """
    found = (Path(folder) / name for folder, _, names in os.walk(out / "bodies") for name in names)
    return (path for path in found if path.is_file() and not is_coming(path))


def done(out: Path) -> set[str]:
    """Return the URLs that the ledgers list as done now."""
    ledgers = (str(path) for path in (out / "ledger").glob("*.ledger") if path.stat().st_size)
    return {row.url for ledger in ledgers for row in _finished_rows(ledger) if row.status == "done"}


def _finished_rows(ledger: str) -> list[FinishedRow]:
    """Return the finished rows; retry, because SQLite refuses to read while an orphaned worker closes it."""
    for _ in range(_TRIES):
        with suppress(LedgerFault):
            return list(list_finished(ledger)) if _is_begun(ledger) else []
    return list(list_finished(ledger))


def _is_begun(ledger: str) -> bool:
    """Return whether the ledger has tables: its worker may have been killed before it created them."""
    with convert_errors(ledger), closing(connect(ledger)) as connection:
        return has_ledger(connection, ledger)


def check_names(hosts: Hosts, out: Path) -> None:
    """Check that each body and table with its final name is complete while the run is in progress."""
    whole = {octets for octets in hosts.whole.values() if octets is not None}
    for path in bodies(out):
        if ".part" not in path.name:
            octets = path.read_bytes()
            assert octets in whole or octets.partition(b"\r\n\r\n")[2] in whole, path
    for path in (out / "outcomes").glob("*.jsonl"):
        assert _rows(path), path
