"""Saving a tree of small files by commands, from a local server and with simulated network latency.

The competitors differ:

- aria2 does not support directories. aria2 gets a list of all files, and therefore sends fewer requests.
  With vsftpd, aria2 opens a new connection for each file, because reusing a connection causes a timeout of
  a minute.
- wget2 does not support ftp, and also saves the index pages.
- With nginx, lftp requests the length of each file before it fetches the file.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from bench.distance import far_away
from bench.programs import Program, program
from bench.row import RESOLVE, Aim, Contestant, Missing, Open, Row, Target
from tests.servers.certificates import write_certificates
from tests.servers.ftp_servers import FtpSite, proftpd, vsftpd
from tests.servers.http_servers import nginx
from tests.servers.namespace import write_accounts

COUNT = 2_000
CONNECTIONS = 8
DIRECTORIES = 100
SIZES = 2_048, 20_480


def write_forest(top: Path, files: int) -> dict[str, bytes]:
    """Write ten directories with nine subdirectories each; return the contents of all files by path."""
    chance, forest = random.Random(0), dict[str, bytes]()
    for number in range(files):
        place = number % DIRECTORIES
        where = f"d{place // 10}" if place % 10 == 0 else f"d{place // 10}/e{place % 10}"
        forest[f"{where}/file-{number:05}.bin"] = chance.randbytes(chance.randint(*SIZES))
    for name, octets in forest.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(octets)
    return forest


def check(top: Path, forest: dict[str, bytes], name: str) -> None:
    came = {
        path.relative_to(top).as_posix(): path.read_bytes()
        for path in top.rglob("*")
        if path.is_file() and not path.name.startswith("index.html")
    }
    assert came == forest, f"{name} has not saved what is served"


def words_of(
    url: str, names: Sequence[str], target: Path, *, anew: bool
) -> Iterator[tuple[str, list[str], Program | None]]:
    """Yield the commands that support the task, which all save the tree below `target`/forest.

    `resolve` does not have a `Program`.
    """
    there, many = urlsplit(url), str(CONNECTIONS)
    ours = [*RESOLVE, "get", "-r", "-q", "-j", many, "--per-host", many, "--allow-port", str(there.port)]
    yield "resolve get -r", [*ours, "-d", str(target), url], None
    if there.scheme == "http" and (wget2 := program("wget2")):
        words = [wget2.path, "-q", "-r", "-np", "-nH", "--cut-dirs=3", "--no-config", f"--max-threads={many}"]
        yield "wget2", [*words, "-P", str(target / "forest"), url], wget2
    if lftp := program("lftp"):
        script = f"set cmd:fail-exit yes; set xfer:log no; mirror --parallel={many} {url} {target}/forest"
        yield "lftp", [lftp.path, "--norc", "-c", script], lftp
    if aria2 := program("aria2"):
        listed = target.with_name(f"{target.name}.list")
        listed.write_text("".join(f"{url}{name}\n  out=forest/{name}\n" for name in names))
        words = [aria2.path, "-q", "--no-conf", "--file-allocation=none", f"-j{many}", "-x1", "-s1"]
        words += [f"--ftp-reuse-connection={'false' if anew else 'true'}"]
        yield "aria2", [*words, "-d", str(target), "-i", str(listed)], aria2


@contextmanager
def serving(name: str, tree: Path, state: Path) -> Iterator[str]:
    """Serve the tree, and yield the URL of the tree."""
    certificates = write_certificates(state)
    if name == "nginx":
        with nginx(tree, state, certificates) as server:
            yield server.url("/rounded/pub/forest/")
    else:
        site = FtpSite(tree, certificates, write_accounts(state, tree))
        with {"vsftpd": vsftpd, "proftpd": proftpd}[name](site, state) as site_of_files:
            yield f"ftp://127.0.0.1:{site_of_files.ports['plain']}/pub/forest/"


def _opened(server: str, round_trip: float) -> Open:
    @contextmanager
    def opened(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
        tree, state, target = folder / "tree", folder / "state", Target(folder)
        state.mkdir()
        forest = write_forest(tree / "pub" / "forest", count)

        def after(name: str) -> None:
            check(target.path / "forest", forest, name)

        with serving(server, tree, state) as url:
            near = urlsplit(url)
            assert near.port is not None
            with far_away(near.port, round_trip) if round_trip else nullcontext(near.port) as port:
                there = near._replace(netloc=f"127.0.0.1:{port}").geturl()
                found: dict[str, Contestant | Missing] = {}
                for name, words, other in words_of(there, list(forest), target.path, anew=server == "vsftpd"):
                    each = Contestant(name, words, count, before=target.anew, after=partial(after, name))
                    found[name] = each if other is None else each.within(other.environment)
                for name in ("wget2", "lftp", "aria2")[near.scheme != "http" :]:
                    found.setdefault(name, Missing(name, f"`tests/servers/unpack.sh {name}` unpacks it"))
                yield list(found.values())

    return opened


def _row(server: str, round_trip: float) -> Row:
    scheme = "http" if server == "nginx" else "ftp"
    where = f", {round_trip * 1_000:.0f} ms away" if round_trip else ""
    near = "-far" if round_trip else ""
    return Row(
        f"tree-{server}{near}",
        f"a tree of {{:,}} files of 2 to 20 KiB from {server} to the disk, {CONNECTIONS} connections{where}",
        "seconds",
        COUNT,
        20,
        _opened(server, round_trip),
        aims=[
            Aim("resolve get -r", "lftp", most=1.0)
            if scheme == "ftp"
            else Aim("resolve get -r", "wget2", most=3.0)
        ],
        long=round_trip > 0 or scheme == "ftp",
    )


ROWS = tuple(_row(server, away) for server in ("nginx", "vsftpd", "proftpd") for away in (0.0, 0.04))
