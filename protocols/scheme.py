"""The definition of one scheme: part of the contract, separate for the same reason as `location`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from protocols.location import Url, UrlText

#: `step.Dialogue`, which knows the steps; a module below `step` cannot.
Dialogue: TypeAlias = Generator[Any, object, object]


_NOTHING: Mapping[str, Callable[[Any, str], Url]] = MappingProxyType({})


class Extra(NamedTuple):
    """A dependency of a dialogue beyond those of its distribution.

    `name` is the extra of the distribution that installs the top-level `modules`.
    """

    name: str
    modules: tuple[str, ...]
    distribution: str


class Tree(NamedTuple):
    """The tree of directories that the URLs of a scheme form.

    `names` returns the decoded path from the top of a server to the object, without the empty name that marks
    a directory at the end. `directory` returns the URL that requests the same object as a directory. With
    `stays` a connection stays in one directory, so objects in that directory are fast to retrieve.
    """

    names: Callable[[Any], tuple[bytes, ...]]
    directory: Callable[[Any], Url]
    stays: bool = False


class KeptListing(NamedTuple):
    """The archived form of a listing that consists of answers, so that it can be read again.

    `how` selects the answers to some `commands`, the last answer, the packets of the last answer, or the
    names of a local directory.
    """

    how: Literal["answers", "last", "packets", "names"]
    media_type: str
    commands: tuple[str, ...] = ()


class Scheme(NamedTuple):
    """The definition of one scheme: the properties of its protocol, without permissions.

    The URL and the dialogue:
    - `names`: the objects that its URLs name, as a short phrase.
    - `parse`, `build`: parse the text after the scheme's colon; write the components of a URL as text.
    - `converse`: the dialogue, as "module:name" of a function of the URL, the `Options` and the `Limits`. It
      is imported on use, because parsing does not need it. None if this build has none.
    - `needs`: an extra without which the scheme's URLs are parsed and not resolved.
    - `refine`: puts the value of an option into a URL of this scheme: `search`, `view`, ….

    Properties of the protocol:
    - `tls`: never, on request (a connection that began without it continues inside TLS) or always, from the
      first byte.
    - `certificates`: the servers that TLS trusts: those with a certificate of an authority, or each by the
      certificate that it showed first (`pin`), which is stored.
    - `resumes`: a body may begin in the middle of its object. `stops`: the peer can be asked to end it early
      too.
    - `userinfo`: the grammar has a user and a password before the host.
    - `server`: a URL without a host uses a server that a setting names.
    - `negotiates`: the peer chooses among content codings, and inside TLS among protocol versions, so
      requests list those that this installation has.
    - `suggests`: the peer may suggest a file name.
    - `relayed`: an http proxy is asked for its URLs unchanged.
    - `counted`: components whose ends are given by their lengths, so no byte in them could end a command.

    Names and trees:
    - `named_by`: the components that end in the object's name; the first present one counts.
    - `within`: the component of the directories that contain it, if they have a separate one.
    - `told_apart_by`: the components that distinguish objects of the same name.
    - `listed`: a listing shows the object by that name too.
    - `beside`: returns the URL of other names, relative to the same directory; None if the URL has no
      siblings.
    - `tree`: the nesting of directories.
    - `walked_as`: returns the text of the URL, of a scheme with trees, that names the same object.
    - `stands_for`: returns the text of the URL for which a URL is only a link, None for a URL that names an
      object itself; raises `InvalidUrl` for a link that is never offered.

    Archives:
    - `kept_as`: the archived form of an object: the `exchange` as it was on the wire, the bytes of the `data`
      connection, or the `body`; of a session only its `words`.
    - `listing_kept`: the archived form of a listing, if it differs from these.
    - `archived_as`: the name of the protocol in archives.
    - `replayed`: the peer that replays archived objects of several answers ("module:name" of a
      `protocols.contract.ReplayPeer`, made of an `ArchivedObject`).
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
