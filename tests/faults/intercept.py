"""Decide each system call of a child process: perform it, or return an error instead (seccomp_unotify(2)).

The child installs a filter. The kernel then holds each listed call of any of its threads until the supervisor
has answered. So the order of the calls of a process is known, and a failure hits exactly one call.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

#: The numbers of the calls on x86-64 (asm/unistd_64.h).
NUMBERS: Mapping[str, int] = {
    **{"read": 0, "write": 1, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "pread64": 17, "pwrite64": 18},
    **{"readv": 19, "writev": 20, "access": 21, "dup": 32, "sendfile": 40, "socket": 41, "connect": 42},
    **{"sendto": 44, "recvfrom": 45, "sendmsg": 46, "recvmsg": 47, "shutdown": 48, "getsockname": 51},
    **{"getpeername": 52, "socketpair": 53, "setsockopt": 54, "getsockopt": 55, "clone": 56, "flock": 73},
    **{"fsync": 74, "fdatasync": 75, "ftruncate": 77, "rename": 82, "mkdir": 83, "rmdir": 84, "link": 86},
    **{"unlink": 87, "readlink": 89, "fchmod": 91, "fsetxattr": 190, "fgetxattr": 193, "fremovexattr": 199},
    **{"getdents64": 217, "epoll_wait": 232, "epoll_ctl": 233, "openat": 257, "mkdirat": 258},
    **{"newfstatat": 262, "unlinkat": 263, "renameat": 264, "linkat": 265, "readlinkat": 267},
    **{"fchmodat": 268, "faccessat": 269, "splice": 275, "utimensat": 280, "fallocate": 285, "eventfd2": 290},
    **{"epoll_create1": 291, "pipe2": 293, "syncfs": 306, "renameat2": 316, "getrandom": 318},
    **{"copy_file_range": 326, "statx": 332, "clone3": 435, "faccessat2": 439},
}
_NAMES = {number: name for name, number in NUMBERS.items()}

_SECCOMP, _PIDFD_GETFD = 317, 438
_SET_MODE_FILTER, _NEW_LISTENER, _SET_NO_NEW_PRIVILEGES = 1, 8, 38
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_LOAD, _EQUAL, _RETURN, _ALLOW, _NOTIFY = 0x20, 0x15, 0x06, 0x7FFF0000, 0x7FC00000

#: The first descriptor that the child opens.
_LISTENER = 3
_LIBC = ctypes.CDLL(None, use_errno=True)

#: The position of the path in the arguments; of two paths the new one.
_PATH_AT = {
    **dict.fromkeys(("stat", "lstat", "access", "mkdir", "rmdir", "unlink", "readlink"), 0),
    **dict.fromkeys(("rename", "link"), 1),
}
#: The position of a directory that a path in it follows.
_DIRECTORY_AT = {
    **dict.fromkeys(("openat", "mkdirat", "newfstatat", "unlinkat", "readlinkat", "fchmodat", "statx"), 0),
    **dict.fromkeys(("faccessat", "faccessat2", "utimensat"), 0),
    **dict.fromkeys(("renameat", "renameat2", "linkat"), 2),
}


class NotPermitted(Exception):
    """The kernel does not let a process decide the calls of another one."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


