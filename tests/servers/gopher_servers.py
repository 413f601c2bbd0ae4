"""Gophernicus and PyGopherd from Debian's packages, each serving `gopher_tree`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.certificates import Certificates
from tests.servers.packages import find
from tests.servers.service import LOOPBACK, daemon, inetd, reserved_port

#: PyGopherd needs Debian's own Python: it imports modules that newer versions removed.
_DEBIAN_PYTHON = "/usr/bin/python3"


@dataclass(frozen=True)
class GopherServer:
    """A running server. `authority` is set only if the server has TLS."""

    name: str
    port: int
    authority: Path | None

    def url(self, rest: str, scheme: str = "gopher") -> str:
        """Return the URL with `rest` after the slash: the type, the selector and so on."""
        return f"{scheme}://{LOOPBACK}:{self.port}/{rest}"


@contextmanager
def gophernicus(tree: Path, folder: Path) -> Iterator[GopherServer]:
    """Run the server inetd style, as Debian does, without shared memory (-nm), network time or syslog."""
    files = find("gophernicus", "usr/sbin/gophernicus")
    places = ["-r", str(tree), "-h", LOOPBACK, "-p", "{port}"]
    # -nr: the server runs as the user of the tests, in CI as root
    command = [files.program, *places, "-nm", "-ns", "-nv", "-nu", "-nr"]
    with inetd(command, files.environment(), folder / "gophernicus.log") as port:
        yield GopherServer("gophernicus", port, None)


@contextmanager
def pygopherd(tree: Path, folder: Path, certificates: Certificates) -> Iterator[GopherServer]:
    """Run the daemon; it serves plain and TLS connections on one port."""
    files = find("pygopherd", "usr/sbin/pygopherd")
    types = folder / "mime.types"
    types.write_text("text/plain txt\ntext/html html\nimage/gif gif\napplication/octet-stream bin\n")
    configuration = folder / "pygopherd.conf"
    with reserved_port() as port:
        configuration.write_text(_PYGOPHERD.format(port=port, tree=tree, types=types, tls=certificates))
        command = [_DEBIAN_PYTHON, files.program, str(configuration)]
        with daemon(command, files.environment(), folder / "pygopherd.log", ready="^Running"):
            yield GopherServer("pygopherd", port, certificates.authority)


_PYGOPHERD = """\
[pygopherd]
detach = no
servername = 127.0.0.1
interface = 127.0.0.1
port = {port}
servertype = ForkingTCPServer
timeout = 60
abstract_headers = off
abstract_entries = unsupported
tracebacks = yes
usechroot = no
enable_tls = yes
tls_certfile = {tls.chain}
tls_keyfile = {tls.key}
root = {tree}
mimetypes = {types}
encoding = list(mimetypes.encodings_map.items())

[logger]
logmethod = file

[GopherEntry]
defaultmimetype = text/plain
mapping = [['text/html', 'h'], ['text/.+', '0'], ['image/gif', 'g'], ['application/gopher', '1'],
    ['application/.+', '9'], ['.*', '0']]
eaexts = {{'.abstract': 'ABSTRACT', '.ask': 'ASK'}}

[handlers.HandlerMultiplexer]
handlers = [url.HTMLURLHandler, gophermap.BuckGophermapHandler, UMN.UMNDirHandler,
    html.HTMLFileTitleHandler, scriptexec.ExecHandler, file.FileHandler]

[handlers.dir.DirHandler]
ignorepatt = /gophermap$|\\.abstract$|\\.ask$
cachetime = 0
cachefile = .cache

[handlers.UMN.UMNDirHandler]
extstrip = none

[handlers.ZIP.ZIPHandler]
enabled = false
pattern = \\.zip$

[protocols.ProtocolMultiplexer]
protocols = [gopherp.GopherPlusProtocol, gopherp.SecureGopherPlusProtocol,
    rfc1436.GopherProtocol, rfc1436.SecureGopherProtocol]

[protocols.gopherp.GopherPlusProtocol]
admin = Test Admin <admin@example.test>
"""
