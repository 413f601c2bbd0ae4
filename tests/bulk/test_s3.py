"""A run into a bucket, with the usual S3 client (s3fs)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.bulk import outcomes
from tests.bulk.bucket import NAME, fetch, open_bucket
from tests.bulk.hosts import CHECKOUT, Hosts
from tests.hang import HANG
from tests.sampled import sampled

PLACE = f"s3://{NAME}/run"

#: Every fifth of the forty hosts is used: eight hosts, each with a separate port.
EVERY = 5


@pytest.fixture(name="bucket")
def _bucket() -> Iterator[dict[str, str]]:
    with open_bucket() as bucket:
        yield bucket


def bulk(
    wanted: Iterable[str], ports: Iterable[int], words: Sequence[str], bucket: Mapping[str, str]
) -> dict[str, Any]:
    """Run the command on these URLs; return its summary."""
    allowed = [word for port in sorted(ports) for word in ("--allow-port", str(port))]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "resolver", "bulk", "-", "--config", "none", "--progress", "none"),
            *("--scheduler", "local:1", "--out", PLACE, "--jsonl", "--json", *allowed, *words),
        ],
        input="".join(f"{url}\n" for url in wanted),
        cwd=CHECKOUT,
        env=bucket,
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert (done.returncode, done.stderr) == (8, ""), done  # some URLs are missing on the host
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("words", sampled([[], ["--warc"]], lambda words: None))
def test_run_into_bucket_saves_files_and_skips_done(
    words: list[str], hosts: Hosts, bucket: dict[str, str], tmp_path: Path
) -> None:
    ports = sorted(hosts.ports)[::EVERY]
    whole = {url: octets for url, octets in hosts.whole.items() if urlsplit(url).port in ports}
    missing = {url for url, octets in whole.items() if octets is None}
    there = len(whole) - len(missing)

    first = bulk(whole, ports, words, bucket)
    assert (first["done"], first["skipped"], first["failed"]) == (there, 0, len(missing))
    fetch(PLACE, tmp_path / "first", bucket)
    outcomes.check(whole, tmp_path / "first")

    mark = "".join(["bucket", *words])
    hosts.mark(mark)
    second = bulk(whole, ports, words, bucket)
    assert (second["done"], second["skipped"], second["failed"]) == (0, there, len(missing))
    assert hosts.asked(mark).keys() == missing
    fetch(PLACE, tmp_path / "second", bucket)
    assert outcomes.comparable_rows(outcomes.rows(tmp_path / "second")) == outcomes.comparable_rows(
        outcomes.rows(tmp_path / "first")
    )
