"""Keep a server running until standard input ends, so that no server outlives the test session.

usage: keeper.py COMMAND...              run the command once
       keeper.py --listen FD COMMAND...  inetd style: run it once for every connection that the listening
                                         socket FD accepts, the connection as its standard input and output

A separate program that uses only the standard library. It is also the first process of the namespaces in
which the FTP servers run, so it reaps orphaned children. Each command gets a session and with it a process
group, and the keeper ends the complete group.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
import time

#: Seconds that a server may take to terminate before it is killed.
_GRACE = 1.0


def keep(command: list[str]) -> None:
    """Run the command until standard input ends, and then end it."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    process = _spawn(command, (nowhere, 1, 2))
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    while os.read(0, 1024):
        pass
    _end({process})


def serve(listener: socket.socket, command: list[str]) -> None:
    """Run the command once per connection until standard input ends."""
    running: set[int] = set()
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if 0 in ready and not os.read(0, 1024):
                break
            running -= _reap_children()
            if listener.fileno() in ready:
                connection, _ = listener.accept()
                with connection:
                    running.add(_spawn(command, (connection.fileno(), connection.fileno(), 2)))
    _end(running)


def _spawn(command: list[str], descriptors: tuple[int, int, int]) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate(descriptors)]
    return os.posix_spawnp(command[0], command, os.environ, file_actions=actions, setsid=True, setsigmask=())


def _reap_children() -> set[int]:
    """Reap and return the children that ended, adopted orphans included."""
    ended: set[int] = set()
    with contextlib.suppress(ChildProcessError):
        while (process := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            ended.add(process)
    return ended


def _end(running: set[int]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, number)
        deadline = time.monotonic() + _GRACE
        while (running := running - _reap_children()) and (left := deadline - time.monotonic()) > 0:
            signal.sigtimedwait({signal.SIGCHLD}, left)


def main(arguments: list[str]) -> None:
    # Block SIGCHLD, so that the process can wait for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    if arguments[:1] != ["--listen"]:
        keep(arguments)
    else:
        with socket.socket(fileno=int(arguments[1])) as listener:
            serve(listener, arguments[2:])


if __name__ == "__main__":
    main(sys.argv[1:])
