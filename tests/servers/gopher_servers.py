"""Gophernicus and PyGopherd from Debian's packages, each serving `gopher_tree`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.certificates import Certificates
from tests.servers.packages import find
from tests.servers.service import LOOPBACK, daemon, inetd, reserved_port

#: PyGopherd's is Debian's own, whatever ours is: it needs modules that newer ones have no more.
_DEBIAN_PYTHON = "/usr/bin/python3"


@dataclass(frozen=True)
class GopherServer:
    """A running server. `authority` is None where it has no TLS."""

    name: str
    port: int
    authority: Path | None

    def url(self, rest: str, scheme: str = "gopher") -> str:
        """The URL of what follows the slash: the type, the selector and so on."""
        return f"{scheme}://{LOOPBACK}:{self.port}/{rest}"


@contextmanager
def gophernicus(tree: Path, folder: Path) -> Iterator[GopherServer]:
    """Inetd style, as Debian runs it; without shared memory (-nm), the network's time or the syslog."""
    program = "usr/sbin/gophernicus"
    files = find("gophernicus", program)

    def command(port: int) -> list[str]:
        places = ["-r", str(tree), "-h", LOOPBACK, "-p", str(port)]
        # -nr: whoever runs the tests runs the server, in CI that is root
        return [str(files.path(program)), *places, "-nm", "-ns", "-nv", "-nu", "-nr"]

    with inetd(command, files.environment(), folder / "gophernicus.log") as port:
        yield GopherServer("gophernicus", port, None)


@contextmanager
def pygopherd(tree: Path, folder: Path, certificates: Certificates) -> Iterator[GopherServer]:
    """Its own daemon, plain and TLS on one port."""
    program = "usr/sbin/pygopherd"
    files = find("pygopherd", program)
    types = folder / "mime.types"
    types.write_text("text/plain txt\ntext/html html\nimage/gif gif\napplication/octet-stream bin\n")
    configuration = folder / "pygopherd.conf"
    with reserved_port() as port:
        configuration.write_text(_PYGOPHERD.format(port=port, tree=tree, types=types, tls=certificates))
        command = [_DEBIAN_PYTHON, str(files.path(program)), str(configuration)]
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
