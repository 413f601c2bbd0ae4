"""What a command line of `bulk` may say: what holds for one machine or one URL means nothing to many."""

from __future__ import annotations

from resolver.cli.config import Configuration
from resolver.cli.options import LOCAL, Found, rows
from resolver.cli.values import UsageError

#: Slices that a process has at once: threads that wait for a loop.
THREADS = 16

#: Why a word that other verbs take means nothing over many machines.
_NOT_HERE = {
    "cookies": "one file of cookies is not for many machines",
    "user": "it is for places of the command line; --netrc is for those of a list",
    "password_file": "it is for places of the command line; --netrc is for those of a list",
    "rate": "it holds for one process, and here are many: --host-rate holds for all of them",
    "jobs": "--per-host says how many at once, and the workers are as many as they are",
    "output": "--out says where to",
    "directory": "--out says where to",
    "ledger": "each run keeps ledgers below --out",
    "exists": "what is whole is known by the ledgers below --out",
    "failed": "the outcomes below --out say what failed",
}


def check(found: Found, configuration: Configuration) -> None:
    """What means nothing to it is not passed over in silence: somebody may count on it. Raises
    `UsageError`."""
    if not found.lists:
        raise UsageError("bulk takes lists of URLs: files, - for standard input, or their URLs")
    for row in rows():
        if "bulk" not in row.verbs.split() and configuration.given.get(row.name) not in (None, False, []):
            why = f": {_NOT_HERE[row.name]}" if row.name in _NOT_HERE else ""
            raise UsageError(f"bulk does not take {row.long}{why}")
    found.warc = configuration.given.get("warc")  # a habit of other verbs is a file
    if found.warc not in (None, "-"):
        raise UsageError("bulk --warc takes no FILE: there is an archive of each worker, below --out")
    if found.parquet and found.jsonl:
        raise UsageError("--parquet and --jsonl exclude one another")
    if found.out is None and not found.dry_run:
        raise UsageError("bulk saves below --out, a directory or a URL; --dry-run says what it would do")


def is_local(scheduler: str) -> bool:
    return scheduler.partition(":")[0] == LOCAL


def is_encrypted(scheduler: str) -> bool:
    """Does nobody read what goes there? What stays on this machine is not to be read by others."""
    return is_local(scheduler) or scheduler.startswith("tls://")
