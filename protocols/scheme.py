"""The definition of one scheme. The module is separate from `contract`, so that parsing imports less."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from protocols.location import Url, UrlText

#: The type `step.Dialogue`. A module in a layer below `step` cannot import the type.
Dialogue: TypeAlias = Generator[Any, object, object]


_NO_REFINEMENTS: Mapping[str, Callable[[Any, str], Url]] = MappingProxyType({})


class Extra(NamedTuple):
    """An optional dependency of a dialogue: the extra `name` installs the top-level `modules`."""

    name: str
    modules: tuple[str, ...]
    distribution: str


def _keep(url: Url) -> Url:
    return url


class Tree(NamedTuple):
    """The functions for the directory tree of a scheme's URLs.

    `names` returns the decoded path from the root of a server to the object. A trailing slash does not add an
    empty name to the path. `directory` returns the URL that requests the object of a URL as a directory. By
    default, it returns the URL itself, because in some schemes a directory has no URL of another form. If
    `stays` is set, a connection keeps its working directory, so other objects of the directory are retrieved
    faster.
    """

    names: Callable[[Any], tuple[bytes, ...]]
    directory: Callable[[Any], Url] = _keep
    stays: bool = False


class KeptListing(NamedTuple):
    """The archived data of a listing of several replies, from which it can be parsed again.

    `how` selects the archived data: the replies to `commands`, the last reply, the packets of the last reply,
    or the names of a local directory.
    """

    how: Literal["answers", "last", "packets", "names"]
    media_type: str
    commands: tuple[str, ...] = ()


class Scheme(NamedTuple):
    """The definition of one scheme: the properties of its protocol, without permissions (policy).

    The URL and the dialogue:
    - `names`: the kind of object that the URLs name, as a short phrase.
    - `parse` parses the text after the scheme's colon. `build` writes the components of a URL as text.
    - `converse`: the "module:name" of the function that returns the dialogue. The arguments are the URL, the
      `Options` and the `Limits`. The module is imported on first use (lazy import), because parsing does not
      need the module. None if this build has no dialogue.
    - `needs`: the extra that is required to resolve the scheme's URLs. Parsing does not need the extra.
    - `refine`: a function that adds the value of an option, such as `search` or `view`, to a URL.

    Properties of the protocol:
    - `tls`: never, on request (STARTTLS, a change from clear text to TLS), or always from the first byte.
    - `certificates`: the certificates that the client trusts. By default, a certificate authority must have
      signed the certificate. With `pin`, the first certificate of the server is stored and must not change
      (trust on first use).
    - `resumes`: whether the peer can send a range that starts in the middle of the object (resume). `stops`:
      whether the peer can also end the body before the end of the object (range request).
    - `userinfo`: whether a URL may contain a user name and a password before the host.
    - `server`: whether a URL may omit the host. The server then comes from a setting.
    - `negotiates`: whether the peer chooses a content coding, and with TLS also a protocol version (content
      negotiation, ALPN). Requests list the codings and versions that this installation supports.
    - `suggests`: whether the peer may suggest a file name.
    - `attachments`: the "module:name" of a `protocols.attachment.ReadPost`, if documents may contain files.
    - `relayed`: whether an http proxy receives the URLs of this scheme unchanged.
    - `counted`: the components that are sent with a length prefix. No byte in these components can end a
      command early.

    Names and trees:
    - `named_by`: the components that may end in the object's name. The first component that is present is
      used.
    - `within`: the component that contains the directories of the object, if this component does not contain
      the name.
    - `told_apart_by`: the components that make the difference between objects with the same name.
    - `listed`: whether a listing of the parent directory contains the object under the same name.
    - `beside`: a function that returns the URL of another file in the same directory. None if the URLs of the
      scheme do not form directories.
    - `tree`: the tree of directories.
    - `walked_as`: a function that returns the URL of the same object in a scheme that has directory trees.
    - `stands_for`: a function for URLs that are only links. It returns the text of the target URL. If the URL
      names an object, the result is `None`. A link that is not allowed raises `InvalidUrl`.

    Archives:
    - `kept_as`: the archived form of an object: the `exchange` as sent and received, the bytes of the `data`
      connection, or the `body`. For a telnet session, only the `words` are archived.
    - `listing_kept`: the archived form of a listing, if it differs from `kept_as`.
    - `archived_as`: the name of the protocol in archives.
    - `replayed`: the "module:name" of a `protocols.contract.ReplayPeer`, created from an `ArchivedObject`.
      The peer replays an archived object that consists of several replies.
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
    refine: Mapping[str, Callable[[Any, str], Url]] = _NO_REFINEMENTS
    needs: Extra | None = None
