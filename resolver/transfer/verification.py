"""Verification of a file by its size and checksum, from the caller or from the server.

With `auto`, the checksum comes from the first source on the server that has a checksum:
- The digest header fields of the response (RFC 9530, RFC 3230).
- Files in the directory of the object: `NAME.sha256`, `NAME.sha512`, `NAME.md5`, `SHA256SUMS`, `md5sums.txt`.

A checksum from the same server detects transfer errors, but not a compromised server. For gopher, `auto`
works only with binary items, because servers change the line ends of text, and sizes in +VIEWS are rounded.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from protocols.contract import Finding, Referrer, Validators
from protocols.errors import ChecksumMismatch, NetworkError, ResolveError, TryLater
from protocols.text import Masked
from resolver.files.partial_file import PartialFile
from resolver.network.clock import Clock
from resolver.transfer.naming import last_part, make_sibling_url
from resolver.transfer.network import Network
from resolver.transfer.redirects import RetrievalRequest
from resolver.transfer.retry import Retrier
from resolver.transfer.settings import RetryPolicy
from resolver.transfer.streaming import MemoryStore, StreamingResponse

_LENGTHS = {"md5": 32, "sha1": 40, "sha224": 56, "sha256": 64, "sha384": 96, "sha512": 128}
_HEX = re.compile(r"[0-9a-fA-F]+\Z")
_HEADER_NAMES = {"sha-256": "sha256", "sha-512": "sha512", "sha-384": "sha384", "sha": "sha1", "md5": "md5"}
_HEADER_ITEM = re.compile(r"\s*([A-Za-z0-9-]+)=:?([A-Za-z0-9+/=]+?):?\s*")
#: A line in the format of md5sum: the digest, a space, a space or an asterisk, and the file name.
_SUM_LINE = re.compile(r"\\?([0-9a-fA-F]{32,128})(?:[ \t]+[ *]?(.+))?\Z")
#: A line in the format of the BSD tools: `SHA256 (name) = digest`. OpenSSL 3 writes `SHA2-256(name)= digest`.
_BSD_LINE = re.compile(r"([A-Za-z0-9/-]+) ?\((.+)\) ?= ?([0-9a-fA-F]{32,128})\Z")


class Checksum(NamedTuple):
    """The expected digest of a file: an algorithm and a hexadecimal value.

    `auto` means the digest that the server publishes.
    """

    algorithm: str
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> Checksum:
        """Parse `ALG:HEX` or `auto`. Raises `ValueError` if the text is invalid."""
        if text == "auto":
            return cls("auto")
        algorithm, colon, digest = text.partition(":")
        algorithm = algorithm.lower().replace("-", "")
        if not colon or algorithm not in _LENGTHS:
            raise ValueError(
                f"a checksum must be auto or ALG:HEX with ALG of {', '.join(_LENGTHS)}, got {text!r}"
            )
        if len(digest) != _LENGTHS[algorithm] or not _HEX.match(digest):
            raise ValueError(f"{algorithm} must have {_LENGTHS[algorithm]} hex digits, got {digest!r}")
        return cls(algorithm, digest.lower())

    @property
    def text(self) -> str:
        """Return the text that `parse` reads."""
        return f"{self.algorithm}:{self.digest}" if self.digest else self.algorithm


def header_checksums(meta: tuple[tuple[str, str], ...]) -> Iterator[Checksum]:
    """Yield the digests from the header fields of a response, with the strongest algorithm first.

    Unsupported algorithms are skipped.
    """
    table: dict[str, Checksum] = {}
    for name, value in meta:
        if name.lower() not in ("repr-digest", "digest"):
            continue
        # A search in the complete value would take quadratic time.
        for item in filter(None, map(_HEADER_ITEM.fullmatch, value.split(","))):
            algorithm = _HEADER_NAMES.get(item[1].lower())
            digest = _from_base64(item[2])
            if algorithm is not None and len(digest) == _LENGTHS[algorithm]:
                table[algorithm] = Checksum(algorithm, digest)
    yield from (table[name] for name in ("sha512", "sha256", "sha384", "sha1", "md5") if name in table)


def _from_base64(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).hex()
    except binascii.Error:
        return ""


def find_digest(text: str, name: str, algorithm: str, *, listed: bool = False) -> Checksum | None:
    """Return the digest of the file `name` in a checksum file, or None.

    If the checksum file is for several files (`listed`), each line must contain the file name. A checksum
    file for a single file may contain only the digest.
    """
    # Only LF ends a line. `splitlines` also splits at U+2028 and others, so the name of a file could contain
    # a line with the digest of another file.
    length = _LENGTHS[algorithm]
    for line in text.split("\n"):
        if len(line) < length:  # 4 MiB of empty lines would take 1 s
            continue
        digest, named = _read_line(line.strip(" \t\r"), algorithm)
        right_name = named is not None and named.rpartition("/")[2] == name
        if len(digest) == length and (right_name or (named is None and not listed)):
            return Checksum(algorithm, digest.lower())
    return None


def _read_line(line: str, algorithm: str) -> tuple[str, str | None]:
    if (bsd := _BSD_LINE.match(line)) is not None:
        # BLAKE2b has as many digits as SHA512, and SHA3-256 as many as SHA256.
        is_right = re.sub("sha2?-", "sha", bsd[1].lower()) == algorithm
        return bsd[3] if is_right else "", bsd[2]
    plain = _SUM_LINE.match(line)
    return ("", None) if plain is None else (plain[1], plain[2])


_MAX_CHECKSUM_FILE = 4_194_304  # bytes: checksum files of large distributions have several megabytes


class ExpectedDigest:
    """The verification of one file, which can be repeated after a mismatch.

    `verified` is the verified digest, or None.
    """

    def __init__(
        self,
        network: Network,
        expected: Checksum | None,
        size: int | None,
        clock: Clock,
        retry_policy: RetryPolicy,
    ) -> None:
        self._network = network
        self._expected = expected
        self._size = size
        self._clock = clock
        self._retry_policy = retry_policy
        self.findings: list[Finding] = []
        self.verified: Checksum | None = None

    async def check(self, sink: PartialFile, reply: StreamingResponse) -> set[str]:
        """Verify the size and the digest, and return the successful checks from `{"length", "digest"}`.

        Raises `ChecksumMismatch`.
        """
        proved = set[str]()
        if self._size is not None:
            check_size(sink.position, self._size, reply.url)
            proved.add("length")
        expected = self._expected
        if expected is not None and expected.algorithm == "auto":
            expected = await self._fetch_published(reply)
        if expected is None:
            return proved
        digest = await sink.digest(expected.algorithm)
        if digest != expected.digest:
            words = f"the {expected.algorithm} digest is {digest}, not {expected.digest}"
            error = ChecksumMismatch(words, url=reply.url)
            if any(finding.rule.endswith(":coded") for finding in reply.findings):
                # mini_httpd and thttpd send each `.gz` file with the content coding gzip
                error = error.saying("after the body was decoded").with_setting("raw")
            raise error
        self.verified = expected
        return {*proved, "digest"}

    async def _fetch_published(self, reply: StreamingResponse) -> Checksum | None:
        """Return the digest that the server of the object publishes.

        If the server does not publish a digest or does not respond, a warning is reported and None is
        returned.
        """
        checksum = None if _is_coded(reply.meta) else next(header_checksums(reply.meta), None)
        reason = "the server publishes no digest"
        if checksum is None:
            try:
                checksum = await self._fetch_from_siblings(reply)
            except (NetworkError, TryLater) as error:
                if self._clock.is_over:
                    raise
                reason = f"cannot fetch a digest: {error.message}"
        if checksum is None:
            self.findings.append(Finding("save:no-checksum", "warn", f"{reason}; the file is not verified"))
        return checksum

    async def _fetch_from_siblings(self, reply: StreamingResponse) -> Checksum | None:
        name = last_part(reply.request.url)
        if not name:
            return None
        plain = name.rpartition(b"/")[2].decode("utf-8", "surrogateescape")  # a gopher selector has slashes
        for suffix, algorithm in ((".sha256", "sha256"), (".sha512", "sha512"), (".md5", "md5")):
            text = await self._fetch_sibling(reply, name + suffix.encode())
            if text is not None and (match := find_digest(text, plain, algorithm)) is not None:
                return match
        for manifest, algorithm in ((b"SHA256SUMS", "sha256"), (b"md5sums.txt", "md5")):
            text = await self._fetch_sibling(reply, manifest)
            if text is not None and (match := find_digest(text, plain, algorithm, listed=True)) is not None:
                return match
        return None

    async def _fetch_sibling(self, reply: StreamingResponse, name: bytes) -> str | None:
        """Fetch a small text file from the directory of the object; None if the file does not exist.

        Raises `NetworkError` and `TryLater`.
        """
        url = make_sibling_url(reply.request.url, name)
        if url is None:
            return None
        request = RetrievalRequest(
            url,
            origin="derived",
            referrer=Referrer(reply.url, reply.source),
            options=replace(reply.request.options, want="content", start=0, known=Validators()),
            transfer=self._network.next_transfer(),
            limit=lambda _: _MAX_CHECKSUM_FILE,
        )
        memory = MemoryStore()
        retrier = Retrier(
            self._network,
            (request,),
            memory,
            lambda response: memory.fill(response.body),
            # the server has already responded, so `tries_before_data` does not apply
            replace(self._retry_policy, tries_before_data=None),
        )
        try:
            response = await retrier.retry(self._clock)
        except (NetworkError, TryLater):
            raise
        except ResolveError:
            return None
        return memory.content().decode("utf-8", "replace") if response.chain == () else None


def check_size(size: int, expected: int | None, url: Masked) -> None:
    """Raise `ChecksumMismatch` if the size differs from the expected size."""
    if expected is not None and size != expected:
        raise ChecksumMismatch(f"got {size} bytes, expected {expected}", url=url)


def _is_coded(meta: tuple[tuple[str, str], ...]) -> bool:
    """Return whether the digests in the header fields belong to the compressed content (RFC 9530 section 3).

    Digests of the compressed content do not apply to the bytes of the file.
    """
    return any(name.lower() == "content-encoding" and value.lower() != "identity" for name, value in meta)
