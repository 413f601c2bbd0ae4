"""vsftpd, ProFTPD and Pure-FTPd from Debian's packages, each serving `ftp_tree`, inetd style.

Each server has a port per flavor:
- `plain`
- `tls`: AUTH TLS is required
- `implicit`: TLS from the first byte (not Pure-FTPd, which does not support it)
- `ascii` (vsftpd only): converts in TYPE A, which vsftpd does only if configured
- `tls-data` (Pure-FTPd only): refuses data connections without TLS, which `tls` of Pure-FTPd accepts
- `few` (Pure-FTPd only): truncates listings at 20 names

The plain vsftpd logs its transfers. Anonymous users and `namespace.USER` can log in; the home directory of
the latter is home/bob. TLS settings are the servers' defaults: vsftpd and ProFTPD demand that data
connections resume the control connection's session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.certificates import Certificates
from tests.servers.namespace import PAM_SERVICE, USER, hashed_password
from tests.servers.packages import Unpacked, find
from tests.servers.service import inetd


@dataclass(frozen=True)
class FtpSite:
    """The files, the certificates, and the wrapper command that gives the servers the test accounts.

    `tree` must be world-accessible, because the servers drop root privileges.
    """

    tree: Path
    certificates: Certificates
    wrapper: Sequence[str]


@dataclass(frozen=True)
class FtpServer:
    """A running server: its port by flavor, and the authority of its certificate.

    `log` has a line for each file sent, written before the server reports the end of the transfer.
    """

    name: str
    ports: Mapping[str, int]
    authority: Path
    log: Path | None = None

    def sent(self) -> int:
        """Return the number of files sent so far."""
        assert self.log is not None
        return self.log.read_bytes().count(b"\n") if self.log.exists() else 0


@contextmanager
def vsftpd(site: FtpSite, folder: Path) -> Iterator[FtpServer]:
    files = find("vsftpd", "usr/sbin/vsftpd")
    cell = folder / "cell"
    cell.mkdir(0o755)
    pem = site.certificates.combined
    common = _plain_vsftpd(site, cell)
    tls = [*_VSFTPD_TLS, f"rsa_cert_file={pem}", f"rsa_private_key_file={pem}"]
    log = folder / "sent.log"
    flavors = {
        "plain": [*common, "xferlog_enable=YES", f"xferlog_file={log}", "xferlog_std_format=YES"],
        "ascii": [*common, "ascii_download_enable=YES"],
        "tls": [*common, *tls],
        "implicit": [*common, *tls, "implicit_ssl=YES"],
    }

    def command(flavor: str) -> list[str]:
        return [files.program, str(_write(folder / f"{flavor}.conf", flavors[flavor]))]

    with _flavors(site, files, folder, flavors, command) as ports:
        yield FtpServer("vsftpd", ports, site.certificates.authority, log)


@contextmanager
def vsftpd_at(hosts: Iterable[str], site: FtpSite, folder: Path) -> Iterator[list[tuple[str, int]]]:
    """Run the plain server at each address; yield each address with its port.

    Data connections use the same address.
    """
    files = find("vsftpd", "usr/sbin/vsftpd")
    cell = folder / "cell"
    cell.mkdir(0o755)
    configuration = _write(folder / "plain.conf", _plain_vsftpd(site, cell))
    command = [files.program, str(configuration)]
    log = folder / "plain.log"
    with ExitStack() as stack:
        yield [
            (
                host,
                stack.enter_context(inetd(command, files.environment(), log, site.wrapper, host)),
            )
            for host in hosts
        ]


def _plain_vsftpd(site: FtpSite, cell: Path) -> list[str]:
    return [
        *_VSFTPD,
        f"anon_root={site.tree}",
        f"secure_chroot_dir={cell}",
        f"pam_service_name={PAM_SERVICE}",
    ]


@contextmanager
def proftpd(site: FtpSite, folder: Path) -> Iterator[FtpServer]:
    files = find("proftpd", "usr/sbin/proftpd")
    users = _write(
        folder / "users",
        [
            f"{USER}:{hashed_password()}:65534:65534:a person:{site.tree}/home/{USER}:/bin/sh",
            f"nobody:*:65534:65534:anonymous:{site.tree}:/bin/sh",
        ],
    )
    groups = _write(folder / "groups", ["nogroup:x:65534:"])
    common = _PROFTPD.format(
        modules=files.path("usr/lib/proftpd"), tree=site.tree, users=users, groups=groups, folder=folder
    ).splitlines()
    tls = [*_PROFTPD_TLS, f"TLSRSACertificateFile {site.certificates.chain}"]
    tls += [f"TLSRSACertificateKeyFile {site.certificates.key}", f"TLSLog {folder}/mod_tls.log"]
    flavors = {
        "plain": common,
        "tls": [*common, *tls],
        "implicit": [*common, *tls, "TLSOptions UseImplicitSSL"],
    }

    def command(flavor: str) -> list[str]:
        configuration = _write(folder / f"{flavor}.conf", flavors[flavor])
        return [files.program, "-c", str(configuration)]

    with _flavors(site, files, folder, flavors, command) as ports:
        yield FtpServer("proftpd", ports, site.certificates.authority)


@contextmanager
def pure_ftpd(site: FtpSite, folder: Path) -> Iterator[FtpServer]:
    files = find("pure-ftpd", "usr/sbin/pure-ftpd")
    #: 0 no TLS, 2 required for the control connection, 3 for data connections too
    flavors = {"plain": "0", "few": "0", "tls": "2", "tls-data": "3"}

    def command(flavor: str) -> list[str]:
        # -A chroot, -H no DNS lookups, -u 1 any uid except root's, -z allow names that start with a dot, -l
        # unix: the test accounts
        switches = ["-A", "-H", "-u", "1", "-z", "-f", "none", "-l", "unix"]
        tls = ["-Y", flavors[flavor], "-2", str(site.certificates.combined)]
        few = ["-L", "20:1"] if flavor == "few" else []
        return [files.program, *switches, *tls, *few]

    with _flavors(site, files, folder, flavors, command) as ports:
        yield FtpServer("pure-ftpd", ports, site.certificates.authority)


@contextmanager
def _flavors(
    site: FtpSite,
    files: Unpacked,
    folder: Path,
    flavors: Iterable[str],
    command: Callable[[str], list[str]],
) -> Iterator[dict[str, int]]:
    with ExitStack() as stack:
        ports: dict[str, int] = {}
        for flavor in flavors:
            log = folder / f"{flavor}.log"
            service = inetd(command(flavor), files.environment(), log, site.wrapper)
            ports[flavor] = stack.enter_context(service)
        yield ports


def _write(path: Path, lines: Iterable[str]) -> Path:
    """Write a configuration file with mode 600, as the servers demand."""
    path.touch(0o600)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


_VSFTPD = (
    "listen=NO",
    "anonymous_enable=YES",
    "local_enable=YES",
    "delay_failed_login=0",
    "write_enable=NO",
    "ftp_username=ftp",
    "nopriv_user=nobody",
    "chroot_local_user=YES",
    "passwd_chroot_enable=YES",
    "seccomp_sandbox=NO",
    "isolate_network=NO",
)
_VSFTPD_TLS = (
    "ssl_enable=YES",
    "allow_anon_ssl=YES",
    "force_anon_logins_ssl=YES",
    "force_anon_data_ssl=YES",
    "force_local_logins_ssl=YES",
    "force_local_data_ssl=YES",
    "ssl_ciphers=HIGH",
)
_PROFTPD = """\
ServerName "test server"
ServerType inetd
DefaultServer on
Port 0
ModulePath {modules}
LoadModule mod_tls.c
LoadModule mod_ident.c
IdentLookups off
UseReverseDNS off
UseIPv6 off
DefaultAddress 127.0.0.1
ScoreboardFile {folder}/scoreboard
PidFile {folder}/pid
DelayEngine off
SystemLog {folder}/system.log
TransferLog none
WtmpLog off
User nobody
Group nogroup
DefaultRoot {tree}
RequireValidShell off
UseFtpUsers off
AuthOrder mod_auth_file.c
AuthUserFile {users}
AuthGroupFile {groups}
<Anonymous {tree}>
User nobody
Group nogroup
UserAlias anonymous nobody
UserAlias ftp nobody
AnonRequirePassword off
RequireValidShell off
<Limit WRITE>
DenyAll
</Limit>
</Anonymous>
"""
_PROFTPD_TLS = ("TLSEngine on", "TLSRequired on")
