"""Saving a site with and without a WARC archive, compared with wget, which also writes WARC archives."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from bench.programs import program
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
    chance = random.Random(0)
    words = [chance.randbytes(chance.randrange(1, 8)).hex().encode() for _ in range(2_000)]
    for number in range(count):
        text = b" ".join(chance.choices(words, k=_SIZES.stop // 4))
        (tree / "pages" / f"{number}.bin").write_bytes(text[: chance.choice(_SIZES)])
    with nginx(tree, state, write_certificates(state)) as server:
        yield server.url("/pages/{}.bin")


@contextmanager
def _archived(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    target = Target(folder)
    with pages(folder, count) as url:
        lines = folder / "lines"
        lines.write_text("".join(f"{url.format(number)}\n" for number in range(count)))
        port = str(urlsplit(url).port)
        ours = [*RESOLVE, "get", "-q", "--progress", "none", "--sync", "never", "--allow-port", port]
        ours += ["-d", str(target.path), "-i", str(lines)]
        kept = ["--warc", str(target.path / "all.warc.gz")]
        plain = ["--warc", str(target.path / "all.warc")]
        found: list[Contestant | Missing] = [
            Contestant("resolve get --warc", [*ours, *kept], count),
            Contestant("resolve get --warc, one at a time", [*ours, *kept, "-j", "1"], count),
            Contestant("resolve get --warc, not packed", [*ours, *plain], count),
            Contestant("resolve get", ours, count),
        ]
        if wget := program("wget"):
            words = [wget.path, "-q", "--no-config", "-P", str(target.path), "-i", str(lines)]
            kept = [f"--warc-file={target.path / 'all'}", "--warc-cdx", f"--warc-tempdir={folder}"]
            found += [
                Contestant("wget --warc-file", [*words, *kept], count),
                Contestant("wget --warc-file, not packed", [*words, *kept, "--no-warc-compression"], count),
                Contestant("wget", words, count),
            ]
        else:
            found.append(Missing("wget", "wget is not installed"))
        yield [each if isinstance(each, Missing) else _checked(each, target, count) for each in found]


def _checked(each: Contestant, target: Target, count: int) -> Contestant:
    """Return the contestant with a new folder for each run, and with a check of the pages and the archive."""

    def after() -> None:
        assert len(list(target.path.glob("*.bin"))) == count, each.name
        is_kept = any("warc" in word for word in each.words)
        assert bool(list(target.path.glob("all.warc*"))) == is_kept, each.name

    return replace(each, before=target.anew, after=after)


ROWS = (
    Row(
        "archive",
        "{:,} pages of 2 to 20 KiB from nginx to the disk and into an archive",
        "rate",
        COUNT,
        10,
        _archived,
        aims=[Aim("resolve get --warc", "wget --warc-file", least=1.0)],
        seconds=120,
        long=True,
    ),
)
