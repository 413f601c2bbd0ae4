"""The address of the running web UI for other programs of the user: `serve.json`, readable by the user alone.

It has the port, and a secret that an entry is asked for with. Another user may listen at a port that a window
has left behind: nothing is said to who is not ours.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from typing import NamedTuple

from protocols.errors import NotConfigured
from resolver.files.atomic import MISSING, hold_file, open_own
from resolver.policy.environment import runtime_folder
from resolver.web.access import LOOPBACK, is_listened_to_by_this_user, quote_whole

_WHAT = "file that says where the window is"
_MOST = 4_096
#: Seconds for a server of this machine.
_PATIENCE = 10.0
_TOKEN = re.compile(r"[\w-]{43}", re.ASCII)


class RunningServer(NamedTuple):
    """A window of this person's, if it still runs."""

    port: int
    secret: str
    process: int


@contextmanager
def announce_server(port: int, secret: str) -> Iterator[bool]:
    """Other programs of this person find it as long as the block runs. False where they find another window,
    or there is no place for that. Raises `LocalError` where it cannot be told."""
    path = _path()
    if path is None:
        yield False
        return
    said = {"port": port, "secret": secret, "process": os.getpid()}
    with hold_file(path, _WHAT, json.dumps(said).encode() + b"\n") as ours:
        yield ours


def find_server() -> RunningServer | None:
    """What that file says. Raises `NotConfigured` for one that may not be trusted."""
    path = _path()
    if path is None:
        return None
    try:
        with open_own(path, _WHAT, _MOST, secret=True) as file:
            return _read(file.octets)
    except MISSING:
        return None


def _path() -> str | None:
    folder = runtime_folder()
    return None if folder is None else os.path.join(folder, "serve.json")


def _read(octets: bytes) -> RunningServer | None:
    """None for what is being written."""
    try:
        said = json.loads(octets)
    except ValueError:
        return None
    match said:
        case {"port": int(port), "secret": str(secret), "process": int(process)} if 0 < port < 65_536:
            return RunningServer(port, secret, process)
    return None


def entry(window: RunningServer, url: str = "") -> str | None:
    """An address that lets a person in, once and soon, and leads to `url`. None where nobody is there any
    more, or who is there is not ours."""
    connection = HTTPConnection(LOOPBACK, window.port, timeout=_PATIENCE)
    try:
        connection.connect()
        if not is_listened_to_by_this_user(window.port):  # of what is connected, and so no other
            return None
        fields = {
            "Authorization": f"Bearer {window.secret}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        connection.request("POST", "/start", f"url={quote_whole(url)}", fields)
        reply = connection.getresponse()
        token = reply.read(_MOST).decode("latin-1")
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()
    if reply.status != 200 or not _TOKEN.fullmatch(token):
        return None
    return f"http://{LOOPBACK}:{window.port}/enter?t={token}"


def find_entry(url: str = "") -> tuple[RunningServer, str] | None:
    """Of the window that runs, if any does. What may not be trusted is none."""
    try:
        window = find_server()
    except NotConfigured:
        return None
    address = None if window is None else entry(window, url)
    return None if window is None or address is None else (window, address)
