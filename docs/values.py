"""Tells griffe, who reads the sources and does not run them, that `protocols.values` means `dataclasses`: the
reference shows of a dataclass what its constructor takes."""

from __future__ import annotations

import griffe


class Values(griffe.Extension):
    """Every `from protocols.values import dataclass` is one of the original."""

    def on_module_members(self, *, mod: griffe.Module, **_: object) -> None:
        for name in ("dataclass", "field"):
            found = mod.members.get(name)
            if isinstance(found, griffe.Alias) and found.target_path == f"protocols.values.{name}":
                found.target_path = f"dataclasses.{name}"
