"""A check of the contract: what is done with a row under way, and which rows it is for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from protocols.contract import Kind
from resolver.testing.contract.case import Case
from resolver.testing.contract.setting import CaseSetting

#: What is done with a row; the folder is an empty one, for files.
Function: TypeAlias = Callable[[CaseSetting, Path], Coroutine[Any, Any, None]]


class ContractCheck(NamedTuple):
    """`cancels` says that it cancels tasks of trio's."""

    name: str
    function: Function
    is_for: Callable[[Case], bool]
    cancels: bool = False

    def __str__(self) -> str:
        return self.name


def anything(case: Case) -> bool:
    """Every row."""
    return True


def listing(case: Case) -> bool:
    """One that has a listing."""
    return case.listing is not None


def served(case: Case) -> bool:
    """One that connects to a server."""
    return case.start is not None


def kept(case: Case) -> bool:
    """One whose document is octets to be kept."""
    return case.kind is not Kind.SERVICE
