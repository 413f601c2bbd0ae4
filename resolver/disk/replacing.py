"""A small file put whole in the place of what has its name."""

from __future__ import annotations

import os
from contextlib import suppress


def replace(path: str, octets: bytes, mode: int) -> None:
    """In one step, once all of it is on the disk, with the permissions `mode` less the user's mask. Raises
    `OSError`; then nothing is left of it, and what was there stands."""
    new = f"{path}.{os.urandom(8).hex()}"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        with open(fd, "wb") as file:
            file.write(octets)
            file.flush()
            os.fsync(fd)
        os.replace(new, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(new)
        raise
