"""Classes of values: `dataclass`, `field`, `fields`, `replace` and `NamedTuple`, which mean what they mean in
`dataclasses` and `typing`, for a command that should start as fast as Python does.

What Python makes of such a class is compiled while it is imported, half a millisecond of source text for
each, most of which a start never uses; and `dataclasses` itself brings Python's own compiler tools. Here the
first values of a class are put together field by field, its constructor is compiled when there are more than
a few of them, and all else is shared. Type checkers see the originals; so does who asks for
`__dataclass_fields__`: `dataclasses.replace`, or a class of others that inherits one of ours. Options that
nobody here uses are not there.
"""

from __future__ import annotations

from _collections import _tuplegetter  # type: ignore[import-not-found]  # what namedtuple takes
from operator import attrgetter

TYPE_CHECKING = False  # as in typing, whose import is most of the cost of a bare start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import replace as replace
    from typing import Any
    from typing import NamedTuple as NamedTuple


# constructors: The constructors of classes of values, written for their fields and compiled when they are
# needed.
#
# Python has no other way to one that is as fast as those that are written by hand. A frozen value could be
# given its fields by `object.__setattr__`, each at ten times the price of an assignment. So one of several
# fields is, while it is made, of a class beside its own, which lets them be assigned; when the constructor
# is done, and before `__post_init__`, it is of its own class, and frozen.


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


#: So many values of a class are made without its constructor. To compile it costs what fifty of them do, and
#: a command that retrieves one URL makes one to ten of each of some fifty classes.
FEW = 16


class ValueField:
    """One field of a dataclass: what `field` was told."""

    __slots__ = ("compare", "default", "factory", "init", "kw_only", "name", "repr", "type")

    def __init__(
        self, default: Any, factory: Any, init: bool, repr: bool, compare: bool, kw_only: bool | None
    ) -> None:
        self.name = ""
        self.type: Any = None
        self.default = default
        self.factory = factory
        self.init = init
        self.repr = repr
        self.compare = compare
        self.kw_only = kw_only


def _field(
    *,
    default: Any = ABSENT,
    default_factory: Any = ABSENT,
    init: bool = True,
    repr: bool = True,
    compare: bool = True,
    kw_only: bool | None = None,
) -> ValueField:
    return ValueField(default, default_factory, init, repr, compare, kw_only)


def _dataclass(
    cls: type | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,
    kw_only: bool = False,
) -> Any:
    def made(cls: type) -> Any:
        namespace = dict(vars(cls))
        own = _own_fields(namespace, kw_only)
        every: dict[str, ValueField] = {}
        inherited: set[str] = set()
        for base in cls.__mro__[-2:0:-1]:
            every.update(vars(base).get("__values__", {}))
            inherited.update(vars(base).get("__slots__", ()))
        every.update(own)
        for name in (*own, "__dict__", "__weakref__"):
            namespace.pop(name, None)
        namespace["__qualname__"] = cls.__qualname__
        if slots:
            namespace["__slots__"] = tuple(name for name in own if name not in inherited)
        namespace["__values__"] = every
        for name, method in _methods(namespace, every, frozen=frozen, eq=eq, repr=repr):
            namespace.setdefault(name, method)

        few = FEW

        def _first_init(self: Any, /, *arguments: Any, **named: Any) -> None:
            nonlocal few
            few -= 1
            if few >= 0 and _filled(self, owner, arguments, named):
                return
            if owner.__init__ is _first_init:  # another thread may have been here
                owner.__init__ = _constructor_of(owner)
            owner.__init__(self, *arguments, **named)

        namespace.setdefault("__init__", _first_init)
        owner: Any = type(cls)(cls.__name__, cls.__bases__, namespace)
        return owner

    return made if cls is None else made(cls)


