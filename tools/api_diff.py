"""Report breaking changes of the public API since the last release: `python -m tools.api_diff [REF]`.

griffe compares the public names of `resolver/__init__.pyi` with the public names at a Git reference (by
default the latest tag `v*`). The comparison is static: code of the two versions is not run.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

CHECKOUT = Path(__file__).parents[1]


def latest_tag(repository: Path) -> str | None:
    """Return the latest release tag that is an ancestor of HEAD, or None."""
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def public_api(repository: Path, reference: str | None = None) -> griffe.Module:
    """Load the module `resolver`, reduced to its public names, from a Git reference or the working tree."""
    options: dict[str, Any] = {
        "modules_collection": griffe.ModulesCollection(),
        "lines_collection": griffe.LinesCollection(),
    }
    for package in ("protocols", "resolver"):
        if reference is None:
            loaded = griffe.load(package, search_paths=[repository], try_relative_path=False, **options)
        else:
            loaded = griffe.load_git(package, ref=reference, repo=repository, **options)
    assert isinstance(loaded, griffe.Module)
    ours = {name for name, path in loaded.imports.items() if path.split(".")[0] in ("protocols", "resolver")}
    for name in ours:
        if isinstance(member := loaded.members[name], griffe.Alias):
            member.resolve_target()
    loaded.exports = list(ours)  # griffe compares public members only, and cannot evaluate a computed __all__
    loaded.members = {name: member for name, member in loaded.members.items() if name in ours}
    return loaded


def breaking_changes(old: griffe.Module, new: griffe.Module) -> Iterator[str]:
    """Yield a Markdown line for each breaking change."""
    for change in griffe.find_breaking_changes(old, new):
        if not change.obj.is_module:  # the modules of the package `blocking` are internal
            yield change.explain(griffe.ExplanationStyle.MARKDOWN)


def main(repository: Path, reference: str | None) -> None:
    reference = reference or latest_tag(repository)
    if reference is None:
        print("api-diff: no tag v*: no release to compare with")
        return
    changes = list(breaking_changes(public_api(repository, reference), public_api(repository)))
    print(*changes, f"api-diff: {len(changes)} breaking changes since {reference}", sep="\n")


if __name__ == "__main__":
    main(CHECKOUT, sys.argv[1] if len(sys.argv) > 1 else None)
