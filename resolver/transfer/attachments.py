"""The attachments of an article as complete, verified files. The parts of a file may be in several articles.

The parser of the scheme (`protocols.attachment.Post`) reads the articles. This module fetches the articles,
chooses safe names (S14), and writes each attachment as `save` writes an object.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from protocols.attachment import Attachment, FilePart, Post, ReadPost
from protocols.contract import Kind, Limits, Url, Validators
from protocols.errors import (
    ChecksumMismatch,
    Declined,
    LocalError,
    NotConfigured,
    NotFound,
    Refused,
    ResolveError,
    Truncated,
)
from protocols.text import own_text
from resolver.files.commit import GroupCommit
from resolver.files.names import NameTaken, check_free, free_name, is_skipped, read_size
from resolver.files.partial_file import PartialFile
from resolver.loops import running
from resolver.network.clock import Clock
from resolver.network.connecting import run_all
from resolver.network.task import enter
from resolver.policy.files import local_name
from resolver.transfer.limits import locate_error
from resolver.transfer.naming import index_suffix
from resolver.transfer.redirects import RetrievalRequest
from resolver.transfer.response import Response, Saved
from resolver.transfer.saving import MAX_BUFFERED_FILE, Exists
from resolver.url import registry
from resolver.url.parsing import build, parse

#: The number of articles that are fetched concurrently. Each article is held in memory, with at most
#: `Limits.body` bytes.
_CONCURRENT_FETCHES = 4

#: The maximum number of missing parts that an error message lists.
_MAX_NAMED = 10

#: The values of `exists` for attachments. `newer` is excluded, because an article does not change. `resume`
#: is excluded, because an article cannot be fetched from an offset.
EXISTS = ("fail", "skip", "replace", "rename")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentOrder:
    """The settings of `Resolver.save_attachments`, and the file names that the run has already used."""

    directory: str
    parts: bool
    exists: Exists
    digest: bool
    commits: GroupCommit
    limits: Limits
    reserve: Callable[[str, str], str]

    def __post_init__(self) -> None:
        if self.exists not in EXISTS:
            raise ValueError(
                f"exists must be one of {', '.join(EXISTS)} for attachments, got {self.exists!r}"
            )


class AttachmentSaver:
    """An operation that saves the attachments of one article.

    Args:
        request: the request for the article.
        order: the settings.
        make_request: a function that returns a request for another URL of the same origin.
        collect: a function that fetches a document into memory.
    """

    def __init__(
        self,
        request: RetrievalRequest,
        order: AttachmentOrder,
        make_request: Callable[[Url], RetrievalRequest],
        collect: Callable[[RetrievalRequest], Awaitable[Response]],
    ) -> None:
        self._request = request
        self._order = order
        self._make_request = make_request
        self._collect = collect
        self._clock = Clock(None)

    async def run(self) -> list[Saved | ResolveError]:
        """Save the attachments, and return for each attachment its file or its error.

        Raises:
            ResolveError: the article cannot be retrieved or parsed, or has no attachments.
        """
        url = self._request.url
        row = registry.find(url.scheme)
        if row is None or row.attachments is None:
            raise NotConfigured(
                f"{url.scheme} URLs have no attachments: expected the URL of an article", url=url.shown
            )
        response = await self._collect(self._request)
        enter(None)  # A second run would not get the names and files of a first run.
        if response.kind is not Kind.ARTICLE:
            raise Declined(f"expected an article, got a {response.kind.value}", url=url.shown)
        post = self._read(url, response)
        try:
            # The article is parsed in a thread, because parsing 64 MiB of hostile MIME data takes a minute.
            attachments = await running().in_thread(post.read_attachments)
        except ResolveError as error:
            raise locate_error(error, url.shown) from error
        if not attachments:
            raise NotFound("the article has no attachments", url=url.shown)
        results: list[Saved | ResolveError] = []
        for number, attachment in enumerate(attachments, 1):
            try:
                results.append(await self._save(attachment, number, post, response))
            except LocalError as error:
                results.append(locate_error(error, url.shown))
                if not isinstance(error, NameTaken):
                    break  # all later files would fail, too, for example because the disk is full
            except ResolveError as error:
                shown = self._label(attachment, number)
                results.append(locate_error(error.saying(f"in the attachment {shown}").final(), url.shown))
        return results

    def _read(self, url: Url, response: Response) -> Post:
        row = registry.find(url.scheme)
        assert row is not None
        assert row.attachments is not None
        read: ReadPost = registry.load(row.attachments)
        return read(url, response.content, self._order.limits)

    @staticmethod
    def _label(attachment: Attachment, number: int) -> str:
        name = (attachment.name or b"").decode("utf-8", "replace")
        return repr(name) if name else str(number)

    async def _save(self, attachment: Attachment, number: int, post: Post, response: Response) -> Saved:
        if attachment.error is not None:
            raise attachment.error
        part = attachment.part
        if part is not None and not self._order.parts:
            raise Truncated(
                f"the article has only part {part.number} of {part.total or 'several'}",
                received=len(attachment.content),
                expected=part.size,
            ).with_setting("parts")
        exists, shown = self._order.exists, self._request.url.shown
        path = os.path.join(self._order.directory, self._order.reserve(_safe_name(attachment, number), shown))
        if exists == "rename":
            path = free_name(path, shown)
        saved = self._make_saved(attachment, path, response)
        if exists == "skip" and is_skipped(path):
            return replace(saved, bytes=read_size(path), skipped=True, verified=())
        if exists in ("fail", "skip"):
            check_free(path)
        urls = {} if part is None else await self._find_parts(part, post)
        file = PartialFile(
            path,
            exists="replace" if exists == "replace" else "fail",
            source=shown,
            make_directory=True,
            below=os.path.join(self._order.directory, ""),
            max_buffered=0 if exists == "rename" else MAX_BUFFERED_FILE,
            commits=self._order.commits,
        )
        async with file as sink:
            if sink.finished:
                return replace(saved, bytes=read_size(path), skipped=True, verified=())
            try:
                proved = await self._fill(sink, attachment, urls)
                digest = await sink.digest("sha256") if self._order.digest else None
                size = sink.position
                await sink.commit(response.modified)
            except BaseException:
                sink.discard()  # useless, because a later run fetches the complete article again
                raise
        return replace(
            saved,
            bytes=size,
            size=size,
            digest=None if digest is None else f"sha256:{digest}",
            verified=(*response.verified, *proved),
            elapsed=self._clock.elapsed,
        )

    def _make_saved(self, attachment: Attachment, path: str, response: Response) -> Saved:
        return Saved(
            kind=Kind.DOCUMENT,
            media_type=None if attachment.media_type is None else own_text(attachment.media_type),
            modified=response.modified,
            title=response.title,
            url=response.url,
            requested_url=response.requested_url,
            findings=response.findings,
            elapsed=self._clock.elapsed,
            retrieved=response.retrieved,
            peer=response.peer,
            proxy=response.proxy,
            chain=response.chain,
            path=path,
            bytes=0,
            attempts=1,
        )

    async def _fill(self, sink: PartialFile, attachment: Attachment, urls: dict[int, Url]) -> tuple[str, ...]:
        """Write the attachment, and return the checks that succeeded."""
        if sink.position or sink.has_gaps:  # the partial file is from an interrupted run
            sink.restart()
        part = attachment.part
        size = len(attachment.content) if part is None else part.size
        await sink.remember(Validators(size=size))
        if part is not None:
            return await PartJoiner(attachment, part, urls, self._fetch_part).run(sink)
        await running().in_thread(sink.write, attachment.content)
        return attachment.verified

    async def _find_parts(self, part: FilePart, post: Post) -> dict[int, Url]:
        """Return the URLs of the file's other parts by number. Raises `Truncated` if parts are missing."""
        listing = post.list_parts(part)
        request = self._make_request(parse(build(listing.url), origin="user"))
        options = replace(request.options, entries=listing.entries, before=listing.before)
        overview = await self._collect(request._replace(options=options))
        parts = post.find_parts(part, overview.entries or ())
        total = listing.total
        missing = [number for number in range(1, total + 1) if number != part.number and number not in parts]
        if missing:
            raise _make_missing(missing, total, part.size)
        return {number: url for number, url in parts.items() if number <= total}

    async def _fetch_part(self, url: Url) -> list[Attachment]:
        parsed = parse(build(url), origin="user")
        response = await self._collect(self._make_request(parsed))
        post = self._read(parsed, response)
        return [*await running().in_thread(post.read_attachments)]


