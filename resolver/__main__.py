"""Run the command: `python -m resolver`."""

from __future__ import annotations

from resolver.cli import run

if __name__ == "__main__":
    run()
