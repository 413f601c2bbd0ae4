"""A private namespace in which the FTP servers find the test accounts; it ends with its keeper.

Inside, /etc/passwd, /etc/shadow and /etc/pam.d are copies with the users `ftp` (anonymous) and `bob` added;
the machine's accounts are unchanged. Needs root and a kernel that allows mounts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.servers.packages import unavailable

USER = "bob"
PASSWORD = "secret pw"
#: The name under which a server asks PAM for the test accounts.
PAM_SERVICE = "resolve-tests"

_NOBODY = 65534
#: A process namespace too: servers leave children behind, which end when the first process does.
_UNSHARE = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]


def write_accounts(folder: Path, tree: Path) -> list[str]:
    """Write the account files into `folder`; return a command that runs its arguments with them in /etc.

    The home of `ftp` is `tree`, that of `bob` is `tree/./home/bob`. Servers that support this notation chroot
    to the
    part before `/./`.
    """
    if os.geteuid() != 0:  # skip even if the servers are required: without root, the namespace cannot be made
        pytest.skip("FTP servers need root: they switch users and have account files of their own")
    if subprocess.run([*_UNSHARE, "true"], capture_output=True).returncode != 0:
        unavailable("FTP servers need a mount and process namespace, which this machine does not allow")
    _write_passwords(folder, tree)
    pam = folder / "pam.d"
    shutil.copytree("/etc/pam.d", pam, symlinks=True)
    rules = (f"{step} required pam_{module}\n" for step, module in PAM_RULES)
    (pam / PAM_SERVICE).write_text("".join(rules))
    mounts = "".join(f'mount --bind "$0/{name}" /etc/{name} && ' for name in ("passwd", "shadow", "pam.d"))
    return [*_UNSHARE, "sh", "-c", f'{mounts} exec "$@"', str(folder)]


#: nodelay: a wrong password is refused immediately, not after seconds.
PAM_RULES = (("auth", "unix.so nodelay"), ("account", "unix.so"), ("session", "permit.so"))


def hashed_password(password: str = PASSWORD) -> str:
    """Return the crypt(3) hash of the password (SHA-512)."""
    made = subprocess.run(["openssl", "passwd", "-6", password], capture_output=True, check=True, text=True)
    return made.stdout.strip()


def _write_passwords(folder: Path, tree: Path) -> None:
    accounts = {"ftp": f"anonymous:{tree}", USER: f"a person:{tree}/./home/{USER}"}
    users = "".join(f"{name}:x:{_NOBODY}:{_NOBODY}:{rest}:/bin/sh\n" for name, rest in accounts.items())
    (folder / "passwd").write_text(_lines_without(accounts, "/etc/passwd") + users)
    secrets = f"ftp:*:19000:0:99999:7:::\n{USER}:{hashed_password()}:19000:0:99999:7:::\n"
    shadow = folder / "shadow"
    shadow.touch(0o600)
    shadow.write_text(_lines_without(accounts, "/etc/shadow") + secrets)


def _lines_without(names: dict[str, str], path: str) -> str:
    """Return the content of the machine's file without the lines of these users, with a final line end."""
    lines = Path(path).read_text().splitlines()
    return "".join(f"{line}\n" for line in lines if line.partition(":")[0] not in names)
