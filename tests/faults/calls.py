"""Run commands repeatedly; each time one system call fails, once.

`python -m tests.faults.calls FOLDER MOST SEED COMMAND...` prints a JSON object for each run with a failure. A
run without failures records the calls of a command on files, sockets and threads. Of the calls with the same
name and the same kind of object, the first, the last and random others are tried, at most MOST, with each of
the errors in `ERRORS`. After each run with a failure, the same command runs once without one.

A call is identified by its name, its object, and its number among the calls of this name on this object. So
the same call fails on an idle and on a busy machine. Calls whose number depends on when data arrives are not
tried.

`python -m tests.faults.calls FOLDER MOST SEED | python -m tests.faults.calls_table` prints the table of the
page on reliability. The processes are forked with all modules loaded, so the calls of the start of Python are
not tried.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import trio

import fixtures.ftp
import fixtures.http
from fixtures.ftp.tree import File, Folder
from fixtures.http import Page
from resolver.cli import run as resolve
from tests.faults.intercept import SystemCall, hold_calls, supervise, unread
from tests.faults.killed_with_archive import whole

_STORAGE = ("EIO", "ENOSPC", "EDQUOT")
_NETWORK = ("ECONNRESET", "ETIMEDOUT", "ENOMEM", "EINTR")
_NEW = ("EMFILE", "ENOMEM")
_NAME = ("EACCES", "EIO", "ENOMEM")
_CHANGED_NAME = ("EACCES", "EIO", "ENOSPC", "EDQUOT")

#: The errors of each call that its manual page lists and that an application meets.
ERRORS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("read", "pread64", "readv"), ("EIO", "EINTR", "ENOMEM")),
    **dict.fromkeys(("write", "pwrite64", "writev"), (*_STORAGE, "EINTR")),
    **dict.fromkeys(("sendfile", "splice", "copy_file_range"), (*_STORAGE, "ENOMEM", "EINTR")),
    **dict.fromkeys(("fsync", "fdatasync", "syncfs"), _STORAGE),
    **dict.fromkeys(("ftruncate", "fallocate"), (*_STORAGE, "EINTR")),
    **dict.fromkeys(("recvfrom", "recvmsg"), _NETWORK),
    **dict.fromkeys(("sendto", "sendmsg"), ("ETIMEDOUT", "ENOMEM", "EINTR")),
    **dict.fromkeys(("rename", "renameat", "renameat2", "link", "linkat"), _CHANGED_NAME),
    **dict.fromkeys(("mkdir", "mkdirat"), _CHANGED_NAME),
    **dict.fromkeys(("unlink", "unlinkat", "rmdir"), ("EACCES", "EIO")),
    **dict.fromkeys(("fstat", "newfstatat", "stat", "lstat", "statx"), _NAME),
    **dict.fromkeys(("access", "faccessat", "faccessat2", "readlink", "readlinkat"), _NAME),
    **dict.fromkeys(("fchmod", "fchmodat", "utimensat"), ("EACCES", "EIO")),
    **dict.fromkeys(("fsetxattr", "fremovexattr", "fgetxattr"), ("EIO", "ENOSPC", "EDQUOT")),
    **dict.fromkeys(("epoll_create1", "eventfd2", "pipe2", "socketpair", "dup"), _NEW),
    **dict.fromkeys(("clone", "clone3"), ("EAGAIN", "ENOMEM")),
    "openat": (*_NEW, "EACCES", "EIO", "ENOSPC", "EDQUOT", "EINTR"),
    "getdents64": ("EIO", "ENOMEM"),
    "flock": ("EINTR", "ENOMEM"),
    "getrandom": ("EINTR", "EAGAIN"),
    "socket": (*_NEW, "EACCES"),
    "connect": ("ECONNRESET", "ETIMEDOUT", "EACCES", "EINTR"),
    "getsockopt": ("ENOMEM",),
    "setsockopt": ("ENOMEM",),
    "getsockname": ("ENOMEM",),
    "getpeername": ("ENOMEM",),
    "shutdown": ("ECONNRESET",),
    "epoll_ctl": ("ENOMEM", "ENOSPC"),
    "epoll_wait": ("EINTR",),
    "close": ("EIO", "ENOSPC", "EDQUOT"),
}

#: LARGE is written to a partial file, SMALL is held in memory, and HUGE has two segments.
LARGE, SMALL, HUGE = bytes(range(256)) * 300, b"small\n" * 100, bytes(range(251)) * 10_000
OLD = b"older\n"

_STATES = (".part-state", ".part-state.new")
_REMOVALS = ("unlink", "unlinkat", "rmdir")

_STATUSES = {*range(16)}

#: Maximum duration of a run in seconds.
_LONGEST = 60
_SITE = {
    "/large": Page(LARGE, parts=True, headers=(("ETag", '"1"'),)),
    "/small": Page(SMALL, headers=(("Last-Modified", "Sun, 09 Sep 2001 01:46:40 GMT"),)),
    "/huge": Page(HUGE, parts=True, headers=(("ETag", '"2"'),)),
}
_TREE = Folder(
    {
        b"top": Folder(
            {
                b"a.bin": File(LARGE),
                b"b.txt": File(SMALL),
                b"same.txt": File(SMALL),
                b"sub": Folder({b"c.txt": File(SMALL)}),
            }
        )
    }
)


@dataclass(frozen=True)
class Command:
    """A command, the files before it, and the files after it; `{http}` and `{ftp}` are ports."""

    words: str
    after: Mapping[str, bytes]
    before: Mapping[str, bytes] = field(default_factory=dict)
    #: Files of the command that are not objects.
    own: tuple[str, ...] = ()
    archive: str = ""
    #: The content of the file `list`.
    urls: tuple[str, ...] = ()
    #: Whether a run exits with an error if all files are complete.
    stops_if_exists: bool = False

    def of(self, ports: Mapping[str, int]) -> list[str]:
        given = f"get --progress none --retry-delay 0.01 --idle-timeout 3 {self.words}".format_map(ports)
        return [*given.split(), *(word for port in ports.values() for word in ("--allow-port", str(port)))]


_URL = "http://127.0.0.1:{http}"
COMMANDS: Mapping[str, Command] = {
    "get": Command(f"-d out {_URL}/large", {"out/large": LARGE}, stops_if_exists=True),
    "get --ledger": Command(
        "-i list --ledger run.db -d out -j 1",
        {"out/large": LARGE, "out/small": SMALL, "out/b.txt": SMALL},
        own=("list", "run.db", "run.db-wal", "run.db-shm", "run.db-journal"),
        urls=(f"{_URL}/large", f"{_URL}/small", "ftp://127.0.0.1:{ftp}/top/b.txt"),
    ),
    "get -r --delete": Command(
        "-r -j 1 --exists newer --delete --yes -d out ftp://127.0.0.1:{ftp}/top",
        {"out/top/a.bin": LARGE, "out/top/b.txt": SMALL}
        | {"out/top/same.txt": SMALL, "out/top/sub/c.txt": SMALL},
        before={"out/top/b.txt": OLD, "out/top/same.txt": SMALL}
        | {"out/top/gone.txt": OLD, "out/top/old/gone.txt": OLD},
    ),
    "get --warc": Command(
        f"--exists skip --warc a.warc -d out {_URL}/large {_URL}/small",
        {"out/large": LARGE, "out/small": SMALL},
        own=("a.warc", "a.cdxj"),
        archive="a.warc",
    ),
    "get --segments": Command(f"--segments 2 -d out {_URL}/huge", {"out/huge": HUGE}, stops_if_exists=True),
}


class Call(NamedTuple):
    """A system call that can fail: its name, the kind of its object, the object, and its number."""

    name: str
    on: str
    #: A path, or the number of a connection.
    object: str
    number: int


# ---- a run


def run(place: Path, words: list[str], calls: Calls | None = None) -> tuple[int, str]:
    """Run the command in a child; return its exit status and its messages."""
    said = place.parent / "said"
    child = os.fork()
    if child == 0:
        _become(place, said, words, calls is not None)
    status = supervise(child, calls.decide) if calls else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, said.read_text(errors="replace")


def _become(place: Path, said: Path, words: list[str], is_held: bool) -> None:
    try:
        os.chdir(place)
        stream = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        os.closerange(3, 100)
        sys.argv = ["resolve", *words]
        signal.alarm(_LONGEST)
        if is_held:
            hold_calls(ERRORS)
        status = 0
        try:
            resolve()
        except SystemExit as ended:
            status = int(ended.code or 0)
        os._exit(status)
    except BaseException:  # noqa: BLE001 - the interpreter prints it, and exits with 1
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


#: Parts of file names, and the kind of the file.
_FILES = {
    "*": "file",  # a file with a temporary name
    "config.toml": "configuration",
    "/dev/urandom": "random bytes",
    "run.db": "ledger",
    ".warc": "archive",
    ".part-state": "state",
}
_CREATING = {
    **dict.fromkeys(("clone", "clone3"), "thread"),
    **dict.fromkeys(("epoll_create1", "socketpair", "eventfd2"), "loop"),
    "pipe2": "pipe",
    "getrandom": "random bytes",
}
#: The end of the name of a connection that had data to receive before.
_LATER = ", later"
_RECEIVING = frozenset(("recvfrom", "recvmsg", "read", "splice"))
#: The part of a temporary name that differs from run to run.
_RANDOM = re.compile(r"[0-9a-f]{8,}")


class Calls:
    """The calls of a run that can fail, in their order; the first that equals `failing` fails."""

    def __init__(self, place: Path, failing: Call | None = None, error: str = "") -> None:
        self.tried: list[Call] = []
        self.has_failed = False
        self._place = place
        self._failing, self._error = failing, error
        self._numbers: Counter[tuple[str, str, str]] = Counter()
        #: The names of the connections, by path.
        self._connections: dict[str, str] = {}
        self._received: set[str] = set()

    def decide(self, call: SystemCall) -> int:
        """Return the number of the error with which the call fails, or 0."""
        if (found := self._object_of(call)) is None:
            return 0
        self._numbers[call.name, *found] += 1
        tried = Call(call.name, *found, self._numbers[call.name, *found])
        self.tried.append(tried)
        if tried == self._failing:
            self.has_failed = True
            return int(getattr(errno, self._error))
        # The first receive of each connection has to wait, as it does if the server is slow.
        return errno.EAGAIN if _is_first_receive(tried) else 0

    def _object_of(self, call: SystemCall) -> tuple[str, str] | None:
        """Return the kind of the object and the object; None if the call is not tried."""
        if (kind := _CREATING.get(call.name)) is not None:
            return kind, ""
        if call.name == "socket":
            return ("network", "") if call.arguments[0] in (socket.AF_INET, socket.AF_INET6) else None
        path = call.path()
        if path.startswith("socket:"):
            return self._connection_of(call, path)
        if path.endswith(" (deleted)") or not path.startswith("/"):
            return None  # a pipe, an event descriptor, or a closed descriptor
        if path == f"{self._place.parent}/said":
            return "output", ""
        name, inside = path, f"{self._place}/"
        if path.startswith(inside):
            name = _RANDOM.sub("*", path.removeprefix(inside))
        for word, kind in _FILES.items():
            if word in name:
                return kind, name
        is_opened = call.name == "openat" and call.arguments[2] & os.O_DIRECTORY
        is_directory = is_opened or "dir" in call.name or call.name == "getdents64"
        if not path.startswith(str(self._place)) or (call.name == "close" and os.path.isdir(path)):
            return None
        return "directory" if is_directory else "file", name

    def _connection_of(self, call: SystemCall, path: str) -> tuple[str, str] | None:
        """Return the number of the connection; None for a socket that wakes the loop, and for close."""
        if call.name == "close":
            return None
        with call.socket() as connection:
            if connection.family == socket.AF_UNIX:
                return None
            name = self._connections.setdefault(path, f"connection {len(self._connections) + 1}")
            if call.name not in _RECEIVING:
                return "network", name
            if path in self._received:
                return "network", name + _LATER
            if unread(connection) and self._numbers[call.name, "network", name]:
                self._received.add(path)
            return "network", name


def _is_first_receive(call: Call) -> bool:
    return call.name == "recvfrom" and call.number == 1 and not call.object.endswith(_LATER)


def is_certain(call: Call) -> bool:
    """Return whether each run makes the call: the others depend on when data arrives."""
    if call.name in ("splice", "clone", "clone3") or call.object.endswith(_LATER):
        return call.number == 1
    if call.name in ("recvfrom", "epoll_ctl", "setsockopt") and call.on == "network":
        return call.object == "connection 1" and call.number <= 2
    return True


def chosen(calls: list[Call], most: int, source: random.Random) -> Iterator[Call]:
    """Yield at most `most` of the sorted calls for each name and kind: the first, the last and others."""
    alike: dict[tuple[str, str], list[Call]] = {}
    for call in calls:
        alike.setdefault((call.name, call.on), []).append(call)
    for each in alike.values():
        if len(each) <= most:
            yield from each
        else:
            yield from (each[0], *source.sample(each[1:-1], max(0, most - 2)), each[-1])[:most]


# ---- the state after a run


def files_of(place: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()
    }


def faults_of(
    command: Command, status: int, said: str, files: Mapping[str, bytes], *, last: bool
) -> Iterator[str]:
    """Yield the broken promises after a run; `last` for the run without a failure."""
    if status not in _STATUSES:
        yield f"exit status {status}"
    for words in ("Traceback", "Exception ignored", "Exception in thread", "Warning: "):
        if words in said:
            yield words
    if status and not re.search("^resolve: ", said, re.MULTILINE):
        yield "no message"
    for name, content in files.items():
        right = [each[name] for each in (command.after, command.before) if name in each]
        if right and content not in right:
            yield f"{name} is wrong"
    for name, content in command.before.items():
        if name in command.after and name not in files:
            yield f"{name} is lost: {content[:10]!r}"
    if status == 0 or last:
        for name, content in command.after.items():
            if files.get(name) != content:
                yield f"{name} is not complete"
    if last and status:
        yield f"the next run exits with {status}"


def left_of(command: Command, files: Mapping[str, bytes]) -> set[str]:
    """Return the files that are neither objects nor files that the pages describe."""
    known = {*command.after, *command.before, *command.own}
    unknown = set(files) - known
    for name in command.after:
        pair = {f"{name}.part", f"{name}.part-state"}
        if pair <= unknown:
            unknown -= pair
    return unknown


def archive_faults(command: Command, place: Path, ports: Mapping[str, int]) -> Iterator[str]:
    if not (place / command.archive).exists():
        yield "there is no archive"
        return
    end, urls, damaged = whole(place / command.archive)
    size = (place / command.archive).stat().st_size
    if damaged or end != size:
        yield "the archive is damaged"
    expected = {word for word in command.of(ports) if word.startswith("http:")}
    if missing := expected - set(urls):
        yield f"the archive lacks {sorted(missing)}"


def prepare(place: Path, command: Command, ports: Mapping[str, int]) -> None:
    subprocess.run(["rm", "-rf", str(place)], check=True)
    place.mkdir(parents=True)
    if command.urls:
        (place / "list").write_text("".join(f"{url.format_map(ports)}\n" for url in command.urls))
    for name, content in command.before.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if command.after.get(name) == content:
            os.utime(path, (1_000_000_000, 1_000_000_000))
        else:
            os.utime(path, (500_000_000, 500_000_000))


def try_call(
    place: Path, command: Command, ports: Mapping[str, int], call: Call, error: str
) -> dict[str, object]:
    """Run the command with a failed call, and once again without; return the outcome."""
    prepare(place, command, ports)
    calls = Calls(place, call, error)
    status, said = run(place, command.of(ports), calls)
    result: dict[str, object] = {**call._asdict(), "error": error}
    if not calls.has_failed:
        return {**result, "status": None, "faults": ["the run has no such call"], "first": said[-2000:]}
    files = files_of(place)
    faults = [*faults_of(command, status, said, files, last=False)]
    if call.on == "output":
        faults = [fault for fault in faults if fault != "no message"]
    left = left_of(command, files)
    is_complete = all(files.get(name) == content for name, content in command.after.items())

    again, said_again = run(place, command.of(ports))
    files = files_of(place)
    last = not (is_complete and command.stops_if_exists)
    faults += [f"then: {fault}" for fault in faults_of(command, again, said_again, files, last=last)]
    if command.archive:
        faults += archive_faults(command, place, ports)
    left_again = left_of(command, files) | (set(files) & (set(command.before) - set(command.after)))
    if call.on == "state":
        left = {name for name in left if not name.endswith(_STATES)}
        if "run.db" in command.own:  # a run does not look at the files that its ledger lists as done
            left_again = {name for name in left_again if not name.endswith(_STATES)}
    left |= left_again
    if left and call.name not in _REMOVALS:
        faults.append(f"left: {sorted(left)}")
    told = {"first": said[-2000:], "again": said_again[-600:]}
    return {**result, "status": status, "faults": faults, **(told if faults else {})}


# ---- all runs


def serve() -> tuple[int, dict[str, int]]:
    """Start the servers in a child process; return its pid and the ports."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        with open(reader) as pipe:
            return child, json.loads(pipe.readline())

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            http = await fixtures.http.serve(nursery, _SITE)
            ftp = await fixtures.ftp.serve(nursery)
            ftp.root = _TREE
            os.write(writer, json.dumps({"http": http.port, "ftp": ftp.port}).encode() + b"\n")

    os.close(reader)
    trio.run(main)
    os._exit(0)


