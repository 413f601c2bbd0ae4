"""dictd, in.fingerd and Molly Brown from Debian's packages, for the schemes of `fixtures/plugins`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hang import HANG
from tests.servers.certificates import Certificates
from tests.servers.packages import find
from tests.servers.service import LOOPBACK, daemon, inetd, reserved_port

#: A tiny dictionary in the format of `dictfmt -j`.
_PETS = """\
:cat:A small animal
.that purrs.
:cart:It has wheels.
:café:Where they meet.
"""

#: Replaces `finger`: prints the name it was asked for, even an empty one.
_FINGER = """\
#!/bin/sh
echo "Asked for:$(printf ' [%s]' "$@")"
"""

_CAPSULE = {
    "index.gmi": "# A capsule\n=> a.txt A text\n=> gemini://h.example/ Elsewhere\n",
    "a.txt": "A text.\nTwo lines.\n",
}

_MOLLY = """\
Port = {port}
Hostname = "127.0.0.1"
CertPath = "{tls.chain}"
KeyPath = "{tls.key}"
DocBase = "{folder}/capsule"
AccessLog = "-"
ErrorLog = "-"
[TempRedirects]
"/old" = "/a.txt"
"""


@contextmanager
def dictd(folder: Path) -> Iterator[str]:
    """Run dictd with a database `pets`, inetd style; yield its URL."""
    files = find("dictd", "usr/sbin/dictd")
    pets, configuration = folder / "pets", folder / "dictd.conf"
    subprocess.run(
        [str(files.path("usr/bin/dictfmt")), "-j", "--utf8", "-s", "Pets", "-u", "none", str(pets)],
        input=_PETS.encode(),
        env=files.environment(),
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=HANG,
    )
    configuration.write_text(f'database pets {{ data "{pets}.dict" index "{pets}.index" }}\n')
    for name in ("pets.dict", "pets.index", "dictd.conf"):
        (folder / name).chmod(0o644)  # dictd drops root privileges
    command = [files.program, "-i", "-c", str(configuration)]
    with inetd(command, files.environment(), folder / "dictd.log") as port:
        yield f"dict://{LOOPBACK}:{port}/"


@contextmanager
def fingerd(folder: Path) -> Iterator[str]:
    """Run in.fingerd with `_FINGER` as its finger program, inetd style; yield its URL."""
    files = find("fingerd", "usr/sbin/in.fingerd")
    script = folder / "finger"
    script.write_text(_FINGER)
    script.chmod(0o755)
    command = [files.program, "-p", str(script)]
    with inetd(command, files.environment(), folder / "fingerd.log") as port:
        yield f"finger://{LOOPBACK}:{port}/"


@contextmanager
def molly_brown(folder: Path, certificates: Certificates) -> Iterator[str]:
    """Start the server and yield its URL.

    The server does not report that it listens, so the first client must retry.
    """
    files = find("molly-brown", "usr/bin/molly-brown")
    capsule, configuration = folder / "capsule", folder / "molly.conf"
    capsule.mkdir()
    for name, text in _CAPSULE.items():
        (capsule / name).write_text(text)
        (capsule / name).chmod(0o644)  # the server serves only world-readable files
    capsule.chmod(0o755)
    with reserved_port() as port:
        configuration.write_text(_MOLLY.format(port=port, tls=certificates, folder=folder))
        started = ["/bin/sh", "-c", 'echo started; exec "$@"', "molly-brown"]
        command = [*started, files.program, "-c", str(configuration)]
        with daemon(command, files.environment(), folder / "molly.log", ready="^started"):
            yield f"gemini://{LOOPBACK}:{port}/"
