"""tinyproxy, Squid and Dante from Debian's packages: http proxies, an https proxy and SOCKS5 proxies.

tinyproxy and Dante run both without and with a login; Squid demands Digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.certificates import Certificates
from tests.servers.packages import find
from tests.servers.service import LOOPBACK, daemon, reserved_port

#: The login for tinyproxy; Dante's is `namespace.USER`.
USER, PASSWORD = "bob", "sekret"


@dataclass(frozen=True)
class ProxyServer:
    """A running proxy. `log` contains its messages about each connection."""

    scheme: str
    port: int
    log: Path

    def url(self, user: str = "", scheme: str | None = None) -> str:
        return f"{scheme or self.scheme}://{user}{LOOPBACK}:{self.port}"


@contextmanager
def tinyproxy(folder: Path, *, login: bool = False, ports: Sequence[int] = ()) -> Iterator[ProxyServer]:
    """Run tinyproxy. If `ports` is given, CONNECT is allowed only to these ports."""
    files = find("tinyproxy", "usr/bin/tinyproxy")
    configuration = folder / "tinyproxy.conf"
    more = [f"BasicAuth {USER} {PASSWORD}"] if login else []
    more += [f"ConnectPort {port}" for port in ports]
    with reserved_port() as port:
        configuration.write_text(_TINYPROXY.format(port=port) + "\n".join([*more, ""]))
        log = folder / "tinyproxy.log"
        command = [files.program, "-d", "-c", str(configuration)]
        with daemon(command, files.environment(), log, ready="Accepting connections"):
            yield ProxyServer("http", port, log)


_TINYPROXY = """\
Port {port}
Listen 127.0.0.1
Allow 127.0.0.1
MaxClients 50
LogLevel Info
"""


@contextmanager
def squid(folder: Path, certificates: Certificates) -> Iterator[ProxyServer]:
    """Run Squid over TLS only; clients must log in as `USER` by Digest.

    `folder` must be world-accessible, because the server drops root privileges.
    """
    files = find("squid", "usr/sbin/squid")
    users = folder / "users"
    users.write_text(f"{USER}:{PASSWORD}\n")
    configuration = folder / "squid.conf"
    with reserved_port() as port:
        log = folder / "squid.log"
        text = _SQUID.format(port=port, folder=folder, pem=certificates.combined, root=files.root)
        configuration.write_text(text)
        # the name of its shared memory: another name could belong to the user of an earlier run
        name = f"squid{port}"
        command = [files.program, "-N", "-d", "1", "-n", name, "-f", str(configuration)]
        try:
            with daemon(command, files.environment(), log, ready="storeLateRelease"):
                yield ProxyServer("https", port, log)
        finally:
            for left in Path("/dev/shm").glob(f"{name}-*.shm"):
                left.unlink()


#: Squid logs that it accepts connections before it does; the awaited message comes a second later. Its files
#: are at the package's paths below the unpacked root.
_SQUID = """\
https_port 127.0.0.1:{port} tls-cert={pem}
pid_filename none
cache deny all
cache_log /dev/stdout
access_log none
cache_mem 1 MB
coredump_dir {folder}
mime_table {root}/usr/share/squid/mime.conf
icon_directory {root}/usr/share/squid/icons
error_directory {root}/usr/share/squid/errors/templates
pinger_enable off
unlinkd_program {root}/usr/lib/squid/unlinkd
logfile_daemon {root}/usr/lib/squid/log_file_daemon
shutdown_lifetime 0 seconds
workers 1
visible_hostname squid.test
auth_param digest program {root}/usr/lib/squid/digest_file_auth {folder}/users
auth_param digest children 1 startup=1
auth_param digest realm lab
auth_param digest nonce_max_count 5
acl known proxy_auth REQUIRED
http_access allow known
http_access deny all
"""


@contextmanager
def dante(folder: Path, wrapper: Sequence[str] = (), *, closed_to: int = 25) -> Iterator[ProxyServer]:
    """Run Dante; with a `wrapper`, the command that provides the test accounts, it demands a login.

    It refuses connections to the port `closed_to`.
    """
    files = find("dante", "usr/sbin/danted")
    configuration = folder / "danted.conf"
    method = "username" if wrapper else "none"
    with reserved_port() as port:
        configuration.write_text(_DANTE.format(port=port, method=method, closed_to=closed_to))
        log = folder / "danted.log"
        command = [*wrapper, files.program, "-f", str(configuration), "-N", "1"]
        with daemon(command, files.environment(), log, ready=r"info: Dante/server.* running"):
            yield ProxyServer("socks5h", port, log)


_DANTE = """\
logoutput: stdout
internal: 127.0.0.1 port = {port}
external: 127.0.0.1
clientmethod: none
socksmethod: {method}
user.privileged: root
user.unprivileged: nobody
client pass {{ from: 127.0.0.1/32 to: 0.0.0.0/0 }}
socks block {{ from: 0.0.0.0/0 to: 0.0.0.0/0 port = {closed_to} }}
socks pass {{ from: 127.0.0.1/32 to: 0.0.0.0/0 protocol: tcp }}
"""
