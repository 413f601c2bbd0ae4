"""The constructors of classes of values, written for their fields and compiled when they are needed.

Python has no other way to one that is as fast as those that are written by hand. A frozen value could be
given its fields by `object.__setattr__`, each at ten times the price of an assignment. So one of several
fields is, while it is made, of a class beside its own, which lets them be assigned; when the constructor is
done, and before `__post_init__`, it is of its own class, and frozen.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Absent:
    """What stands for no default, and in a constructor for a value that a factory makes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<factory>"


ABSENT: Any = _Absent()

#: From so many fields on it pays to change the class of a frozen value, and back.
_SEVERAL = 4


class _Open(dict["type[Any]", "type[Any]"]):
    """By a frozen class: one like it, whose values can be given their fields."""

    def __missing__(self, frozen: type[Any]) -> type[Any]:
        class Opened(frozen):  # type: ignore[misc]
            __slots__ = ()
            __setattr__ = object.__setattr__
            __delattr__ = object.__delattr__

        self[frozen] = Opened
        return Opened


_open_of = _Open()


def for_fields(owner: Any, *, frozen: bool) -> Callable[..., None]:
    """Of a dataclass: one that sets its `__values__`."""
    places: list[str] = []
    named: list[str] = []
    lines: list[str] = []
    known: dict[str, Any] = {"__name__": owner.__module__, "_absent": ABSENT, "_put": object.__setattr__}
    opens = frozen and len(owner.__values__) >= _SEVERAL
    put = "self.{0} = {1}" if opens or not frozen else "_put(self, {0!r}, {1})"
    if opens:
        known["_open_of"] = _open_of
        lines += ["_own = self.__class__", "_put(self, '__class__', _open_of[_own])"]
    for name, each in owner.__values__.items():
        default, value = "", name
        if each.factory is not ABSENT:
            known[f"_new_{name}"], default = each.factory, " = _absent"
            value = f"_new_{name}() if {name} is _absent else {name}" if each.init else f"_new_{name}()"
        elif each.default is not ABSENT:
            known[f"_of_{name}"], default = each.default, f" = _of_{name}"
            value = name if each.init else f"_of_{name}"
        elif not each.init:
            continue
        if each.init:
            (named if each.kw_only else places).append(name + default)
        lines.append(put.format(name, value))
    if opens:
        lines.append("self.__class__ = _own")
    if hasattr(owner, "__post_init__"):
        lines.append("self.__post_init__()")
    taken = ", ".join(["self", *places, *(["*", *named] if named else [])])
    exec(f"def __init__({taken}):\n " + "\n ".join(lines or ["pass"]), known)  # noqa: S102  # names and order are those of the class
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{owner.__qualname__}.__init__"
    made.__annotations__ = {name: each.type for name, each in owner.__values__.items() if each.init}
    made.__annotations__["return"] = None
    return made


def for_tuple(owner: Any) -> Any:
    """Of a named tuple: one that is given its `_fields`."""
    names, defaults = ", ".join(owner._fields), owner._field_defaults
    known: dict[str, Any] = {"__name__": owner.__module__, "_tuple": tuple.__new__}
    comma = "," if len(owner._fields) == 1 else ""
    exec(f"def __new__(_cls, {names}):\n return _tuple(_cls, ({names}{comma}))", known)  # noqa: S102
    made = known["__new__"]
    made.__defaults__ = tuple(defaults.values())
    made.__qualname__ = f"{owner.__qualname__}.__new__"
    made.__annotations__ = owner.__annotations__
    return staticmethod(made)
