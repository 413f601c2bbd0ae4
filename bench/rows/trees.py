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
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from bench.distance import run_relay
from bench.programs import Program, find_program
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
    generator, forest = random.Random(0), dict[str, bytes]()
    for number in range(files):
        index = number % DIRECTORIES
        directory = f"d{index // 10}" if index % 10 == 0 else f"d{index // 10}/e{index % 10}"
        forest[f"{directory}/file-{number:05}.bin"] = generator.randbytes(generator.randint(*SIZES))
    for name, content in forest.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(content)
    return forest


def check_tree(top: Path, forest: dict[str, bytes], name: str) -> None:
    saved = {
        path.relative_to(top).as_posix(): path.read_bytes()
        for path in top.rglob("*")
        if path.is_file() and not path.name.startswith("index.html")
    }
    assert saved == forest, f"{name} has not saved what is served"


def list_commands(
    url: str, names: Sequence[str], target: Path, *, is_reusing: bool
) -> Iterator[tuple[str, list[str], Program | None]]:
    """Yield the commands that support the task, which all save the tree below `target`/forest.

    `resolve` does not have a `Program`.
    """
    parts, jobs = urlsplit(url), str(CONNECTIONS)
    base = [*RESOLVE, "get", "-r", "-q", "-j", jobs, "--per-host", jobs, "--allow-port", str(parts.port)]
    yield "resolve get -r", [*base, "-d", str(target), url], None
    if parts.scheme == "http" and (wget2 := find_program("wget2")):
        argv = [wget2.path, "-q", "-r", "-np", "-nH", "--cut-dirs=3", "--no-config", f"--max-threads={jobs}"]
        yield "wget2", [*argv, "-P", str(target / "forest"), url], wget2
    if lftp := find_program("lftp"):
        script = f"set cmd:fail-exit yes; set xfer:log no; mirror --parallel={jobs} {url} {target}/forest"
        yield "lftp", [lftp.path, "--norc", "-c", script], lftp
    if aria2 := find_program("aria2"):
        list_file = target.with_name(f"{target.name}.list")
        list_file.write_text("".join(f"{url}{name}\n  out=forest/{name}\n" for name in names))
        argv = [aria2.path, "-q", "--no-conf", "--file-allocation=none", f"-j{jobs}", "-x1", "-s1"]
        argv += [f"--ftp-reuse-connection={'true' if is_reusing else 'false'}"]
        yield "aria2", [*argv, "-d", str(target), "-i", str(list_file)], aria2


@contextmanager
def serve_tree(name: str, tree: Path, state: Path) -> Iterator[str]:
    """Serve the tree, and yield the URL of the tree."""
    certificates = write_certificates(state)
    if name == "nginx":
        with nginx(tree, state, certificates) as server:
            yield server.url("/rounded/pub/forest/")
    else:
        site = FtpSite(tree, certificates, write_accounts(state, tree))
        with {"vsftpd": vsftpd, "proftpd": proftpd}[name](site, state) as ftp_server:
            yield f"ftp://127.0.0.1:{ftp_server.ports['plain']}/pub/forest/"


def _open_row(server: str, round_trip: float) -> Open:
    @contextmanager
    def open_row(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
        tree, state, target = folder / "tree", folder / "state", Target(folder)
        state.mkdir()
        forest = write_forest(tree / "pub" / "forest", count)

        def after(name: str) -> None:
            check_tree(target.path / "forest", forest, name)

        with serve_tree(server, tree, state) as url:
            parts = urlsplit(url)
            assert parts.port is not None
            with run_relay(parts.port, round_trip) if round_trip else nullcontext(parts.port) as port:
                far_url = parts._replace(netloc=f"127.0.0.1:{port}").geturl()
                contestants: dict[str, Contestant | Missing] = {}
                reuse = server != "vsftpd"
                for name, argv, program in list_commands(
                    far_url, list(forest), target.path, is_reusing=reuse
                ):
                    each = Contestant(name, argv, count, before=target.create, after=partial(after, name))
                    contestants[name] = (
                        each if program is None else replace(each, environment=program.environment)
                    )
                for name in ("wget2", "lftp", "aria2")[parts.scheme != "http" :]:
                    contestants.setdefault(
                        name, Missing(name, f"`tests/servers/unpack.sh {name}` unpacks it")
                    )
                yield list(contestants.values())

    return open_row


def _row(server: str, round_trip: float) -> Row:
    scheme = "http" if server == "nginx" else "ftp"
    where = f", {round_trip * 1_000:.0f} ms away" if round_trip else ""
    suffix = "-far" if round_trip else ""
    return Row(
        f"tree-{server}{suffix}",
        f"a tree of {{:,}} files of 2 to 20 KiB from {server} to the disk, {CONNECTIONS} connections{where}",
        "seconds",
        COUNT,
        20,
        _open_row(server, round_trip),
        aims=[
            Aim("resolve get -r", "lftp", maximum=1.0)
            if scheme == "ftp"
            else Aim("resolve get -r", "wget2", maximum=3.0)
        ],
        is_long=round_trip > 0 or scheme == "ftp",
    )


ROWS = tuple(_row(server, away) for server in ("nginx", "vsftpd", "proftpd") for away in (0.0, 0.04))
