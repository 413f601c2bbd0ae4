"""Proof that a file is the right one: a digest that was given, or one that its own place publishes.

With `auto` these are asked in turn, and the first that answers counts: the digest headers of the reply
(RFC 9530, RFC 3230), then beside the object and on its own origin `NAME.sha256`, `NAME.sha512`, `NAME.md5`,
`SHA256SUMS`, `md5sums.txt`. A digest from the same place shows that nothing was damaged on the way, no more.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from protocols.contract import Finding, Referrer, Validators
from protocols.errors import ChecksumMismatch, NetworkError, ResolveError, TryLater
from resolver.clock import Clock
from resolver.gate import Door
from resolver.gate.sink import Sink
from resolver.hops import Request
from resolver.keep import Memory
from resolver.live import LiveReply
from resolver.naming import beside, last_part
from resolver.retrieval import Retrieval
from resolver.tries import Carrier, Patience

_LENGTHS = {"md5": 32, "sha1": 40, "sha224": 56, "sha256": 64, "sha384": 96, "sha512": 128}
_HEX = re.compile(r"[0-9a-fA-F]+\Z")
_HEADER_NAMES = {"sha-256": "sha256", "sha-512": "sha512", "sha-384": "sha384", "sha": "sha1", "md5": "md5"}
_HEADER_ITEM = re.compile(r"\s*([A-Za-z0-9-]+)=:?([A-Za-z0-9+/=]+?):?\s*(?:,|\Z)")
#: A line of md5sum and its kin: the digest, a blank, a blank or an asterisk, the name.
_SUM_LINE = re.compile(r"\\?([0-9a-fA-F]{32,128})(?:[ \t]+[ *]?(.+))?\Z")
#: A line of the BSD tools: `SHA256 (name) = digest`.
_BSD_LINE = re.compile(r"([A-Z0-9-]+) ?\((.+)\) ?= ?([0-9a-fA-F]{32,128})\Z")
_MOST_SIDECAR = 4_194_304  # the manifest of a large distribution has some megabytes
_PUBLISHING = frozenset({"ftp", "ftps", "file", "http", "https"})


@dataclass(frozen=True, slots=True)
class Checksum:
    """The digest a file must have, in hex; `algorithm` is `auto` for the one that its place publishes."""

    algorithm: str
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> Checksum:
        """`ALG:HEX` or `auto`. Raises `ValueError` that says what is wrong."""
        if text == "auto":
            return cls("auto")
        algorithm, colon, digest = text.partition(":")
        algorithm = algorithm.lower().replace("-", "")
        if not colon or algorithm not in _LENGTHS:
            raise ValueError(f"a checksum is auto or ALG:HEX with ALG of {', '.join(_LENGTHS)}, not {text!r}")
        if len(digest) != _LENGTHS[algorithm] or not _HEX.match(digest):
            raise ValueError(f"{algorithm} has {_LENGTHS[algorithm]} hex digits, not {digest!r}")
        return cls(algorithm, digest.lower())


class Proof:
    """Checks one file, once or, after a mismatch, again."""

    def __init__(self, door: Door, wanted: Checksum | None, clock: Clock, patience: Patience) -> None:
        self._door = door
        self._wanted = wanted
        self._clock = clock
        self._patience = patience
        self.findings: list[Finding] = []

    async def check(self, sink: Sink, reply: LiveReply) -> set[str]:
        """`{"digest"}` if it was compared and is right, nothing if there was none to compare.

        Raises `ChecksumMismatch`.
        """
        wanted = self._wanted
        if wanted is not None and wanted.algorithm == "auto":
            wanted = await self._published(reply)
        if wanted is None:
            return set()
        digest = await sink.digest(wanted.algorithm)
        if digest != wanted.digest:
            raise ChecksumMismatch(
                f"the {wanted.algorithm} digest is {digest}, not {wanted.digest}", url=reply.url
            )
        return {"digest"}

    async def _published(self, reply: LiveReply) -> Checksum | None:
        """What the object's own place says of it; a warning if it says nothing, or does not answer."""
        found = None if _is_coded(reply.meta) else next(header_checksums(reply.meta), None)
        why = "its place publishes no digest"
        if found is None and reply.request.url.scheme in _PUBLISHING:
            try:
                found = await self._beside(reply)
            except (NetworkError, TryLater) as error:
                if self._clock.is_over:
                    raise
                why = f"no digest could be had: {error.message}"
        if found is None:
            self.findings.append(
                Finding("save:no-checksum", "warn", f"{why}; there is nothing to check against")
            )
        return found

    async def _beside(self, reply: LiveReply) -> Checksum | None:
        name = last_part(reply.request.url)
        if not name:
            return None
        plain = name.decode("utf-8", "surrogateescape")
        for suffix, algorithm in ((".sha256", "sha256"), (".sha512", "sha512"), (".md5", "md5")):
            text = await self._sibling(reply, name + suffix.encode())
            if text is not None and (found := find_digest(text, plain, algorithm)) is not None:
                return found
        for manifest, algorithm in ((b"SHA256SUMS", "sha256"), (b"md5sums.txt", "md5")):
            text = await self._sibling(reply, manifest)
            if text is not None and (found := find_digest(text, plain, algorithm, listed=True)) is not None:
                return found
        return None

    async def _sibling(self, reply: LiveReply, name: bytes) -> str | None:
        """A small text beside the object; None where there is none. Raises `NetworkError` and `TryLater`."""
        request = Request(
            beside(reply.request.url, name),
            origin="derived",
            referrer=Referrer(reply.url, reply.peer),
            options=replace(reply.request.options, want="content", start=0, known=Validators()),
        )
        memory = Memory()
        carrier = Carrier(
            self._open,
            (request,),
            memory,
            lambda found: memory.fill(found.body),
            self._patience,
            self._door.on_event,
        )
        try:
            found = await carrier.carry(self._clock)
        except (NetworkError, TryLater):
            raise
        except ResolveError:
            return None
        return memory.content().decode("utf-8", "replace") if found.chain == () else None

    def _open(self, request: Request, clock: Clock, attempt: int) -> Retrieval:
        return Retrieval(self._door, request, most=_MOST_SIDECAR, clock=clock, attempt=attempt)