def _own_fields(namespace: dict[str, Any], kw_only: bool) -> dict[str, ValueField]:
    found = {}
    for name, annotation in namespace.get("__annotations__", {}).items():
        said = namespace.get(name, ABSENT)
        each = said if isinstance(said, ValueField) else _field(default=said)
        each.name, each.type = name, annotation
        if each.kw_only is None:
            each.kw_only = kw_only
        found[name] = each
    return found


def _methods(
    namespace: dict[str, Any], every: dict[str, ValueField], *, frozen: bool, eq: bool, repr: bool
) -> Iterator[tuple[str, object]]:
    """What a class has unless it says otherwise."""
    yield "__match_args__", tuple(each.name for each in every.values() if each.init and not each.kw_only)
    yield "__replace__", _replace
    yield "__signature__", _SIGNATURE
    yield "__dataclass_fields__", _AS_FIELDS
    yield "__dataclass_params__", _AS_PARAMS
    if repr:
        yield "__repr__", _shown
    if eq:
        if namespace.get("__hash__") is None:  # Python says None for a class that has an __eq__
            namespace["__hash__"] = _hash if frozen else None
        yield "__eq__", _equal
        yield "__compared__", _getter([each.name for each in every.values() if each.compare])
    if frozen:
        yield "__setattr__", _refuse_to_set
        yield "__delattr__", _refuse_to_delete
        yield "__getstate__", _state
        yield "__setstate__", _restore


def _getter(names: list[str]) -> Callable[[Any], object]:
    return attrgetter(*names) if names else _nothing


class _Nothing:
    """Unlike a function it is no method of the class that it is an attribute of."""

    __slots__ = ()

    def __call__(self, value: object) -> object:
        return ()


_nothing = _Nothing()


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    key = self.__compared__
    return key(self) == key(other)


def _hash(self: Any) -> int:
    return hash(self.__compared__(self))


def _shown(self: Any) -> str:
    values = (f"{each.name}={getattr(self, each.name)!r}" for each in self.__values__.values() if each.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    _check_frozen(self, name, "assign to")
    object.__setattr__(self, name, value)


def _refuse_to_delete(self: Any, name: str) -> None:
    _check_frozen(self, name, "delete")
    object.__delattr__(self, name)


def _check_frozen(self: Any, name: str, doing: str) -> None:
    """A class that inherits a frozen one may have more than its fields."""
    if "__values__" in vars(type(self)) or name in self.__values__:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot {doing} field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in _fields(self)]


