"""Run commands repeatedly; each time one system call fails, once, with an error that strace injects.

`python -m tests.faults.calls FOLDER MOST SEED COMMAND...` prints a JSON object for each run with a failure. A
run without failures records the calls of a command on files, sockets and threads. Of the calls with the same
name and the same kind of object, the first, the last and random others are tried, at most MOST, with each of
the errors in `ERRORS`. After each run with a failure, the same command runs once without one.

`python -m tests.faults.calls FOLDER MOST SEED | python -m tests.faults.calls_table` prints the table of the
page on reliability. strace attaches to a process that was forked with all modules loaded, so the calls of the
start of Python are not tried.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
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
CHECKOUT = Path(__file__).parents[2]

_REMOVALS = ("unlink", "unlinkat", "rmdir")

#: Maximum number of runs until the failure hits a call of the object: the order of the calls may vary.
_TRIES = 4
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
        "-i list --ledger run.db -d out -j 2",
        {"out/large": LARGE, "out/small": SMALL, "out/b.txt": SMALL},
        own=("list", "run.db", "run.db-wal", "run.db-shm", "run.db-journal"),
        urls=(f"{_URL}/large", f"{_URL}/small", "ftp://127.0.0.1:{ftp}/top/b.txt"),
    ),
    "get -r --delete": Command(
        "-r --exists newer --delete --yes -d out ftp://127.0.0.1:{ftp}/top",
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
    """A system call: its name, the kind of its object, and its number in its thread."""

    name: str
    on: str
    number: int
    #: Whether the main thread makes the call; then only this thread is traced.
    is_main: bool
    #: The file or directory of the descriptor, which limits the failure to its calls.
    path: str


class Ended(NamedTuple):
    """A run: its exit status, its messages, and the lines of strace."""

    status: int
    said: str
    trace: list[str]


class NotPermitted(Exception):
    """strace is missing, or may not trace a process."""


# ---- a run


def run(place: Path, words: list[str], strace: list[str] | None) -> Ended:
    """Run the command in a child, traced if `strace` has options."""
    said, log = place.parent / "said", place.parent / "log"
    child = os.fork()
    if child == 0:
        _become(place, said, words)
    os.waitpid(child, os.WUNTRACED)
    tracer = None
    if strace is not None:
        log.unlink(missing_ok=True)
        command = ["strace", "-yy", "-s", "60", "-e", "signal=none", *strace]
        tracer = subprocess.Popen([*command, "-o", str(log), "-p", str(child)], stderr=subprocess.PIPE)
        assert tracer.stderr is not None
        if not (line := tracer.stderr.readline()).endswith(b" attached\n"):
            os.kill(child, signal.SIGKILL)
            raise NotPermitted(line.decode())
    os.kill(child, signal.SIGCONT)
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if tracer is not None and _IN_VAIN.search(log.read_text(errors="replace")):
            os.kill(child, signal.SIGKILL)  # trio without its socket waits forever
        time.sleep(0.01)
    status = os.waitstatus_to_exitcode(ended[1])
    if tracer is not None:
        tracer.communicate()
    trace = log.read_text(errors="replace").splitlines() if tracer else []
    return Ended(status, said.read_text(errors="replace"), trace)


def _become(place: Path, said: Path, words: list[str]) -> None:
    try:
        os.chdir(place)
        stream = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        os.closerange(3, 100)
        sys.argv = ["resolve", *words]
        signal.alarm(_LONGEST)
        os.kill(os.getpid(), signal.SIGSTOP)
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


#: A line of strace for a failure of a socket with which trio wakes its loop, which is not tried.
_IN_VAIN = re.compile(r"(?:recvfrom|sendto)\(\d+<UNIX.*INJECTED")
_LINE = re.compile(r"(?:(?P<thread>\d+) +)?(?P<name>\w+)\((?P<rest>.*)")

#: Calls that can fail on a socket, and on the objects with which trio wakes its loop.
_ON_SOCKETS = frozenset(
    {
        *("recvfrom", "recvmsg", "sendto", "sendmsg", "read", "write", "sendfile", "splice", "shutdown"),
        *("socket", "connect", "getsockopt", "setsockopt", "getsockname", "getpeername", "epoll_ctl"),
    }
)
_ON_LOOP = frozenset(("epoll_create1", "socketpair", "eventfd2"))

#: Parts of file names in the output of strace, and the kind of the file.
_FILES = {"run.db": "ledger", ".warc": "archive", ".part-state": "state"}
_DESCRIPTOR = re.compile(r"\d+<(/[^>]*)>[,)]")
#: The kind of the files of Python and of modules, which are not tried.
_MODULE = "module"
_PYTHON = (str(CHECKOUT), sys.prefix, sys.base_prefix)


def object_of(name: str, rest: str, place: Path) -> str | None:
    """Return the kind of object of a call, from the line of strace.

    Return None for an object that cannot have the errors, such as a socket with which trio wakes its loop.
    """
    objects = rest.rpartition(" = ")[0] or rest  # a call that another thread interrupts has no result here
    if name.startswith("clone"):
        return "thread"
    if name == "pipe2":
        return "pipe"
    if name == "getrandom":
        return "random bytes"
    if "<TCP" in objects or "INET" in objects:
        return "network" if name in _ON_SOCKETS else None
    if name.startswith("epoll") or "<UNIX" in objects or name in _ON_LOOP:
        return "loop" if name in _ON_LOOP else None
    if "(deleted)" in objects:
        return None
    if name == "close" and (opened := _DESCRIPTOR.match(rest)) and os.path.isdir(opened[1]):
        return _MODULE
    if f"{place.parent}/said" in objects:
        return "output"
    for word, kind in _FILES.items():
        if word in objects:
            return kind
    if str(place) in objects or re.search(r'"[^/"]', objects):
        is_directory = "O_DIRECTORY" in objects or "dir" in name or name == "getdents64"
        return "directory" if is_directory else "file"
    return _MODULE if name == "close" or any(path in objects for path in _PYTHON) else "system"


def calls_of(trace: list[str], place: Path) -> list[Call]:
    """Return the calls of a trace that can fail, with the number that strace counts for each thread."""
    numbers: Counter[tuple[str, str, str]] = Counter()
    found: dict[Call, None] = {}
    main = trace[0].partition(" ")[0]
    for line in trace:
        if (match := _LINE.match(line)) is None or match["name"] not in ERRORS:
            continue
        thread, name, rest = match.groups()
        opened = _DESCRIPTOR.match(rest)
        path = opened[1] if opened else ""
        numbers[thread, name, path] += 1
        numbers[thread, name, ""] += bool(path)
        if (kind := object_of(name, rest, place)) not in (None, _MODULE):
            found[Call(name, str(kind), numbers[thread, name, path], thread == main, path)] = None
    return list(found)


def chosen(calls: list[Call], most: int, source: random.Random) -> Iterator[Call]:
    """Yield at most `most` calls for each name and kind: the first, the last and random others."""
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


def faults_of(command: Command, ended: Ended, files: Mapping[str, bytes], *, last: bool) -> Iterator[str]:
    """Yield the broken promises after a run; `last` for the run without a failure."""
    if ended.status not in _STATUSES:
        yield f"exit status {ended.status}"
    for words in ("Traceback", "Exception ignored", "Exception in thread", "Warning: "):
        if words in ended.said:
            yield words
    if ended.status and not re.search("^resolve: ", ended.said, re.MULTILINE):
        yield "no message"
    for name, content in files.items():
        right = [each[name] for each in (command.after, command.before) if name in each]
        if right and content not in right:
            yield f"{name} is wrong"
    for name, content in command.before.items():
        if name in command.after and name not in files:
            yield f"{name} is lost: {content[:10]!r}"
    if ended.status == 0 or last:
        for name, content in command.after.items():
            if files.get(name) != content:
                yield f"{name} is not complete"
    if last and ended.status:
        yield f"the next run exits with {ended.status}"


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


class Failed(NamedTuple):
    """A run with a failed call: `objects` has the kinds of the objects of all failed calls."""

    ended: Ended
    objects: set[str | None]

    def on(self, kind: str) -> str | None:
        """Return the kind, or another kind that failed instead; None if the run tests no kind."""
        others = self.objects - {_MODULE, None}
        if None in self.objects or not others:
            return None
        return kind if kind in others else min(filter(None, others))


def run_failed(place: Path, command: Command, ports: Mapping[str, int], call: Call, error: str) -> Failed:
    """Run the command with a failed call, again if the failure hits another object."""
    traced = ["-P", call.path] if call.path else []
    traced += [] if call.is_main else ["-f"]
    inject = f"inject={call.name}:error={error}:when={call.number}"
    for _ in range(_TRIES):
        prepare(place, command, ports)
        ended = run(place, command.of(ports), [*traced, "-e", f"trace={call.name}", "-e", inject])
        hits = [line for line in ended.trace if "(INJECTED)" in line]
        failed = Failed(ended, {object_of(call.name, line.partition("(")[2], place) for line in hits})
        if failed.on(call.on) == call.on:
            break
    return failed


def try_call(
    place: Path, command: Command, ports: Mapping[str, int], call: Call, error: str
) -> dict[str, object]:
    """Run the command with a failed call, and once again without; return the outcome."""
    failed = run_failed(place, command, ports, call, error)
    first, on = failed.ended, failed.on(call.on)
    result: dict[str, object] = {"call": call.name, "number": call.number, "path": call.path, "error": error}
    if on is None:
        return {**result, "on": call.on, "status": None, "faults": []}
    files = files_of(place)
    faults = [*faults_of(command, first, files, last=False)]
    if "output" in failed.objects:
        faults = [fault for fault in faults if fault != "no message"]
    left = left_of(command, files)
    is_complete = all(files.get(name) == content for name, content in command.after.items())

    again = run(place, command.of(ports), None)
    files = files_of(place)
    last = not (is_complete and command.stops_if_exists)
    faults += [f"then: {fault}" for fault in faults_of(command, again, files, last=last)]
    if command.archive:
        faults += archive_faults(command, place, ports)
    left |= left_of(command, files) | (set(files) & (set(command.before) - set(command.after)))
    if "state" in failed.objects:
        left = {name for name in left if not name.endswith((".part-state", ".part-state.new"))}
    if left and call.name not in _REMOVALS:
        faults.append(f"left: {sorted(left)}")
    said = {"first": first.said[-2000:], "again": again.said[-600:], "trace": first.trace[-20:]}
    return {**result, "on": on, "status": first.status, "faults": faults, **(said if faults else {})}


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
            recorded = run(
                place, command.of(ports), ["-f", "-e", f"trace={','.join(f'?{n}' for n in ERRORS)}"]
            )
            faults = [*faults_of(command, recorded, files_of(place), last=True)]
            assert not faults, (name, faults, recorded.said)
            calls = calls_of(recorded.trace, place)
            for call in chosen(calls, most, random.Random(seed)):
                for error in ERRORS[call.name]:
                    cell = try_call(place, command, ports, call, error)
                    print(json.dumps({"command": name, **cell}), flush=True)
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
