"""inetutils' telnetd from Debian's package, inetd style, with a small script in place of login."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.namespace import PAM_RULES, write_accounts
from tests.servers.packages import find, unavailable
from tests.servers.service import LOOPBACK, inetd

#: Prints the user name, and the terminal's size and type as received.
_PROGRAM = """\
#!/bin/sh
printf 'login: '; read -r name
printf 'hello %s\\n$ ' "$name"; read -r command
[ "$command" = size ] && stty size; echo "$TERM"
printf 'caf\\303\\251 \\377\\n$ '; read -r command
"""


#: Asks for a name and a hidden password, and then is a shell with `less` and `vi`.
_SHELL = """\
#!/bin/sh
printf 'login: '; read -r name
stty -echo; printf 'Password: '; read -r password; stty echo
printf '\\nhello %s\\n' "$name"
less() {{ LD_LIBRARY_PATH={libraries} LESS= LESSOPEN= {less} "$@"; }}
vi() {{ LD_LIBRARY_PATH={libraries} {vi} -u NONE "$@"; }}
cd {folder}
while printf '$ ' && read -r command; do eval "$command"; done
"""


@contextmanager
def telnetd(folder: Path) -> Iterator[str]:
    with _running(folder, _PROGRAM) as url:
        yield url


@contextmanager
def telnetd_with_screens(folder: Path) -> Iterator[str]:
    """Yield the URL of a telnetd with full-screen programs and a `text` of 100 lines."""
    files = find("screens", "usr/bin/less")
    (folder / "text").write_text("".join(f"line {number}\n" for number in range(1, 101)))
    vi = files.path("usr/bin/vim.tiny")
    words = {
        "less": files.path("usr/bin/less"),
        "vi": vi if vi.exists() else Path("/usr/bin/vi"),
        "libraries": files.environment().get("LD_LIBRARY_PATH", ""),
        "folder": folder,
    }
    with _running(
        folder, _SHELL.format_map({name: shlex.quote(str(word)) for name, word in words.items()})
    ) as url:
        yield url


@contextmanager
def telnetd_with_login(folder: Path) -> Iterator[str]:
    """Yield the URL of a telnetd with the system's login, where `namespace.USER` has an account."""
    files = find("telnetd", "usr/sbin/telnetd")
    if not Path("/bin/login").exists():
        unavailable("the system has no login")
    wrapper = write_accounts(folder, folder)
    rules = "".join(f"{step} required pam_{module}\n" for step, module in PAM_RULES)
    (folder / "pam.d" / "login").write_text(rules)
    command = [files.program, "-h"]
    with inetd(command, files.environment(), folder / "telnetd.log", wrapper) as port:
        yield f"telnet://{LOOPBACK}:{port}/"


@contextmanager
def _running(folder: Path, text: str) -> Iterator[str]:
    files = find("telnetd", "usr/sbin/telnetd")
    script = folder / "program"
    script.write_text(text)
    script.chmod(0o755)
    command = [files.program, "-h", "-E", str(script)]
    with inetd(command, files.environment(), folder / "telnetd.log") as port:
        yield f"telnet://{LOOPBACK}:{port}/"
