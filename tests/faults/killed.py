"""Save a file repeatedly, killed before each call that changes the file system; then finish.

`python -m tests.faults.killed FOLDER UMASK EVERY FIRST` prints a JSON object for each such moment, or for one
of EVERY from FIRST on, with the result of the next run. Processes are forked here, where no threads run yet.
The object is a file, so no server is needed.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

import trio

from protocols.file.dialogue import guess_media_type
from resolver import ResolveError, Resolver
from resolver.files.sidecar import FORMAT
from resolver.transfer.saving import Exists

#: LARGE is written to a partial file, SMALL is held in memory until it is complete.
LARGE, SMALL = bytes(range(256)) * 300, bytes(range(256)) * 20
CALLS = (
    *(
        "fchmod",
        "fsync",
        "ftruncate",
        "link",
        "mkdir",
        "open",
        "removexattr",
        "rename",
        "replace",
        "sendfile",
    ),
    *("setxattr", "unlink", "utime", "write"),
)
KILLED = 99

#: Rows: the content, the `exists` setting, the content of the existing file, and whether to write a sidecar.
#: With "resume" the existing file is a prefix of the content, or of another object and then restored.
#: With a sidecar, an existing file has a sidecar before the save, too.
HELD: tuple[tuple[bytes, Exists, bytes | None, bool], ...] = (
    (LARGE, "fail", None, True),
    (LARGE, "replace", b"older", False),
    (LARGE, "resume", LARGE[:20_000], False),
    (LARGE, "resume", b"older" * 4_000, False),
    (LARGE, "rename", b"older", False),
    (LARGE, "replace", b"older", True),
    (SMALL, "fail", None, False),
    (SMALL, "fail", None, True),
    (SMALL, "replace", b"older", False),
)


class CountedCalls:
    """A counter that ends the process, as SIGKILL does, before the call with this number, from 1."""

    at_work: ClassVar[CountedCalls | None] = None

    def __init__(self, number: int) -> None:
        self.left = number
        CountedCalls.at_work = self

    def count(self) -> None:
        self.left -= 1
        if self.left == 0:
            os._exit(KILLED)

    def of(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **more: object) -> object:
            self.count()
            return real(*arguments, **more)

        return call


def kill_before(number: int) -> None:
    calls = CountedCalls(number)
    for name in CALLS:
        if hasattr(os, name):  # only some systems have extended attributes
            setattr(os, name, calls.of(getattr(os, name)))


def save(source: Path, target: Path, exists: Exists, meta: bool) -> str:
    async def main() -> None:
        async with Resolver() as session:
            await session.save(source.as_uri(), str(target), exists=exists, make_directory=True, meta=meta)

    try:
        trio.run(main)
    except ResolveError as error:
        return f"{type(error).__name__}: {error.message}"
    return "done"


def run_in_child(action: Callable[[], str], at: int | None) -> tuple[int, str]:
    """Run the action in a child, killed before call `at`; return its exit status and its result."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        # the end of a process does not lose data in the page cache, so fsync is not needed
        os.fsync = lambda fd: None
        if at is not None:
            kill_before(at)
        os.write(writer, action().encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        said = pipe.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def main(folder: Path, every: int, first: int) -> None:
    importlib.import_module("protocols.file.dialogue")  # imported once here, and not in every child process
    guess_media_type(b"object")
    for row, (content, exists, held, meta) in enumerate(HELD):
        source = folder / f"source{row}"
        source.write_bytes(content)
        number = 1 + (first + row) % every
        while run_moment(source, folder / f"{row}-{number}", exists, held, meta, number):
            number += every


def run_moment(
    source: Path, place: Path, exists: Exists, held: bytes | None, meta: bool, number: int
) -> bool:
    """Kill a run before call `number`, then run to the end; return whether call `number` exists."""
    place.mkdir()
    target = place / "object"
    if held is not None:
        target.write_bytes(held)
    if meta and held is not None:
        described = {"format": FORMAT, "digests": {"sha256": hashlib.sha256(held or b"").hexdigest()}}
        sidecar_of(target).write_text(json.dumps(described, indent=2))
    action = partial(save, source, target, exists, meta)
    status, _ = run_in_child(action, number)
    left_then = sorted(os.listdir(place))
    if status == KILLED:
        then = describes(target)
        again, said = run_in_child(action, None)
        found = report(source.read_bytes(), exists, number, place, left_then, again, said)
        print(json.dumps({**found, "sidecar": [then, describes(target)] if meta else None}), flush=True)
    return status == KILLED


def sidecar_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.meta.json")


def describes(target: Path) -> bool | None:
    """Return whether the sidecar describes the file; None without a sidecar."""
    if not sidecar_of(target).exists():
        return None
    digest: object = json.loads(sidecar_of(target).read_text())["digests"]["sha256"]
    return target.exists() and digest == hashlib.sha256(target.read_bytes()).hexdigest()


def report(
    content: bytes, exists: Exists, number: int, place: Path, left_then: list[str], again: int, said: str
) -> dict[str, object]:
    """Return the files that the killed run left, and those that the next run left."""
    name = "object.2" if exists == "rename" else "object"
    names = set(os.listdir(place))
    right = again == 0 and (place / name).exists() and (place / name).read_bytes() == content
    expected = {"object", name, "object.meta.json"}
    if left_then == ["object", "object.2"]:  # killed after the last step: the next run makes another file
        expected |= {"object.3"}
    return {
        "exists": exists,
        "size": len(content),
        "killed_before": number,
        "left_then": left_then,
        "said": said,
        "after": "right" if right else "wrong",
        "mode": stat.S_IMODE((place / name).stat().st_mode) if right else None,
        "left": sorted(names - expected),
    }


if __name__ == "__main__":
    os.umask(int(sys.argv[2], 8))
    main(Path(sys.argv[1]), *map(int, sys.argv[3:]))
