"""Runs of `get -r --delete` in a simulated world: the command mirrors a directory tree over ftp or http."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fixtures.ftp.behavior import Behavior
from fixtures.ftp.server import MockFtp
from fixtures.ftp.tree import File, Folder
from fixtures.http.server import HttpServer
from fixtures.http.site import Page
from resolver.cli import main as resolve
from resolver.files import commit
from resolver.testing.world import Schedule, World
from tests.world.scenario import GREETINGS, OWN, Broken, check_content, content_of, read, walk

_HOST, _ADDRESS = "one.example", "93.184.216.1"
_NAMES = ("a.bin", "b.bin", "c.bin", "sub/d.bin", "sub/e.bin", "sub/deep/f.bin", "g/h.bin")
_SURPLUS = ("gone.bin", "sub/gone.bin", "old/gone.bin")
_SIZES = (0, 1, 700, 5_000, 70_000)
#: The documented exit statuses: success, and one exit status for each class of errors.
_STATUSES = range(16)


class TreeRun:
    """A run of the command in a new directory, with the faults of a schedule.

    At the start, the local tree lacks some files of the server, and has surplus files.
    """

    def __init__(self, schedule: Schedule, directory: str) -> None:
        source = random.Random(f"tree {schedule.seed}")
        names = source.sample(_NAMES, source.randint(1, len(_NAMES)))
        self._wanted = {name: content_of(f"t{_NAMES.index(name)}", source.choice(_SIZES)) for name in names}
        self._surplus = dict.fromkeys(_SURPLUS, b"surplus")
        self._scheme = source.choice(("ftp", "http"))
        self._jobs = source.randint(1, 4)
        self.world = World(directory, schedule)
        self._out = os.path.join(directory, "out")
        held = {name: self._wanted[name] for name in names if source.random() < 0.5}
        self._synced = set(held)
        self._kept = set(held)  # The files that no life may lose, not even a life that follows a killed life.
        for name, content in {**self._surplus, **held}.items():
            path = self._path(name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
        self.transfers = 0
        self._serve()

    def _path(self, name: str) -> str:
        return os.path.join(self.world.path, "tree", name)

    def _serve(self) -> None:
        network = self.world.network
        network.name(_HOST, _ADDRESS)
        root: dict[bytes, Any] = {}
        pages: dict[str, Page] = {}
        for name, content in self._wanted.items():
            *above, last = name.split("/")
            folder = root
            for part in above:
                folder = folder.setdefault(part.encode(), Folder()).items
            folder[last.encode()] = File(content)
            pages[f"/tree/{name}"] = Page(
                content, "application/octet-stream", headers=(("ETag", f'"{name}"'),)
            )
        _add_indexes(pages, "/tree/", root)
        greeting = random.Random(f"greeting {self.world.schedule.seed}").choice(GREETINGS)
        self._ftp = MockFtp(Behavior(greeting=greeting), root=Folder({b"tree": Folder(root)}))
        network.listen(_HOST, 21, self._ftp.handle)
        network.listen(_HOST, 80, HttpServer(pages, {}, None, 80).handle)

    def live(self, *, calm: bool) -> None:
        words = ["get", "-r", "--delete", "--yes", "-q", "--json", "--progress", "none", "--exists", "resume"]
        words += ["-t", "3", "--idle-timeout", "20", "--connect-timeout", "20", "-j", str(self._jobs)]
        words += ["-d", self.world.path, f"{self._scheme}://{_HOST}/tree/"]
        with _output(self._out):
            status = self.world.command(lambda: resolve(words))
        now = self._complete()
        # To compare an existing file with the server, the command renames the file to NAME.part. If the
        # process is killed, the file still has this name.
        there = now | {
            name for name, content in self._wanted.items() if read(f"{self._path(name)}.part") == content
        }
        if self.world.lost_power:
            self._kept = set(self._synced)
        # The mock server replies 226 after a cut, as if a firewall had ended the data connection. A client
        # cannot detect a listing without its last lines. A last line without a line end prevents deletions.
        if self._scheme == "ftp" and self.world.network.cuts:
            status = None
            if {b"\n", b""}.intersection(self.world.network.cuts):
                self._kept &= there
                self._synced &= there
        self.transfers += len(self._wanted)
        if lost := sorted(self._kept - there):
            raise Broken(f"the run removed or changed complete files that the server lists: {lost}")
        self._kept |= now
        self._check_files(calm=calm)
        if self.world.network.problems or self._ftp.violations or self.world.left:
            raise Broken(f"{self.world.network.problems} {self._ftp.violations} {self.world.left}")
        if (most := self.world.most_calls.get(commit._perform, 0)) > 1:
            raise Broken(f"{most} group commits at the same time")
        if status is not None and (status not in _STATUSES or (status == 0 and now != set(self._wanted))):
            raise Broken(f"exit status {status} with {len(now)} of {len(self._wanted)} files")
        if calm and status != 0:
            raise Broken(f"exit status {status} without a fault: {(read(self._out) or b'')[-500:]!r}")

    def _complete(self) -> set[str]:
        return {name for name, content in self._wanted.items() if read(self._path(name)) == content}

    def _check_files(self, *, calm: bool) -> None:
        for path in walk(self.world.path):
            name = os.path.relpath(path, self._path(""))
            base, _, suffix = name.partition(".bin")
            if name in self._wanted:
                check_content(name, read(path) or b"", self._wanted[name])
            elif name in self._surplus:
                if calm:
                    raise Broken(f"{name} was not deleted")
            elif suffix not in OWN or base + ".bin" not in self._wanted:
                raise Broken(f"unknown file {name}")
            elif calm:
                raise Broken(f"{name} is left")


def _add_indexes(pages: dict[str, Page], path: str, items: dict[bytes, Any]) -> None:
    """Add index pages in the format of nginx for a directory and its subdirectories."""
    lines = [f"<html><head><title>Index of {path}</title></head><body><h1>Index of {path}</h1><hr><pre>"]
    lines.append('<a href="../">../</a>')
    for name, node in items.items():
        text = name.decode() + "/" * isinstance(node, Folder)
        size = "-" if isinstance(node, Folder) else str(len(node.content))
        lines.append(f'<a href="{text}">{text}</a>  06-Nov-1994 08:49  {size}')
        if isinstance(node, Folder):
            _add_indexes(pages, path + text, node.items)
    pages[path] = Page("\n".join([*lines, "</pre><hr></body></html>"]).encode(), "text/html")


@contextmanager
def _output(path: str) -> Iterator[None]:
    """Redirect standard output and standard error to a file during the `with` block."""
    sys.stdout.flush()
    sys.stderr.flush()
    held = [os.dup(1), os.dup(2)]
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        yield
    finally:
        for number, each in enumerate(held, 1):
            os.dup2(each, number)
            os.close(each)
        os.close(fd)