class PartJoiner:
    """An operation that joins the parts of one file, which are in several articles.

    Args:
        first: the part in the requested article.
        part: the number of the first part, and its byte range in the file.
        urls: the URLs of all other parts, by part number.
        fetch: a function that returns the attachments of another article.
    """

    def __init__(
        self,
        first: Attachment,
        part: FilePart,
        urls: dict[int, Url],
        fetch: Callable[[Url], Awaitable[list[Attachment]]],
    ) -> None:
        self._first = first
        self._part = part
        self._urls = urls
        self._fetch = fetch
        self._total = len(urls) + 1
        self._crc = 0
        self._expected: int | None = None
        self._is_proved = True

    async def run(self, sink: PartialFile) -> tuple[str, ...]:
        """Write the parts in order.

        Return the checks that succeeded.

        Raises:
            Truncated: parts or bytes are missing.
            ChecksumMismatch: parts overlap, or a checksum differs.
        """
        for start in range(1, self._total + 1, _CONCURRENT_FETCHES):
            numbers = range(start, min(start + _CONCURRENT_FETCHES, self._total + 1))
            for number, attachment in (await self._fetch_parts(numbers)).items():
                await self._add(number, attachment, sink)
        if sink.position != self._part.size:
            text = f"{sink.position} of {self._part.size} bytes are in the {self._total} parts"
            raise Truncated(text, received=sink.position, expected=self._part.size)
        if self._expected is not None and self._expected != self._crc:
            raise ChecksumMismatch(f"CRC-32 of the file expected {self._expected:08x}, got {self._crc:08x}")
        return ("length", "digest") if self._is_proved or self._expected is not None else ("length",)

    async def _fetch_parts(self, numbers: range) -> dict[int, Attachment]:
        """Fetch parts concurrently. The error of the first failed part is raised."""
        results: dict[int, Attachment | ResolveError | None] = dict.fromkeys(numbers)
        await run_all([partial(self._fetch_one, number, results) for number in numbers])
        missing = [number for number in numbers if isinstance(results[number], NotFound | None)]
        if missing:
            raise _make_missing(missing, self._total, self._part.size)
        attachments: dict[int, Attachment] = {}
        for number, result in results.items():
            if isinstance(result, ResolveError):
                raise result
            assert result is not None
            attachments[number] = result
        return attachments

    async def _fetch_one(self, number: int, results: dict[int, Attachment | ResolveError | None]) -> None:
        if number == self._part.number:
            results[number] = self._first
            return
        try:
            attachments = await self._fetch(self._urls[number])
        except ResolveError as error:
            results[number] = error
            return
        results[number] = next((item for item in attachments if self._is_part(item, number)), None)

    def _is_part(self, attachment: Attachment, number: int) -> bool:
        part = attachment.part
        expected = (number, self._part.size, self._first.name)
        return part is not None and (part.number, part.size, attachment.name) == expected

    async def _add(self, number: int, attachment: Attachment, sink: PartialFile) -> None:
        label = f"in part {number} of {self._total}"
        if attachment.error is not None:
            raise attachment.error.saying(label)
        part = attachment.part
        assert part is not None
        if part.begin > sink.position:
            text = (
                f"bytes {sink.position} to {part.begin - 1} are missing before part {number} of {self._total}"
            )
            raise Truncated(text, received=sink.position, expected=self._part.size)
        if part.begin < sink.position:
            raise ChecksumMismatch(f"part {number} of {self._total} overlaps the part before it")
        await running().in_thread(sink.write, attachment.content)
        self._crc = zlib.crc32(attachment.content, self._crc)
        self._is_proved = self._is_proved and "digest" in attachment.verified
        if part.crc32 is not None:
            self._expected = part.crc32


def _safe_name(attachment: Attachment, number: int) -> str:
    """Return a safe file name without directories (S14), or a substitute."""
    if attachment.name is not None:
        try:
            return local_name(attachment.name)
        except Refused:  # the sanitized name is empty, for example for `..`
            pass
    return f"attachment-{number}{index_suffix(attachment.media_type)}"


def _make_missing(missing: list[int], total: int, size: int) -> Truncated:
    named = ", ".join(map(str, missing[:_MAX_NAMED])) + (", …" if len(missing) > _MAX_NAMED else "")
    words = f"parts {named} of {total} are" if len(missing) > 1 else f"part {named} of {total} is"
    return Truncated(f"{words} missing", received=0, expected=size)
