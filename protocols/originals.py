"""What Python's own tools know a class of values by, for who asks: `inspect`, `help`, `dataclasses`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any


def signature_of(constructor: Callable[..., object]) -> inspect.Signature:
    """As a caller of the class sees it: without the value itself, or its class."""
    whole = inspect.signature(constructor)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


def dataclass_of(made: Any, *, frozen: bool, absent: object) -> type:
    """A dataclass of Python's with the fields of one that `protocols.values` made."""
    rows: list[Any] = [(name, each.type, _field_of(each, absent)) for name, each in made.__values__.items()]
    return dataclasses.make_dataclass(made.__name__, rows, frozen=frozen)


def _field_of(each: Any, absent: object) -> object:
    said: dict[str, Any] = {name: getattr(each, name) for name in ("init", "repr", "compare", "kw_only")}
    if each.default is not absent:
        said["default"] = each.default
    if each.factory is not absent:
        said["default_factory"] = each.factory
    return dataclasses.field(**said)
