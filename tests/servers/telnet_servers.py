"""inetutils' telnetd from Debian's package, inetd style, with a small program of ours in place of login."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.packages import find
from tests.servers.service import LOOPBACK, inetd

#: Says who came, and what it was told of his terminal.
_PROGRAM = """\
#!/bin/sh
printf 'login: '; read -r name
printf 'hello %s\\n$ ' "$name"; read -r command
[ "$command" = size ] && stty size; echo "$TERM"
printf 'caf\\303\\251 \\377\\n$ '; read -r command
"""


@contextmanager
def telnetd(folder: Path) -> Iterator[str]:
    """The URL of one that runs."""
    program = "usr/sbin/telnetd"
    files = find("telnetd", program)
    script = folder / "program"
    script.write_text(_PROGRAM)
    script.chmod(0o755)

    def command(port: int) -> list[str]:
        return [str(files.path(program)), "-h", "-E", str(script)]

    with inetd(command, files.environment(), folder / "telnetd.log") as port:
        yield f"telnet://{LOOPBACK}:{port}/"
