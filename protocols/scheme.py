"""The definition of one scheme: part of the contract, but separate, so that parsing imports less."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from protocols.location import Url, UrlText

#: The type `step.Dialogue`; a module below `step` cannot import it.
Dialogue: TypeAlias = Generator[Any, object, object]


_NOTHING: Mapping[str, Callable[[Any, str], Url]] = MappingProxyType({})


class Extra(NamedTuple):
    """A dependency of a dialogue that its distribution does not install by default.

    `name` is the extra of the distribution that installs the top-level `modules`.
    """

    name: str
    modules: tuple[str, ...]
    distribution: str


class Tree(NamedTuple):
    """The tree of directories that the URLs of a scheme form.

    `names` returns the decoded path from the root of a server to the object, without the empty name (trailing
    slash) of a directory. `directory` returns the URL that requests the same object as a directory. If
    `stays` is set, a connection stays in one directory, so further objects in that directory are fast to
    retrieve.
    """

    names: Callable[[Any], tuple[bytes, ...]]
    directory: Callable[[Any], Url]
    stays: bool = False


class KeptListing(NamedTuple):
    """How a listing that consists of several answers is archived, so that it can be parsed again.

    `how` selects the part: the answers to some `commands`, the last answer, the packets of the last answer,
    or the names of a local directory.
    """

    how: Literal["answers", "last", "packets", "names"]
    media_type: str
    commands: tuple[str, ...] = ()


class Scheme(NamedTuple):
    """The definition of one scheme: the properties of its protocol, without permissions.

    The URL and the dialogue:
    - `names`: the objects that its URLs name, as a short phrase.
    - `parse`, `build`: parse the text after the scheme's colon; write the components of a URL as text.
    - `converse`: the dialogue, as "module:name" of a function of the URL, the `Options` and the `Limits`. The
      module is imported on use, because parsing does not need it. None if this build has no dialogue.
    - `needs`: the extra that is required to resolve the scheme's URLs; they are parsed without it.
    - `refine`: puts the value of an option into a URL of this scheme: `search`, `view`, ….

    Properties of the protocol:
    - `tls`: never, on request (a connection that began without TLS continues inside TLS) or always, from the
      first byte.
    - `certificates`: which servers TLS trusts. Either the certificate is signed by an authority, or the
      server's first certificate is stored and must not change (`pin`).
    - `resumes`: a body may begin in the middle of its object. `stops`: the peer can also end it before the
      object's end, on request.
    - `userinfo`: the grammar has a user and a password before the host.
    - `server`: a URL without a host uses a server that a setting names.
    - `negotiates`: the peer chooses among content codings, and inside TLS among protocol versions. Requests
      list those that this installation supports.
    - `suggests`: the peer may suggest a file name.
    - `attachments`: its documents may hold files ("module:name" of a `protocols.attachment.ReadPost`).
    - `relayed`: an http proxy receives its URLs unchanged.
    - `counted`: components whose ends are given by their lengths, so no byte in them could end a command.

    Names and trees:
    - `named_by`: the components that end in the object's name; the first present component counts.
    - `within`: the component with the directories that contain the object, if it is separate.
    - `told_apart_by`: the components that distinguish objects of the same name.
    - `listed`: a listing shows the object by the same name.
    - `beside`: returns the URL of other names, relative to the same directory; None if the URL has no
      siblings.
    - `tree`: the nesting of directories.
    - `walked_as`: returns the text of a URL that names the same object in a scheme with trees.
    - `stands_for`: returns the text of the URL to which a URL is only a link; None for a URL that names an
      object itself. It raises `InvalidUrl` for a link that is not allowed.

    Archives:
    - `kept_as`: the archived form of an object: the `exchange` as sent and received, the bytes of the `data`
      connection, or the `body`; of a session only its `words`.
    - `listing_kept`: the archived form of a listing, if it differs from `kept_as`.
    - `archived_as`: the name of the protocol in archives.
    - `replayed`: the peer that replays an archived object of several answers ("module:name" of a
      `protocols.contract.ReplayPeer`, created from an `ArchivedObject`).
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
    attachments: str | None = None
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
