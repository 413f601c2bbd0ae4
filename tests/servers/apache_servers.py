"""Apache httpd from Debian's package: pages with Digest (mod_auth_digest), and a page that sets cookies."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.packages import find
from tests.servers.service import LOOPBACK, daemon, reserved_port

#: Users of the realm and their passwords.
USERS = {"alice": "wonder land", "Jäsøn Doe": "Secret, or not?"}
REALM = "the lab"
_MARK = b"GET /nothing?mark"
PAGE = b"What the door keeps.\n"


@dataclass(frozen=True)
class ApacheServer:
    """A running server. `log` has a line per request: request line, status, user, cookies received."""

    port: int
    log: Path

    def url(self, path: str, user: str = "") -> str:
        return f"http://{user}{LOOPBACK}:{self.port}{path}"

    def requests(self) -> list[list[str]]:
        """Return the fields of each line of the log so far.

        Apache writes the line after the response, so the client may read the log too early. The single server
        thread
        handles requests in order, so after one more request all earlier lines are written. The event module
        does not
        wait for idle keep-alive connections. The prefork module would wait three seconds for each of them.
        """
        with socket.create_connection((LOOPBACK, self.port)) as asking:
            asking.sendall(_MARK + b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            while asking.recv(4096):
                pass
        lines = [line.split("\t") for line in self.log.read_text().splitlines()]
        return [fields for fields in lines if not fields[0].startswith(_MARK.decode())]


@contextmanager
def apache(folder: Path) -> Iterator[ApacheServer]:
    """Run the server; `folder` must be world-accessible, because the server drops root privileges."""
    files = find("apache", "usr/sbin/apache2")
    pages = folder / "pages"
    for name in ("private/page.txt", "shop/page.txt"):
        (pages / name).parent.mkdir(parents=True)
        (pages / name).write_bytes(PAGE)
    (folder / "users").write_text("".join(map(_user, USERS)), encoding="utf-8")
    log = folder / "access.log"
    with reserved_port() as port:
        configuration = folder / "apache.conf"
        configuration.write_text(_APACHE.format(port=port, folder=folder, modules=files.path(_MODULES)))
        command = [files.program, "-DFOREGROUND", "-f", str(configuration)]
        with daemon(command, files.environment(), folder / "error.log", ready="resuming normal operations"):
            yield ApacheServer(port, log)


def _user(name: str) -> str:
    realm = REALM
    return f"{name}:{realm}:{hashlib.md5(f'{name}:{realm}:{USERS[name]}'.encode()).hexdigest()}\n"


_MODULES = "usr/lib/apache2/modules"
_APACHE = """\
ServerRoot {folder}
ServerName {port}.test
DefaultRuntimeDir {folder}
PidFile {folder}/pid
Listen 127.0.0.1:{port}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authn_core_module {modules}/mod_authn_core.so
LoadModule authn_file_module {modules}/mod_authn_file.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule authz_user_module {modules}/mod_authz_user.so
LoadModule auth_digest_module {modules}/mod_auth_digest.so
LoadModule headers_module {modules}/mod_headers.so
LoadModule mime_module {modules}/mod_mime.so
TypesConfig /dev/null
<IfModule unixd_module>
User nobody
Group nogroup
</IfModule>
Mutex posixsem
ErrorLog /dev/stderr
LogLevel notice
LogFormat "%r\\t%>s\\t%u\\t%{{Cookie}}i" said
CustomLog {folder}/access.log said
ServerLimit 1
ThreadLimit 1
ThreadsPerChild 1
MaxRequestWorkers 1
KeepAliveTimeout 1
DocumentRoot {folder}/pages
<Location /private>
AuthType Digest
AuthName "the lab"
AuthDigestProvider file
AuthUserFile {folder}/users
Require valid-user
</Location>
<Location /shop>
Header add Set-Cookie "desk=s3cret; Path=/shop"
Header add Set-Cookie "gone=1; Max-Age=0"
Header add Set-Cookie "elsewhere=1; Domain=example.org"
</Location>
"""
