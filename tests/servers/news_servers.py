"""INN from Debian's packages with the articles of `news_spool`.

A port per flavor:
- `transit`: innd, which hands a reader over to nnrpd at MODE READER
- `plain`: anonymous users read all groups except private.*; STARTTLS is offered
- `login`: every access needs a login
- `secret`: every access needs a login inside TLS
- `implicit`: TLS from the first byte

All except `transit` are nnrpd, inetd style.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.certificates import Certificates
from tests.servers.namespace import hashed_password
from tests.servers.news_spool import DESCRIPTIONS, GROUPS, feed
from tests.servers.packages import find, unavailable
from tests.servers.service import LOOPBACK, activated, inetd

USER = "alice"
PASSWORD = "p:ss/w@rd"

#: Seconds that innd may take to start and to accept an article on a busy machine.
_PATIENCE = 30.0
#: INN runs only as user and group `news` (9 in Debian). A user namespace maps the user of the tests to
#: `news`: INN needs no root, and its files have the same owner as the test files.
_AS_NEWS = ["unshare", "--user", "--map-user=9", "--map-group=9"]


@dataclass(frozen=True)
class NewsServer:
    """A running server: its port by flavor, and the authority of its certificate."""

    ports: Mapping[str, int]
    authority: Path


@contextmanager
def inn(folder: Path, certificates: Certificates) -> Iterator[NewsServer]:
    files = find("inn", "usr/lib/news/bin/innd")
    if subprocess.run([*_AS_NEWS, "true"], capture_output=True).returncode != 0:
        unavailable("INN needs a user namespace, which this machine does not allow")
    programs = files.path("usr/lib/news")
    _write_configuration(folder, programs, certificates)
    environment = {**files.environment(), "INNCONF": str(folder / "inn.conf")}

    def command(program: str, *arguments: str) -> list[str]:
        return [*_AS_NEWS, str(programs / "bin" / program), *arguments]

    make_history = command("makedbz", "-i", "-o", "-s", "1000", "-f", str(folder / "history"))
    subprocess.run(make_history, env=environment, cwd=folder, check=True)
    with ExitStack() as stack:
        log = folder / "innd.log"
        ports = {"transit": stack.enter_context(activated(command("innd", "-d"), environment, log))}
        feed(ports["transit"], _PATIENCE)
        for flavor, arguments in _READERS.items():
            reader = command("nnrpd", "-n", *arguments)
            service = inetd(reader, environment, folder / f"{flavor}.log")
            ports[flavor] = stack.enter_context(service)
        yield NewsServer(ports, certificates.authority)


_READERS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "login": ("-c", "login.conf"),
    "secret": ("-c", "secret.conf"),
    "implicit": ("-S",),
}


def _write_configuration(folder: Path, programs: Path, certificates: Certificates) -> None:
    for name in ("articles", "overview", "incoming", "run", "filters"):
        (folder / name).mkdir()
    written = {
        "inn.conf": _INN.format(folder=folder, programs=programs, tls=certificates),
        "incoming.conf": f'peer tests {{\n hostname: "{LOOPBACK}"\n}}\n',
        "newsfeeds": "ME:!*::\n",
        "storage.conf": "method tradspool {\n newsgroups: *\n class: 0\n}\n",
        "expire.ctl": "*:A:1:90:never\n",
        "control.ctl": "all:*:*:drop\ncancel:*:*:doit\n",
        "passwords": f"{USER}:{hashed_password(PASSWORD)}\n",
        "readers.conf": _readers(folder, 'default: "<anonymous>"') + _ANONYMOUS,
        "login.conf": _readers(folder),
        "secret.conf": _readers(folder, "require_encryption: true"),
        "active": "".join(f"{name} {high:010} {low:010} {flag}\n" for name, high, low, flag in GROUPS),
        "newsgroups": "".join(f"{name}\t{text}\n" for name, text in DESCRIPTIONS.items()),
        "history": "",
    }
    for name, text in written.items():
        (folder / name).write_text(text)


def _readers(folder: Path, setting: str = "") -> str:
    """Return readers.conf(5): the login method, and the access of logged-in users."""
    check = f'auth: "ckpasswd -f {folder}/passwords"'
    users = f'access users {{\n users: "{USER}"\n newsgroups: "*"\n access: R\n}}\n'
    return f'auth all {{\n hosts: "*"\n {check}\n {setting}\n}}\n{users}'


_ANONYMOUS = """\
access anonymous {
 users: "<anonymous>"
 newsgroups: "*,!private.*"
 access: R
}
"""
_INN = """\
pathhost: news.example.test
domain: example.test
mta: "/bin/false %s"
hismethod: hisv6
ovmethod: tradindexed
enableoverview: true
icdsynccount: 1
artcutoff: 0
maxartsize: 0
docancels: all
doinnwatch: false
nnrpdflags: "-n"
nnrpdloadlimit: 0
backoffauth: false
tlscertfile: {tls.chain}
tlskeyfile: {tls.key}
tlscapath: {folder}
pathnews: {programs}
pathdb: {folder}
pathetc: {folder}
pathlog: {folder}
pathspool: {folder}
pathtmp: {folder}/incoming
pathrun: {folder}/run
pathfilter: {folder}/filters
patharticles: {folder}/articles
pathoverview: {folder}/overview
pathincoming: {folder}/incoming
"""