def _is_coded(meta: tuple[tuple[str, str], ...]) -> bool:
    """Are the digests of the headers those of other octets than the file's? (RFC 9530 3)"""
    return any(name.lower() == "content-encoding" and value.lower() != "identity" for name, value in meta)


def header_checksums(meta: tuple[tuple[str, str], ...]) -> Iterator[Checksum]:
    """The digests of a reply's headers that we can compute, the strongest first."""
    found: dict[str, Checksum] = {}
    for name, value in meta:
        if name.lower() not in ("repr-digest", "digest"):
            continue
        for item in _HEADER_ITEM.finditer(value):
            algorithm = _HEADER_NAMES.get(item[1].lower())
            digest = _from_base64(item[2])
            if algorithm is not None and len(digest) == _LENGTHS[algorithm]:
                found[algorithm] = Checksum(algorithm, digest)
    yield from (found[name] for name in ("sha512", "sha256", "sha384", "sha1", "md5") if name in found)


def _from_base64(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).hex()
    except binascii.Error:
        return ""


def find_digest(text: str, name: str, algorithm: str, *, listed: bool = False) -> Checksum | None:
    """The digest of `name` in a sidecar or manifest. A sidecar may hold nothing but the digest; in a
    manifest (`listed`) only a line with the name counts."""
    for line in text.splitlines():
        digest, named = _read_line(line.strip())
        right_name = named is not None and named.rpartition("/")[2] == name
        if len(digest) == _LENGTHS[algorithm] and (right_name or (named is None and not listed)):
            return Checksum(algorithm, digest.lower())
    return None


def _read_line(line: str) -> tuple[str, str | None]:
    if (bsd := _BSD_LINE.match(line)) is not None:
        return bsd[3], bsd[2]
    plain = _SUM_LINE.match(line)
    return ("", None) if plain is None else (plain[1], plain[2])