def load_modules(place: Path, words: list[str]) -> None:
    """Import the modules that the command imports, so that the children do not."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.chdir(place)
        sys.argv = ["resolve", *words]
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        with suppress(SystemExit):
            resolve()
        os.write(writer, json.dumps([name for name in sys.modules if name != "__main__"]).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as pipe:
        names = json.load(pipe)
    os.waitpid(child, 0)
    for name in names:
        with suppress(ImportError):
            importlib.import_module(name)


def main(folder: Path, most: int, seed: int, *names: str) -> None:
    server, ports = serve()
    place = folder / "place"
    try:
        for name in names or COMMANDS:
            command = COMMANDS[name]
            prepare(place, command, ports)
            load_modules(place, command.of(ports))
            prepare(place, command, ports)
            recorded = Calls(place)
            status, said = run(place, command.of(ports), recorded)
            faults = [*faults_of(command, status, said, files_of(place), last=True)]
            assert not faults, (name, faults, said)
            calls = sorted(filter(is_certain, recorded.tried))  # concurrent tasks make calls in any order
            for call in chosen(calls, most, random.Random(seed)):
                for error in ERRORS[call.name]:
                    cell = try_call(place, command, ports, call, error)
                    print(json.dumps({"command": name, **cell}), flush=True)
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