class SystemCall(NamedTuple):
    """A call before the kernel performs it."""

    name: str
    thread: int
    arguments: tuple[int, ...]

    def path(self) -> str:
        """Return the path of the file, or a text such as `socket:[123]` for another object."""
        name, arguments = self.name, self.arguments
        if (at := _PATH_AT.get(name)) is not None:
            return os.path.join(self._link("cwd"), self._text(arguments[at]))
        if (at := _DIRECTORY_AT.get(name)) is not None:
            is_working = arguments[at] & 0xFFFFFFFF == 0xFFFFFF9C  # AT_FDCWD
            directory = self._link("cwd" if is_working else f"fd/{arguments[at]}")
            text = self._text(arguments[at + 1]) if arguments[at + 1] else ""
            return os.path.join(directory, text) if text else directory
        opened = self._link(f"fd/{arguments[0]}")
        if name == "epoll_ctl" or (name == "splice" and not opened.startswith("socket")):
            return self._link(f"fd/{arguments[2]}")
        return opened

    def _link(self, name: str) -> str:
        try:
            return os.readlink(f"/proc/{self.thread}/{name}")
        except OSError:  # a closed descriptor
            return ""

    def _text(self, address: int) -> str:
        with open(f"/proc/{self.thread}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(4096).partition(b"\0")[0].decode()

    def socket(self) -> socket.socket:
        """Return the socket of the call, open in this process, too."""
        descriptor = self.arguments[2 if self.name == "epoll_ctl" else 0]
        process = os.pidfd_open(_process_of(self.thread))
        try:
            return socket.socket(fileno=_descriptor_of(process, descriptor))
        finally:
            os.close(process)


def unread(connection: socket.socket) -> int:
    """Return the number of received bytes that no call has read."""
    number = array.array("i", [0])
    fcntl.ioctl(connection, termios.FIONREAD, number)
    return number[0]


def hold_calls(names: Collection[str]) -> None:
    """Hold these calls of this process and its threads from now on, and stop until the supervisor is ready.

    No descriptor but 0, 1 and 2 may be open.
    """
    numbers = sorted(NUMBERS[name] for name in names)
    steps = [(_LOAD, 0, 0)]  # the number of the call
    steps += [(_EQUAL, len(numbers) - at, number) for at, number in enumerate(numbers)]
    steps += [(_RETURN, 0, _ALLOW), (_RETURN, 0, _NOTIFY)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", op, jump, 0, k) for op, jump, k in steps))
    program = _Program(len(steps), ctypes.addressof(code))
    _LIBC.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if _LIBC.syscall(_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(program)) != _LISTENER:
        os._exit(1)
    os.kill(os.getpid(), signal.SIGSTOP)


def supervise(child: int, decide: Callable[[SystemCall], int]) -> int:
    """Answer the calls of a child that is in `hold_calls`, until it ends; return its exit status.

    Args:
        child: The process ID.
        decide: Returns the error number for a call, or 0 to perform it.

    Raises:
        NotPermitted: The child could not hold its calls, or this process cannot answer them.
    """
    if os.uname().machine != "x86_64" or not os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1]):
        raise NotPermitted("seccomp notifications")
    process = os.pidfd_open(child)
    listener = _descriptor_of(process, _LISTENER)
    os.kill(child, signal.SIGCONT)
    waiting = select.poll()
    waiting.register(process, select.POLLIN)
    waiting.register(listener, select.POLLIN)
    try:
        while process not in (ready := dict(waiting.poll())):
            if ready.get(listener, 0) & select.POLLIN:
                _answer(listener, decide)
    finally:
        os.close(listener)
        os.close(process)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def is_permitted() -> bool:
    """Return whether a process here can decide the calls of another one."""
    command = [sys.executable, "-m", "tests.faults.intercept"]
    return (
        subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=False).returncode
        == 0
    )


def _answer(listener: int, decide: Callable[[SystemCall], int]) -> None:
    held = bytearray(80)
    try:
        fcntl.ioctl(listener, _RECEIVE, held)
    except FileNotFoundError:  # a signal interrupted the call
        return
    number, thread, _, call, _, _, *arguments = struct.unpack("QIIiIQ6Q", held)
    error = decide(SystemCall(_NAMES[call], thread, tuple(arguments)))
    answer = struct.pack("QqiI", number, 0, -error, 0 if error else _CONTINUE)
    try:
        fcntl.ioctl(listener, _SEND, bytearray(answer))
    except FileNotFoundError:
        return


def _process_of(thread: int) -> int:
    with open(f"/proc/{thread}/status") as status:
        return int(next(line for line in status if line.startswith("Tgid:")).split()[1])


def _descriptor_of(process: int, descriptor: int) -> int:
    copy = int(_LIBC.syscall(_PIDFD_GETFD, process, descriptor, 0))
    if copy < 0:
        raise NotPermitted(f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
    return copy


if __name__ == "__main__":
    if (child := os.fork()) == 0:
        os.closerange(3, 100)
        hold_calls(["getrandom"])
        os._exit(0)
    sys.exit(supervise(child, lambda call: 0))
