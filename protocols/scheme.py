"""One row of what we can do. Part of the contract, apart from it for the same reason as `location`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from protocols.location import Url, UrlText

#: `step.Dialogue`, which knows the steps; a module below `step` cannot.
Dialogue: TypeAlias = Generator[Any, object, object]


_NOTHING: Mapping[str, Callable[[Any, str], Url]] = MappingProxyType({})


class Extra(NamedTuple):
    """What a dialogue needs beyond what its distribution always brings: top-level modules, and the extra of
    the distribution by which they are installed."""

    name: str
    modules: tuple[str, ...]
    distribution: str


class Tree(NamedTuple):
    """How the URLs of a scheme make trees. `names` lead from the top of a server to what a URL names,
    decoded; an empty one at the end, by which a directory is told, is none of them. `directory` is the URL by
    which the same thing is asked for as a directory. Where a connection `stays` in one directory, what is in
    that is quickly had."""

    names: Callable[[Any], tuple[bytes, ...]]
    directory: Callable[[Any], Url]
    stays: bool = False


class KeptListing(NamedTuple):
    """What an archive has of a listing that is made of answers, so that it can be read again: the answers to
    some `commands`, the last one, the packets of the last one, or the names of a directory here."""

    how: Literal["answers", "last", "packets", "names"]
    media_type: str
    commands: tuple[str, ...] = ()


class Scheme(NamedTuple):
    """One row of what we can do: what the protocol is, and no word of what is allowed.

    `names` says in a few words what its URLs name. `parse` takes apart what follows the scheme's colon;
    `build` writes a URL's components as text again. `converse` is where its dialogue stands, "module:name" of
    a function of the URL, the `Options` and the `Limits`, imported on use, for parsing needs none of it; None
    where this build has none.

    `tls`: never, on request (a connection that began without goes on inside it) or always, from the first
    octet. `certificates`: which of its servers TLS trusts, those that an authority vouches for, or each by
    the certificate that it showed first (`pin`), which is kept. `resumes`: a body may begin in the middle of
    its object; `stops`: it may also end there, as the peer is told. `userinfo`: the grammar has a user and a
    password before the host. `server`: a URL without a host asks a server that a setting names. `negotiates`:
    the peer chooses among content codings, and inside TLS among versions of the protocol, so it is told which
    this installation has. `suggests`: it may suggest a name for the file. `relayed`: a proxy of http is asked
    for its URLs as they are.

    `named_by` are the components that end in the name of the thing: the first that is there counts; `within`
    is that of the directories it is in, where they have one of their own, and `told_apart_by` are those by
    which things of one name differ. `listed`: by that name, too, a listing shows it. `beside` gives the URL
    of other names, from the same directory on, where there are directories, or None for what has nothing
    beside it; `tree` says how these are in one another, and `walked_as` gives the text of the URL, of a
    scheme with trees, that names the same thing. `stands_for` gives that of the URL that a URL is no more
    than a link to, None for one that names something itself; `InvalidUrl` for a link that is never offered.
    `counted` are components whose ends are told by their lengths: no octet in them could end a command.
    `kept_as` says what an archive has of an object: the `exchange` as it was on the
    wire, the octets of the `data` connection, or the `body`; of a session no more than its `words`.
    `listing_kept` is what it has of a listing, where that is none of these; `archived_as` is the word that
    archives have for the protocol, and `replayed` where the peer stands that answers for what is kept of more
    than one answer ("module:name" of a `protocols.contract.ReplayPeer`, made of a `Kept`).
    `refine` puts the value of an option into a URL of this scheme: `search`, `view`, …. `needs` is an extra
    without which the scheme's URLs are parsed and not resolved.
    """

    name: str
    names: str
    default_port: int | None
    parse: Callable[[UrlText], Url]
    build: Callable[[Any], str]
    converse: str | None = None
    tls: Literal["never", "on request", "always"] = "never"
    certificates: Literal["authority", "pin"] = "authority"
    transport: Literal["tcp", "udp"] | None = "tcp"
    resumes: bool = False
    stops: bool = False
    userinfo: bool = False
    server: bool = False
    negotiates: bool = False
    suggests: bool = False
    relayed: bool = False
    named_by: tuple[str, ...] = ()
    within: str | None = None
    told_apart_by: tuple[str, ...] = ()
    listed: bool = False
    beside: Callable[..., Url | None] | None = None
    tree: Tree | None = None
    walked_as: Callable[[Any], str | None] | None = None
    stands_for: Callable[[Any], str | None] | None = None
    counted: tuple[str, ...] = ()
    kept_as: Literal["exchange", "data", "body", "words"] = "body"
    listing_kept: KeptListing | None = None
    archived_as: str | None = None
    replayed: str | None = None
    refine: Mapping[str, Callable[[Any, str], Url]] = _NOTHING
    needs: Extra | None = None
