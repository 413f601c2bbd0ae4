"""Write the shell completions and the man page below DIR: `python -m manual DIR`."""

from __future__ import annotations

import sys
from pathlib import Path

from resolver.cli.manual import FILES


def write(folder: Path) -> dict[str, Path]:
    """Write all files below `folder`; return the path of each file by its path below the install prefix."""
    for place, make in FILES.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(make(), encoding="utf-8")
    return {place: folder / place for place in FILES}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m manual DIR")
    for path in write(Path(sys.argv[1])).values():
        print(path)
