"""The file `serve.json`. Other programs of the user find and open the running web UI with this file.

The file contains the port, and a secret with which a program requests an entry address. Only the user can
read the file. When a web UI has stopped, another user may listen at the same port. So the secret is sent only
to a server of the current user.
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
from resolver.files.atomic import MISSING, create_lock_file, open_own
from resolver.policy.environment import runtime_folder
from resolver.web.access import LOOPBACK, is_listened_to_by_this_user, quote_whole

_DESCRIPTION = "address file of the web UI"
_MAX_SIZE = 4_096
#: Timeout in seconds for a request to a web UI on this machine.
_TIMEOUT = 10.0
_TOKEN = re.compile(r"[\w-]{43}", re.ASCII)


class RunningServer(NamedTuple):
    """A web UI of the current user according to `serve.json`, which may have stopped since."""

    port: int
    secret: str
    process: int


@contextmanager
def announce_server(port: int, secret: str) -> Iterator[bool]:
    """Write `serve.json` for other programs of the user while the block runs.

    Yields:
        Whether the file was written. The file is not written if it belongs to another running web UI, or if
        the runtime directory does not exist.

    Raises:
        LocalError: The file cannot be written.
    """
    path = _path()
    if path is None:
        yield False
        return
    members = {"port": port, "secret": secret, "process": os.getpid()}
    with create_lock_file(path, _DESCRIPTION, json.dumps(members).encode() + b"\n") as is_written:
        yield is_written


def find_server() -> RunningServer | None:
    """Read `serve.json`; return None if it does not exist.

    Raises:
        NotConfigured: The file cannot be trusted, for example because other users can read it.
    """
    path = _path()
    if path is None:
        return None
    try:
        with open_own(path, _DESCRIPTION, _MAX_SIZE, secret=True) as file:
            return _read(file.octets)
    except MISSING:
        return None


def _path() -> str | None:
    folder = runtime_folder()
    return None if folder is None else os.path.join(folder, "serve.json")


def _read(octets: bytes) -> RunningServer | None:
    """Parse `serve.json`; return None for an incomplete file, which another process is writing."""
    try:
        members = json.loads(octets)
    except (ValueError, RecursionError):
        return None
    match members:
        case {"port": int(port), "secret": str(secret), "process": int(process)} if 0 < port < 65_536:
            return RunningServer(port, secret, process)
    return None


def request_entry(server: RunningServer, url: str = "") -> str | None:
    """Request an entry address that opens `url` in the web UI.

    The address is valid for one use and for a short time.

    Returns:
        The entry address. None if no server responds, or if another user listens at the port.
    """
    connection = HTTPConnection(LOOPBACK, server.port, timeout=_TIMEOUT)
    try:
        connection.connect()
        # The check follows the opening of the connection, so that the connected process is checked (TOCTOU).
        if not is_listened_to_by_this_user(server.port):
            return None
        fields = {
            "Authorization": f"Bearer {server.secret}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        connection.request("POST", "/start", f"url={quote_whole(url)}", fields)
        reply = connection.getresponse()
        token = reply.read(_MAX_SIZE).decode("latin-1")
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()
    if reply.status != 200 or not _TOKEN.fullmatch(token):
        return None
    return f"http://{LOOPBACK}:{server.port}/enter?t={token}"


def find_entry(url: str = "") -> tuple[RunningServer, str] | None:
    """Return the running web UI and an entry address, or None if it is not running or not trusted."""
    try:
        server = find_server()
    except NotConfigured:
        return None
    address = None if server is None else request_entry(server, url)
    return None if server is None or address is None else (server, address)