def _restore(self: Any, state: list[object]) -> None:
    for each, value in zip(_fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


def _fields(value: Any) -> tuple[Any, ...]:
    """Of a value or its class; also of a class that a scheme of others made with `dataclasses`."""
    cls: Any = value if isinstance(value, type) else type(value)
    if "__values__" in vars(cls):
        return tuple(cls.__values__.values())
    from dataclasses import fields

    return fields(cls)  # alike in what is asked for here


def _replace(value: Any, /, **changes: Any) -> Any:
    for each in _fields(value):
        if each.init and each.name not in changes:
            changes[each.name] = getattr(value, each.name)
    return value.__class__(**changes)


def _filled(self: Any, owner: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Give the value its fields; false if these are not arguments of the constructor, which then says so."""
    places, left = list(arguments[::-1]), dict(named)
    put = object.__setattr__ if owner.__setattr__ is _refuse_to_set else setattr
    for name, each in owner.__values__.items():
        if each.init and places and not each.kw_only:
            value = places.pop()
        elif each.init and name in left:
            value = left.pop(name)
        elif each.factory is not ABSENT:
            value = each.factory()
        elif each.default is not ABSENT:
            value = each.default
        elif each.init:
            return False
        else:
            continue
        put(self, name, value)
    if places or left:
        return False
    if hasattr(owner, "__post_init__"):
        self.__post_init__()
    return True


def _constructor_of(owner: Any) -> Callable[..., None]:
    return for_fields(owner, frozen=owner.__setattr__ is _refuse_to_set)


class _Signature:
    """What `inspect` and `help` say of a class whose constructor nobody used so far."""

    def __get__(self, value: object, owner: Any) -> object:
        own = vars(owner)
        if "__signature__" not in own:  # it inherits one of ours, and has its own constructor
            raise AttributeError("__signature__")
        if "_fields" in own:
            made = for_tuple(owner).__func__
        else:
            made = owner.__init__ if owner.__init__.__module__ != __name__ else _constructor_of(owner)
        from protocols import originals  # no start asks

        return originals.signature_of(made)


_SIGNATURE = _Signature()


class _Dataclass:
    """What `dataclasses` knows a dataclass by, made when it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, value: object, owner: Any) -> object:
        from protocols import originals  # no start asks

        home: Any = next(each for each in owner.__mro__ if "__values__" in vars(each))
        twin = originals.dataclass_of(home, frozen=home.__setattr__ is _refuse_to_set, absent=ABSENT)
        for name in ("__dataclass_fields__", "__dataclass_params__"):
            setattr(home, name, getattr(twin, name))
        return getattr(twin, self._name)


_AS_FIELDS, _AS_PARAMS = _Dataclass("__dataclass_fields__"), _Dataclass("__dataclass_params__")


class _TupleMaker(type):
    """Makes of a class that inherits `NamedTuple` a plain one that inherits `tuple`."""

    def __new__(meta, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        names = tuple(namespace.get("__annotations__", ()))
        namespace["_field_defaults"] = {each: namespace[each] for each in names if each in namespace}
        namespace["_fields"] = namespace["__match_args__"] = names
        namespace["__slots__"] = ()
        for index, each in enumerate(names):
            namespace[each] = _tuplegetter(index, None)
        for each, method in _TUPLE.items():
            namespace.setdefault(each, method)

        few = FEW

        def _first_new(cls: Any, /, *arguments: Any, **named: Any) -> Any:
            nonlocal few
            few -= 1
            if few >= 0 and (values := _bound(owner, arguments, named)):
                return tuple.__new__(cls, values)
            if owner.__new__ is _first_new:  # another thread may have been here
                owner.__new__ = for_tuple(owner)
            return owner.__new__(cls, *arguments, **named)

        namespace["__new__"] = _first_new
        owner: Any = type.__new__(type, name, (tuple,), namespace)
        return owner


def _bound(owner: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Sequence[Any]:
    """The value of each field; none if these are not arguments of the constructor, which then says so."""
    left = owner._fields[len(arguments) :]
    if len(arguments) + len(left) > len(owner._fields) or not named.keys() <= {*left}:
        return ()
    known = owner._field_defaults | named
    return (*arguments, *[known[name] for name in left]) if known.keys() >= {*left} else ()


def _make(cls: Any, values: Any) -> Any:
    made = tuple.__new__(cls, values)
    if len(made) != len(cls._fields):
        raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, and got {len(made)} values")
    return made


def _replaced(self: Any, /, **changes: Any) -> Any:
    made = self._make(map(changes.pop, self._fields, self))
    if changes:
        raise ValueError(f"no fields of {type(self).__name__}: {', '.join(changes)}")
    return made


def _as_dict(self: Any) -> dict[str, Any]:
    return dict(zip(self._fields, self, strict=True))


def _tuple_shown(self: Any) -> str:
    values = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"{type(self).__name__}({values})"


def _arguments(self: Any) -> tuple[Any, ...]:
    """What it is copied of."""
    return tuple(self)


_TUPLE: dict[str, object] = {
    "_make": classmethod(_make),
    "_replace": _replaced,
    "__replace__": _replaced,
    "_asdict": _as_dict,
    "__repr__": _tuple_shown,
    "__getnewargs__": _arguments,
    "__signature__": _SIGNATURE,
}

if not TYPE_CHECKING:
    dataclass, field, fields, replace = _dataclass, _field, _fields, _replace
    NamedTuple = type.__new__(_TupleMaker, "NamedTuple", (), {})
