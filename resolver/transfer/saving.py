"""Atomic saving of a complete, verified object to a file, and the metadata sidecar of the file.

A file is saved in these steps:
- The option `exists` decides about an existing file of the same name.
- `resolver.transfer.retry` retrieves the object into NAME.part.
- `verification` checks NAME.part.
- The sink renames NAME.part to the final name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NoReturn, TypeAlias, get_args

from protocols.contract import Finding, Kind, Url
from protocols.contract import Sink as AnySink
from protocols.errors import Changed, ChecksumMismatch, ResolveError
from protocols.location import JsonValue, mask_cookie
from protocols.options import NOTHING, Validators
from protocols.text import instant
from resolver.files.commit import GroupCommit
from resolver.files.names import (
    NameTaken,
    check_free,
    check_name,
    check_parents,
    free_name,
    is_directory,
    is_skipped,
    make_irregular_error,
    read_size,
    read_validators,
)
from resolver.files.partial_file import PartialFile, digest_file, finish_killed_run
from resolver.files.sidecar import FORMAT, read_sidecar
from resolver.ledger import current as current_row
from resolver.ledger import etag_of_row
from resolver.network.connecting import first_of
from resolver.network.events import Kept
from resolver.network.task import current
from resolver.transfer.limits import LimitedBody
from resolver.transfer.network import Network
from resolver.transfer.redirects import NoDocument, RetrievalRequest
from resolver.transfer.response import Saved
from resolver.transfer.retrieval import Retrieval
from resolver.transfer.retry import Fill, Retrier, refuse_pointer
from resolver.transfer.segments import HostConnectionCounter
from resolver.transfer.settings import Provenance, RetryPolicy
from resolver.transfer.streaming import (
    MemoryStore,
    Store,
    StreamingResponse,
    octets_to_keep,
    skip,
)
from resolver.transfer.verification import Checksum, ExpectedDigest, check_size
from resolver.url import registry
from resolver.url.parsing import UrlLike
from resolver.version import VERSION

# The sidecar is a JSON file with the metadata of a saved object. Years later, the URL may name another
# object, so the sidecar documents the object at the time of the retrieval (S21). URLs and cookies in the
# sidecar are redacted.


def meta_octets(saved: Saved, addresses: Sequence[str | None], proved: Checksum | None) -> bytes:
    """Return the content of the sidecar file.

    `proved` is a digest that was verified in addition to SHA-256, or None.
    """
    return (json.dumps(_record(saved, addresses, proved), indent=2) + "\n").encode("ascii")


def read_etag(octets: bytes | None, url: str, existing: Validators) -> str | None:
    """Return the entity tag (ETag) of an existing file from the file's sidecar.

    Returns None if the sidecar belongs to another URL, or if the file has changed since it was saved.
    """
    try:
        record = json.loads(octets or b"")
    except (ValueError, RecursionError):
        return None
    match record:
        case {
            "url": str(saved),
            "bytes": int(size),
            "modified": str() | None as modified,
            "validators": {"etag": str(etag)},
        } if (saved, size) == (url, existing.size):
            is_same = modified is None or modified == instant(existing.modified)
            return etag if is_same and etag.isascii() and etag.isprintable() else None
    return None


def _record(saved: Saved, addresses: Sequence[str | None], proved: Checksum | None) -> dict[str, JsonValue]:
    """Return the JSON object of the sidecar.

    `addresses` are the IP addresses of the servers in the last attempt, first of the URLs in `chain`, then of
    `final_url`. If a proxy was used, `addresses` are the IP addresses of the proxy. In the JSON, `size` is
    the size that the server announced, and `bytes` is the size of the file.
    """
    algorithm, _, digest = (saved.digest or "").partition(":")
    digests: dict[str, JsonValue] = {algorithm: digest}
    if proved is not None:
        digests[proved.algorithm] = proved.digest
    return {
        "format": FORMAT,
        "version": VERSION,
        "url": saved.requested_url,
        "final_url": saved.url,
        "chain": saved.chain,
        "addresses": [*addresses],
        "proxy": saved.proxy,
        "mirror": saved.mirror,
        "retrieved": instant(saved.retrieved),
        "bytes": saved.bytes,
        "digests": digests,
        "verified": list(saved.verified),
        "attempts": saved.attempts,
        "resumed_from": saved.resumed_from,
        "kind": saved.kind.value,
        "media_type": saved.media_type,
        "charset": saved.charset,
        "modified": instant(saved.modified),
        "validators": {"size": saved.size, "modified": instant(saved.modified), "etag": saved.etag},
        "title": saved.title,
        "headers": [[name, mask_cookie(name, value)] for name, value in saved.meta],
        "extra": None if saved.extra is None else dict(saved.extra),
        "findings": [finding.as_json() for finding in saved.findings],
    }


#: The maximum size in bytes of a file that is buffered in memory until it is complete. If the process is
#: killed, only the buffered bytes are lost. With `exists="rename"`, the file is created immediately, so that
#: no other process can use the free name.
MAX_BUFFERED_FILE = 65_536

#: Minimum size in bytes of a body that is flushed to the disk during the transfer. For a smaller body, a
#: single flush at the end is as fast.
WRITE_BACK_FROM = 33_554_432

#: The values of `exists` for which an existing file is checked before its directory is opened.
_EARLY_CHECKS = ("skip", "newer", "rename")

#: The action if a file with the final name already exists.
Exists: TypeAlias = Literal["fail", "resume", "skip", "newer", "replace", "rename"]
_EXISTS = get_args(Exists)


class SaveSettings(Provenance, total=False):
    """The keywords of `save`. `Saver` defines the defaults."""

    exists: Exists
    """The action if a file with the same name already exists.

    - `fail` (the default): raise an error before a request is sent.
    - `resume`: append the missing bytes to the existing file.
    - `skip`: do not change the existing file.
    - `newer`: replace the existing file only if the object has a later modification time, or has the same
      modification time and another size.
    - `replace`: replace the existing file.
    - `rename`: save the object with a numbered name that is free.
    """

    make_directory: bool
    """Whether to create the directory of the file."""

    digest: bool
    """Whether to compute the SHA-256 digest of the file."""

    checksum: str | Checksum | None
    """The expected digest: `ALG:HEX`, or `auto` for the digest that the server publishes.

    After a mismatch, the object is fetched once more. After a second mismatch, the received bytes are
    deleted, and `ChecksumMismatch` is raised.
    """

    size: int | None
    """The expected size in bytes, if known; an object of another size is an error."""

    mirrors: Sequence[UrlLike]
    """Mirrors of the object, used if the URL fails. They have priority over the mirrors of the host."""

    listings: bool
    """Whether to save a listing as a text file (the default); if false, a listing is refused (S14)."""

    listed: Validators | None
    """The exact size and modification time from a listing.

    With `newer`, no request is sent if the existing file matches this size and time.
    """

    meta: bool
    """Whether to write URLs, time, digests and headers to a sidecar file, `path` + `.meta.json`."""

    dry_run: bool
    """Whether to only predict the result, without writing a file or requesting a body.

    The result has the size 0, or is `skipped`.
    """


class Saver:
    """An operation that saves one object, with the settings of the caller.

    - `requests` has a request for each location: first for the requested URL, then for its mirrors.
    - `below` is a parent directory of the path. The path components after `below` must not be symbolic links
      (symlink attack).
    """

    settings = SaveSettings.__optional_keys__

    def __init__(
        self,
        network: Network,
        requests: Sequence[RetrievalRequest],
        path: str,
        settings: SaveSettings,
        *,
        retry_policy: RetryPolicy,
        segments: int,
        counter: HostConnectionCounter,
        commits: GroupCommit,
        below: str | None,
    ) -> None:
        self._network = network
        self._requests = requests
        self._first = requests[0]
        self._shown = self._first.url.shown
        self._clock = network.start_clock(self._first.url)
        self._path = path
        self._exists: Exists = settings.get("exists", "fail")
        self.check_exists(self._exists)
        self._makes_directory = settings.get("make_directory", False)
        self._is_dry = settings.get("dry_run", False)
        self._digest = settings.get("digest", False)
        self._has_meta = settings.get("meta", False)
        checksum = settings.get("checksum")
        if checksum is not None and not isinstance(checksum, Checksum):
            if not isinstance(checksum, str):
                raise TypeError(f"'checksum' must be a string or a Checksum, got {type(checksum).__name__}")
            checksum = Checksum.parse(checksum)
        self._checksum = checksum
        self._size = settings.get("size")
        self._takes_listings = settings.get("listings", True)
        self._listed = settings.get("listed") or NOTHING
        self._retry_policy = retry_policy
        self._segments = segments
        self._counter = counter
        self._commits = commits
        self._below = below
        self._findings: list[Finding] = []
        self._attempts = 0
        self._resumed_from = 0
        self._served = self._first.url
        self._mismatched: list[Url] = []
        self._existing: Validators | None = None

    @staticmethod
    def check_exists(exists: Exists) -> None:
        """Raise `ValueError` if the value is unknown."""
        if exists not in _EXISTS:
            raise ValueError(f"exists must be one of {', '.join(_EXISTS)}, got {exists!r}")

    async def run(self) -> Saved:
        """Save the object, and return the result.

        Raises `ResolveError`. After an error, a file with the final name is unchanged. The received bytes
        stay in NAME.part if another run can resume them.
        """
        # for other values of `exists`, the code that opens the path checks the name and looks for symlinks
        exists = self._exists
        if self._is_dry or exists in _EARLY_CHECKS:
            check_name(self._path)
            if self._below is not None:
                check_parents(self._path, self._below)
        if exists in _EARLY_CHECKS and self._keeps_existing():
            if not self._is_dry:
                finish_killed_run(self._path, self._shown, self._below)
            return self._make_skipped()
        if self._is_dry:
            return await self._predict()
        file = PartialFile(
            self._path,
            exists="replace" if exists in ("replace", "newer") else "fail",
            source=self._shown,
            adopt=exists == "resume",
            make_directory=self._makes_directory,
            below=self._below,
            meta=self._has_meta,
            max_buffered=0 if exists == "rename" else MAX_BUFFERED_FILE,
            commits=self._commits,
        )
        try:
            async with file as sink:
                return self._make_skipped() if sink.finished else await self._fetch(sink)
        except NameTaken:
            if exists != "skip":
                raise
            return self._make_skipped()  # another process created the file in the meantime
        finally:
            if file.partial_size:
                row = registry.find(self._first.url.scheme)
                resumes = row is not None and row.resumes
                self._network.on_event(Kept(self._shown, self._path, file.partial_size, resumes))

    async def verify_skipped(self, saved: Saved) -> Saved:
        """Compare the kept file of a skipped result with the checksum. Raises `ChecksumMismatch`."""
        checksum = self._checksum if self._is_proved else None
        if checksum is None or self._is_dry or read_validators(self._path) is None:
            return saved
        algorithm, expected = checksum
        if (digest := await digest_file(self._path, algorithm)) != expected:
            words = f"{self._path!r} stays unchanged, but its {algorithm} digest is {digest}, not {expected}"
            raise ChecksumMismatch(words, url=self._shown).with_setting("exists replace")
        return replace(saved, verified=("digest",))

    def _keeps_existing(self) -> bool:
        """Return whether the existing file is not changed. With `rename`, choose a free name."""
        match self._exists:
            case "skip":
                return is_skipped(self._path)
            case "newer" if (existing := read_validators(self._path)) is not None:
                etag = read_etag(read_sidecar(self._path), self._shown, existing)
                self._existing = existing._replace(etag=etag or etag_of_row(self._path, existing))
                return self._is_current_in_listing(existing)
            case "rename":
                self._path = free_name(self._path, self._shown)
        return False

    def _is_current_in_listing(self, existing: Validators) -> bool:
        """Return whether the listing shows that the existing file is up to date.

        The listing must have both size and modification time, because several versions of an object may have
        the same modification time.
        """
        listed = self._listed
        return None not in (listed.size, listed.modified) and existing.covers(listed)

    def _covers(self, reply: StreamingResponse) -> bool:
        """Return whether the response shows that the existing file is up to date."""
        existing = self._existing
        if existing is None or reply.start or reply.unchanged:
            return reply.unchanged
        return existing.covers(reply.validators._replace(modified=reply.modified))

    async def _predict(self) -> Saved:
        """Predict the result of a run without the body (dry run).

        Raises errors that can be detected locally. The metadata is requested only if the result depends on
        the modification time of the object.
        """
        if is_directory(self._path):
            raise make_irregular_error(self._path)
        if self._existing is not None:
            facts = self._first._replace(options=replace(self._first.options, want="facts"))
            reply = await self._retrier([facts], MemoryStore(), skip).retry(self._clock)
            if self._covers(reply):
                return self._make_skipped()
        elif self._exists == "fail":
            check_free(self._path)
        return replace(self._make_skipped(), skipped=False, bytes=0)

    async def _fetch(self, sink: PartialFile) -> Saved:
        if sink.dropped is not None:
            self._report("save:restarted", f"{sink.dropped}: started over")
        if self._network.recorder is not None and (sink.position or sink.has_gaps):
            self._report("save:restarted", "an archive records only complete objects: started over")
            sink.restart()
        proof = ExpectedDigest(self._network, self._checksum, self._size, self._clock, self._retry_policy)
        reply, proved = await self._fetch_verified(sink, proof)
        if proved is None:
            sink.discard()
            return self._make_skipped()
        digest = await sink.digest("sha256") if self._digest or self._has_meta else None
        finished = reply.finished(*self._findings, *proof.findings, proved=proved)
        finished |= {
            # the URL in the call, even if a mirror sent the object
            "requested_url": self._shown,
            "path": self._path,
            "bytes": sink.position,
            "resumed_from": self._resumed_from,
            "digest": None if digest is None else f"sha256:{digest}",
            "attempts": self._attempts,
            "mirror": None if self._served is self._first.url else self._served.shown,
        }
        row = current_row.get()
        recorder = None if row is None else partial(row.record_whole, finished, sink.known)
        meta = meta_octets(Saved(**finished), reply.addresses, proof.verified) if self._has_meta else None
        if (task := current()) is not None:
            task.release_host()
        await sink.commit(reply.modified, meta, recorder)
        finished["elapsed"] = self._clock.elapsed
        return Saved.of(finished)

    async def _fetch_verified(
        self, sink: PartialFile, proof: ExpectedDigest
    ) -> tuple[StreamingResponse, set[str] | None]:
        """Retrieve the complete object, and verify its digest.

        The second value is the set of passed checks, or None for an existing file that is up to date.

        After a digest mismatch, the complete object is requested again over one connection. The object then
        comes from another location, unless there is only one location. After a digest mismatch of a segmented
        download, all locations may be used again.
        """
        is_segmented = self._segments > 1 or sink.has_gaps
        reply = await self._fetch_segments(sink) if is_segmented else None
        proved = set() if reply is None else {"length"}
        if reply is None:
            reply = await self._retry(sink)
        if self._covers(reply):
            return reply, None
        places = len(self._requests)
        for _ in range(places - bool(places > 1 and not proved)):
            try:
                return reply, proved | await proof.check(sink, reply)
            except ChecksumMismatch as error:
                self._existing = None  # the next request is unconditional
                if not proved:  # all bytes came from one location, so this location is not used again
                    self._mismatched.append(self._served)
                proved = set()
                self._report("save:mismatch", f"{error.message}: requested again")
                sink.restart()
            reply = await self._retry(sink)
        try:
            return reply, await proof.check(sink, reply)
        except ChecksumMismatch as error:
            sink.discard()
            raise error.tried(self._attempts) from error.__cause__

    async def _fetch_segments(self, sink: PartialFile) -> StreamingResponse | None:
        """Retrieve the object in segments over several connections.

        If an earlier segmented download left gaps in the file, a single connection is sufficient to fill the
        gaps. Returns None if a segmented download is not possible.
        """
        if sink.is_adopted or self._existing is not None:
            return None
        if self._network.recorder is not None:  # an archive stores complete objects, not segments
            return None
        # imported lazily: few users request segments
        from resolver.transfer.segmented import SegmentedDownload

        open_ = partial(Retrieval, self._network, reported=set())
        policy, on_event = self._retry_policy, self._network.on_event
        segmented = SegmentedDownload(
            open_,
            self._requests,
            sink,
            self._segments,
            self._counter,
            policy,
            on_event,
            size=self._size,
            proved=self._is_proved,
        )
        try:
            reply = await segmented.run(self._clock)
        except Changed as error:
            self._report("save:restarted", f"{error.message}: started over")
            sink.restart()
            reply = None
        finally:
            self._attempts += segmented.attempts
            self._findings += segmented.findings
        if reply is not None:
            self._resumed_from = segmented.resumed_from
            self._served = segmented.served.url
        return reply

    @property
    def _is_proved(self) -> bool:
        """Return whether a digest from the caller will be compared with the complete object."""
        checksum = self._checksum
        return checksum is not None and checksum.algorithm != "auto"

    async def _retry(self, sink: PartialFile) -> StreamingResponse:
        requests = self._requests
        if self._mismatched:
            requests = sorted(requests, key=lambda item: item.url in self._mismatched)
        # Without pipelining (`prompt`), because the body of a conditional request may stay unread.
        if (existing := self._existing) is not None:
            requests = [
                item._replace(options=replace(item.options, held=existing, prompt=False)) for item in requests
            ]
        retrier = self._retrier(requests, sink, partial(self._fill, sink))
        try:
            return await retrier.retry(self._clock)
        except ResolveError as error:
            raise error.tried(self._attempts + error.attempts) from error.__cause__
        finally:
            self._attempts += retrier.attempts
            self._resumed_from = retrier.resumed_from
            self._served = retrier.served
            self._findings += retrier.findings

    async def _fill(self, sink: PartialFile, reply: StreamingResponse) -> None:
        if self._covers(reply):
            return
        if (lists := reply.lists) and not self._takes_listings:
            refuse_listing(reply)
        # a changed object is detected before its body arrives
        if self._size is not None and reply.size is not None and not lists:
            check_size(reply.size, self._size, reply.url)
        if sink.is_buffered and not lists:
            refuse_pointer(reply)
            await _write_buffered(reply.body, sink)
        elif reply.size is not None and reply.size >= WRITE_BACK_FROM:
            await first_of(partial(fill, reply, sink), partial(sink.write_back, reply.size))
        else:
            await fill(reply, sink)

    def _retrier(self, requests: Sequence[RetrievalRequest], store: Store, fill: Fill) -> Retrier:
        return Retrier(self._network, requests, store, fill, self._retry_policy, proved=self._is_proved)

    def _report(self, rule: str, detail: str) -> None:
        self._findings.append(Finding(rule, "warn", detail))

    def _make_skipped(self) -> Saved:
        """Return the result for an existing file that is not changed."""
        return Saved(
            url=self._shown,
            requested_url=self._shown,
            path=self._path,
            bytes=read_size(self._path),
            kind=Kind.DOCUMENT,
            elapsed=self._clock.elapsed,
            skipped=True,
        )


async def _write_buffered(body: LimitedBody, sink: PartialFile) -> None:
    """Write the body in chunks while the file is buffered in memory; then copy the other bytes in bulk."""
    async for octets in body:
        sink.write(octets)
        if not sink.is_buffered:
            await body.drain(sink)
            return


def refuse_listing(reply: StreamingResponse) -> NoReturn:
    """Raise `Refused` (S14), because the response is a listing."""
    row = registry.find(reply.request.url.scheme)
    has_tree = row is not None and row.tree is not None and reply.kind in (Kind.DIRECTORY, Kind.GROUP)
    advice = f"{'-r saves all of it, ' if has_tree else ''}-O FILE saves the listing"
    raise NoDocument(
        "S14",
        f"this is a {reply.kind.value} and not a document: ls lists it, {advice}",
        flag="-O FILE",
        url=reply.url,
    )


async def fill(reply: StreamingResponse, sink: AnySink) -> None:
    """Write the remaining bytes of the body to the file. A listing is written as text lines."""
    refuse_pointer(reply)
    if not reply.lists:
        await reply.body.drain(sink)
        return
    async for octets in octets_to_keep(reply):
        sink.write(octets)
