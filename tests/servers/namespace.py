"""A private namespace in which the FTP servers find accounts of our own, and end with their keeper.

There /etc/passwd, /etc/shadow and /etc/pam.d are copies with the users `ftp` (anonymous) and `bob`
added, so the machine's accounts stay as they are. Needs root and a kernel that lets us mount.
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
#: The name under which a server asks PAM for our accounts.
PAM_SERVICE = "resolve-tests"

_NOBODY = 65534
#: Processes too: their servers leave children behind, which end when the first process does.
_UNSHARE = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]


def write_accounts(folder: Path, tree: Path) -> list[str]:
    """Write the account files into `folder`; the command that runs its arguments where they are /etc's.

    `ftp` is at home in `tree`, `bob` in `tree/./home/bob`: chrooted to the first part by the servers
    that know this notation.
    """
    if os.geteuid() != 0:  # nor could anybody make them available, so that requiring them is no use
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


#: A password that is wrong is refused at once, and not after seconds.
PAM_RULES = (("auth", "unix.so nodelay"), ("account", "unix.so"), ("session", "permit.so"))


def hashed_password(password: str = PASSWORD) -> str:
    """The password as crypt(3) knows it (SHA-512)."""
    made = subprocess.run(["openssl", "passwd", "-6", password], capture_output=True, check=True, text=True)
    return made.stdout.strip()


def _write_passwords(folder: Path, tree: Path) -> None:
    accounts = {"ftp": f"anonymous:{tree}", USER: f"a person:{tree}/./home/{USER}"}
    users = "".join(f"{name}:x:{_NOBODY}:{_NOBODY}:{rest}:/bin/sh\n" for name, rest in accounts.items())
    (folder / "passwd").write_text(_without(accounts, "/etc/passwd") + users)
    secrets = f"ftp:*:19000:0:99999:7:::\n{USER}:{hashed_password()}:19000:0:99999:7:::\n"
    shadow = folder / "shadow"
    shadow.touch(0o600)
    shadow.write_text(_without(accounts, "/etc/shadow") + secrets)


def _without(names: dict[str, str], path: str) -> str:
    """The machine's file without lines of these users; its own end their lines."""
    lines = Path(path).read_text().splitlines()
    return "".join(f"{line}\n" for line in lines if line.partition(":")[0] not in names)
