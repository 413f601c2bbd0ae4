"""`python -m resolver` is the command."""

from __future__ import annotations

from resolver.cli import run

if __name__ == "__main__":
    run()
