"""nginx from Debian's package: `http_tree` over plain http, over TLS, and over TLS with HTTP/2."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.certificates import Certificates
from tests.servers.packages import find
from tests.servers.service import LOOPBACK, daemon, reserved_port

ABOUT = b"A text of two lines.\nThe second one.\n"
LONG = b"".join(b"line %d of a long text\n" % number for number in range(10_000))
DATA = bytes(range(256)) * (1 << 15)

TREE: dict[str, bytes] = {
    "about.txt": ABOUT,
    "empty.txt": b"",
    "long.txt": LONG,
    "data.bin": DATA,
    "names/a b{c}.txt": ABOUT,
    "private/secret.txt": b"A secret.\n",
}

_MARK = b"GET /nothing?mark"


@dataclass(frozen=True)
class HttpServer:
    """A running server. `log` has a line per request: connection, request line, status, Range, Cookie.

    HTTP/2 has a separate port.
    """

    port: int
    tls_port: int
    http2_port: int
    authority: Path
    log: Path

    def url(self, path: str, scheme: str = "http", user: str = "") -> str:
        port = self.port if scheme == "http" else self.tls_port
        return f"{scheme}://{user}{LOOPBACK}:{port}{path}"

    def http2_url(self, path: str, user: str = "") -> str:
        return f"https://{user}{LOOPBACK}:{self.http2_port}{path}"

    def requests(self) -> list[list[str]]:
        """Return the fields of each line of the log so far.

        nginx writes the line after the response, so the client may read the log too early. After one more
        request, all
        earlier lines are written.
        """
        with socket.create_connection((LOOPBACK, self.port)) as asking:
            asking.sendall(_MARK + b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            while asking.recv(4096):
                pass
        lines = [line.split("\t") for line in self.log.read_text().splitlines()]
        return [fields for fields in lines if not fields[1].startswith(_MARK.decode())]


def write_http_tree(tree: Path) -> None:
    for name, octets in TREE.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(octets)


@contextmanager
def nginx(
    tree: Path, folder: Path, certificates: Certificates, *, also: Sequence[str] = ()
) -> Iterator[HttpServer]:
    """Run one process as the user of the tests; it writes only inside `folder`.

    It also listens at the loopback addresses `also`, without TLS.
    """
    files = find("nginx", "usr/sbin/nginx")
    (folder / "passwords").write_text("user:{PLAIN}password\n")
    configuration = folder / "nginx.conf"
    with reserved_port() as port, reserved_port() as tls_port, reserved_port() as http2_port:
        ports = {"port": port, "tls_port": tls_port, "http2_port": http2_port}
        more = "".join(f"listen {address}:{port};\n" for address in also)
        configuration.write_text(
            _NGINX.format(**ports, tree=tree, folder=folder, tls=certificates, more=more)
        )
        command = [files.program, "-e", "stderr", "-p", str(folder), "-c", str(configuration)]
        with daemon(command, files.environment(), folder / "nginx.log", ready=r"\[notice\].* OS: "):
            yield HttpServer(port, tls_port, http2_port, certificates.authority, folder / "access.log")


_NGINX = """\
daemon off;
master_process off;
pid "{folder}/nginx.pid";
error_log stderr notice;
worker_rlimit_nofile 4096;
events {{ worker_connections 2048; }}
http {{
    log_format tests "$connection\\t$request\\t$status\\t$http_range\\t$http_cookie";
    access_log "{folder}/access.log" tests;
    client_body_temp_path "{folder}/body";
    proxy_temp_path "{folder}/proxy";
    fastcgi_temp_path "{folder}/fastcgi";
    uwsgi_temp_path "{folder}/uwsgi";
    scgi_temp_path "{folder}/scgi";
    types {{ text/plain txt; application/octet-stream bin; }}
    charset utf-8;
    gzip on;
    gzip_types text/plain;
    gzip_min_length 1000;
    server {{
        listen 127.0.0.1:{port};
        {more}
        listen 127.0.0.1:{tls_port} ssl;
        listen 127.0.0.1:{http2_port} ssl http2;
        ssl_certificate "{tls.chain}";
        ssl_certificate_key "{tls.key}";
        root "{tree}";
        merge_slashes off;
        location /limited/ {{ alias "{tree}/"; limit_rate 16m; }}
        location /rounded/ {{ alias "{tree}/"; autoindex on; autoindex_exact_size off; }}
        location /objects/ {{ alias "{tree}/"; autoindex on; autoindex_format json; }}
        location /elements/ {{ alias "{tree}/"; autoindex on; autoindex_format xml; }}
        location /private/ {{ auth_basic "example"; auth_basic_user_file "{folder}/passwords"; }}
        location /shop/ {{
            alias "{tree}/";
            add_header Set-Cookie "desk=s3cret; Path=/shop";
            add_header Set-Cookie "gone=1; Max-Age=0";
            add_header Set-Cookie "elsewhere=1; Domain=example.org";
        }}
        location = /moved {{ return 302 about.txt; }}
        location = /moved/name {{ return 302 "/names/a b{{c}}.txt"; }}
        location = /moved/round {{ return 302 /moved/round; }}
        location = /moved/mail {{ return 301 http://127.0.0.1:25/; }}
        location = /teapot {{ return 418; }}
        location = /busy {{ return 503; }}
        location = /nothing {{ return 204; }}
    }}
}}
"""
