"""Saving a site with and without a WARC archive, compared with wget, which also writes WARC archives."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from bench.programs import find_program
from bench.row import RESOLVE, Aim, Contestant, Missing, Row, Target
from tests.servers.certificates import write_certificates
from tests.servers.http_servers import nginx

COUNT = 2_000
#: The range of page sizes in bytes; the pages compress like text.
_SIZES = range(2_048, 20_480)


@contextmanager
def pages(folder: Path, count: int) -> Iterator[str]:
    """Serve pages by nginx, and yield their URL; `{}` in the URL is replaced by the number of the page.

    The file name extension of the pages prevents compression by nginx.
    """
    tree, state = folder / "tree", folder / "state"
    (tree / "pages").mkdir(parents=True)
    state.mkdir()
    generator = random.Random(0)
    words = [generator.randbytes(generator.randrange(1, 8)).hex().encode() for _ in range(2_000)]
    for number in range(count):
        text = b" ".join(generator.choices(words, k=_SIZES.stop // 4))
        (tree / "pages" / f"{number}.bin").write_bytes(text[: generator.choice(_SIZES)])
    with nginx(tree, state, write_certificates(state)) as server:
        yield server.url("/pages/{}.bin")


@contextmanager
def _open_row(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    target = Target(folder)
    with pages(folder, count) as url:
        lines = folder / "lines"
        lines.write_text("".join(f"{url.format(number)}\n" for number in range(count)))
        port = str(urlsplit(url).port)
        base = [*RESOLVE, "get", "-q", "--progress", "none", "--sync", "never", "--allow-port", port]
        base += ["-d", str(target.path), "-i", str(lines)]
        warc = ["--warc", str(target.path / "all.warc.gz")]
        plain = ["--warc", str(target.path / "all.warc")]
        contestants: list[Contestant | Missing] = [
            Contestant("resolve get --warc", [*base, *warc], count),
            Contestant("resolve get --warc, one at a time", [*base, *warc, "-j", "1"], count),
            Contestant("resolve get --warc, not packed", [*base, *plain], count),
            Contestant("resolve get", base, count),
        ]
        if wget := find_program("wget"):
            argv = [wget.path, "-q", "--no-config", "-P", str(target.path), "-i", str(lines)]
            warc = [f"--warc-file={target.path / 'all'}", "--warc-cdx", f"--warc-tempdir={folder}"]
            contestants += [
                Contestant("wget --warc-file", [*argv, *warc], count),
                Contestant("wget --warc-file, not packed", [*argv, *warc, "--no-warc-compression"], count),
                Contestant("wget", argv, count),
            ]
        else:
            contestants.append(Missing("wget", "wget is not installed"))
        yield [each if isinstance(each, Missing) else _add_check(each, target, count) for each in contestants]


def _add_check(each: Contestant, target: Target, count: int) -> Contestant:
    """Return the contestant with a new folder for each run, and with a check of the pages and the archive."""

    def after() -> None:
        assert len(list(target.path.glob("*.bin"))) == count, each.name
        is_archived = any("warc" in word for word in each.command)
        assert bool(list(target.path.glob("all.warc*"))) == is_archived, each.name

    return replace(each, before=target.create, after=after)


ROWS = (
    Row(
        "archive",
        "{:,} pages of 2 to 20 KiB from nginx to the disk and into an archive",
        "rate",
        COUNT,
        10,
        _open_row,
        aims=[Aim("resolve get --warc", "wget --warc-file", minimum=1.0)],
        max_seconds=120,
        is_long=True,
    ),
)
