"""One row of what we can do. Part of the contract, apart from it for the same reason as `location`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from protocols.location import Url, UrlText

if TYPE_CHECKING:
    from protocols.contract import Gate, Options, Reply

Dialogue: TypeAlias = Generator[object, object, object]


_NOTHING: Mapping[str, Callable[[Any, str], Url]] = MappingProxyType({})


class Scheme(NamedTuple):
    """One row of what we can do: facts first, behaviour last.

    `names` says in a few words what its URLs name. `parse` takes apart what follows the scheme's
    colon; `build` writes a URL's components as text again. `resumes` says that a body may begin in the
    middle of its object. `open` resolves; None where this build has no handler. `dialogue` gives, without
    I/O, the steps of a retrieval with such options: `explain` drives it with the answers of a willing
    server. `refine` puts the value of an option into a URL of this scheme: `search`, `view`, ….

    A scheme's `open` and `dialogue` import their modules when called: parsing needs neither.
    """

    name: str
    names: str
    default_port: int | None
    parse: Callable[[UrlText], Url]
    build: Callable[[Any], str]
    tls: bool = False
    transport: Literal["tcp", "udp"] | None = "tcp"
    resumes: bool = False
    open: Callable[[Any, Gate], AbstractAsyncContextManager[Reply]] | None = None
    dialogue: Callable[[Any, Options], Dialogue] | None = None
    refine: Mapping[str, Callable[[Any, str], Url]] = _NOTHING
