"""The lists of URLs on the command line: lines of URLs, checksum files, and Metalink files.

A list is a file, standard input, or a URL, and is parsed as its bytes arrive. The user has not seen the
content of a fetched list. The URLs in a fetched list therefore always have the origin `derived`, and the URL
of the list is their referrer.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from protocols.errors import IntegrityError, InvalidUrl, LocalError, ResolveError
from protocols.location import Finding
from protocols.text import Masked, own_text
from resolver.cli import streams
from resolver.cli.arguments import ONLINE_NAMES, Command
from resolver.cli.secrets import CommandSecrets
from resolver.cli.session_settings import make_policy
from resolver.files.archive import open_archive
from resolver.policy.judgment import check
from resolver.transfer.naming import make_sibling_url
from resolver.transfer.session import Resolver
from resolver.trees.lists import BadItem, ListedDigest, ListedFile, parse_sum, safe_path, split_name
from resolver.url import registry
from resolver.url.parsing import convert_iri, parse, redact
from resolver.warc.archive import read_moment
from resolver.warc.check import ListedRecord, list_records, short_key
from resolver.warc.http import normalize_target
from resolver.warc.records import DamagedSpan

if TYPE_CHECKING:
    from protocols.contract import Origin, Url


#: An item of a list: a line, or a file with metadata such as mirrors and a checksum.
Item: TypeAlias = "str | ListedFile"

Report: TypeAlias = Callable[[LocalError], None]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
#: The number of bytes of the first line from which the format of a list is detected.
_HEAD_SIZE = 128
_PIECE_SIZE = 65_536


class FetchedList(NamedTuple):
    """A fetched list: its content, its final URL, and the IP address of the server."""

    octets: bytes
    url: Url
    address: str | None


class ListSource(NamedTuple):
    """A list to parse.

    Relative names in the list are resolved against the URL `base`. `fetched` is true if the list was fetched
    from a URL. `end` is the byte that ends each item: a line feed, or NUL.
    """

    name: str
    pieces: Iterator[bytes]
    origin: Origin
    referrer: tuple[str, str | None] | None
    base: Url | None
    fetched: bool
    end: bytes


def is_url(name: str) -> bool:
    """Return whether the name of a list is a URL.

    To read a local file whose name looks like a URL, the user types `./` before the name.
    """
    return _URL.match(name) is not None


def open_lists(command: Command, fetched: Mapping[str, FetchedList]) -> Iterator[ListSource]:
    """Yield the lists of the command line, without those that failed to load. Raises `LocalError`."""
    referrer = None if command.referrer is None else (redact(command.referrer), None)
    end = b"\0" if command.null else b"\n"
    for name in command.lists:
        if (content := fetched.get(name)) is not None:
            link = (content.url.shown, content.address)
            yield ListSource(
                redact(name), _pieces(content.octets), "derived", link, content.url, fetched=True, end=end
            )
        elif is_url(name):
            if command.verb not in ONLINE_NAMES:
                raise LocalError(f"{redact(name)}: {command.verb} cannot fetch a list: it works offline")
        else:
            base = None if command.referrer is None else parse(command.referrer)
            pieces = streams.read_list(name)
            yield ListSource(name, pieces, command.origin, referrer, base, fetched=False, end=end)


def _pieces(octets: bytes) -> Iterator[bytes]:
    """Yield the content of a list in chunks, so that the parsers do not copy the complete list."""
    for start in range(0, len(octets), _PIECE_SIZE):
        yield octets[start : start + _PIECE_SIZE]


def read_items(source: ListSource, report: Report) -> Iterator[tuple[str, Item]]:
    """Yield the items of a list, each with its position for messages.

    `report` is called with the error of each invalid item, and parsing continues. Raises `LocalError` after
    an error that makes the following items unreadable.
    """
    from resolver.trees.lists import is_metalink  # lazy import: it takes as long as the start of resolve

    head = b""
    for piece in source.pieces:
        head += piece
        first = head.lstrip()
        if len(first) >= _HEAD_SIZE or source.end in first or len(head) >= streams.MAX_LINE:
            break
    if is_metalink(head) or source.name.lower().endswith(".meta4"):
        yield from _files(source.name, chain((head,), source.pieces), report)
    elif head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):  # Windows PowerShell 5 writes UTF-16 files.
        raise LocalError(
            f"{source.name}: expected UTF-8, got UTF-16 (convert it with iconv -f UTF-16 -t UTF-8)"
        )
    else:
        yield from _lines(source, chain((head.removeprefix(BOM_UTF8),), source.pieces), report)


def _files(name: str, pieces: Iterable[bytes], report: Report) -> Iterator[tuple[str, Item]]:
    from resolver.trees.lists import BrokenList, MetalinkReader

    reader = MetalinkReader()
    try:
        for item in chain(chain.from_iterable(map(reader.feed, pieces)), reader.finish()):
            if isinstance(item, BadItem):
                report(LocalError(f"{name}: {item}"))
            else:
                yield name, item
    except BrokenList as error:
        raise LocalError(f"{name}: {error}") from error


def _lines(source: ListSource, pieces: Iterable[bytes], report: Report) -> Iterator[tuple[str, Item]]:
    item = "line" if source.end == b"\n" else "item"
    for number, line in enumerate(streams.list_lines(source.name, pieces, source.end), 1):
        if not line.strip() or line.startswith("#"):
            continue
        label = f"{source.name}, {item} {number}"
        try:
            digest = parse_sum(line)
            yield label, line if digest is None else _file(digest, source, label)
        except BadItem as error:
            report(LocalError(f"{label}: {error}"))


def _file(digest: ListedDigest, source: ListSource, label: str) -> ListedFile:
    """Return the file of a checksum line (`DIGEST NAME`).

    Its URL is relative to the URL of the list.

    Raises:
        BadItem: the name is not valid.
        LocalError: the URL of the list is not known, or has no directory.
    """
    if source.base is None:
        raise LocalError(
            f"{label}: a digest and a name without a URL (name the list's URL with --referrer, "
            "or fetch the list with -i URL)"
        )
    parts = split_name(digest.name)
    try:
        url = make_sibling_url(source.base, *parts)
    except InvalidUrl as error:
        raise BadItem(error.message) from error
    if url is None:
        raise LocalError(f"{label}: a {source.base.scheme} URL has no directory for the names of the list")
    return ListedFile(urls=(url.text,), name=safe_path(parts), checksum=digest.checksum)


# The selection of the mirrors for one file of a list.

#: The maximum number of skipped mirrors with a separate finding, because a list may contain a thousand
#: mirrors.
_MAX_FINDINGS = 5


def select_mirrors(
    urls: Iterable[str], source: ListSource, command: Command
) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """Return the URLs that the policy permits, and findings about the others.

    If the policy refuses all URLs, all URLs are returned without findings.
    """
    candidates = [_as_url(url) for url in urls]
    if len(candidates) == 1:
        return tuple(candidates), ()
    policy = make_policy(command)
    mirrors, findings = [], []
    for url in candidates:
        verdict = check(
            url,
            policy=policy,
            origin=source.origin,
            referrer=source.referrer,
            gateways=command.gateways,
        )
        if verdict.action != "refuse":
            mirrors.append(url)
            continue
        refusal = next(finding for finding in verdict.findings if finding.action == "refuse")
        findings.append(
            Finding("list:place", "allow", f"mirror skipped: {redact(url)}: {refusal.rule}: {refusal.detail}")
        )
    if not mirrors:
        return tuple(candidates), ()
    if len(findings) > _MAX_FINDINGS:
        more = Finding("list:place", "allow", f"{len(findings) - _MAX_FINDINGS} more mirrors skipped")
        findings = [*findings[:_MAX_FINDINGS], more]
    return tuple(mirrors), tuple(findings)


def _as_url(text: str) -> str:
    """Convert an IRI to a URL, because a list may contain IRIs (RFC 5854, 1.1)."""
    if not text.isascii():
        with suppress(InvalidUrl):  # the policy check later reports the error
            return convert_iri(text)
    return text


# Lists whose names are URLs. All lists are fetched before the run starts. The policy checks the URL of a list
# like any other URL. The content of a list is stored in memory, with the size limit of a response body (S16).


async def fetch_lists(
    session: Resolver, command: Command, secrets: CommandSecrets, report: Callable[[ResolveError], None]
) -> Mapping[str, FetchedList]:
    """Fetch the lists that are URLs, and return them by name.

    `report` is called with the error of each list that cannot be fetched.
    """
    list_by_name: dict[str, FetchedList] = {}
    for name in filter(is_url, command.lists):
        try:
            list_by_name[name] = await _fetch(session, name, command, secrets)
        except ResolveError as error:
            report(error)
    return list_by_name


async def _fetch(session: Resolver, name: str, command: Command, secrets: CommandSecrets) -> FetchedList:
    url = parse(name, strict=command.strict, origin=command.origin)
    if command.origin == "user":
        secrets.admit(url)
    referrer = None if command.referrer is None else (redact(command.referrer), None)
    response = await session.fetch(url, origin=command.origin, referrer=referrer)
    if response.entries is not None:
        raise LocalError(
            f"{url.shown}: expected a list of URLs, got a {response.kind.value} (ls --json converts it)"
        )
    last = url if not response.chain else parse(response.url)
    return FetchedList(response.content, last, None if response.proxy else response.peer)


# The command `warc extract FILE` saves the content of an archive as files. With URLs, the command has the
# same effect as `get` from the archive. Without URLs, each resource that can be saved as a file is extracted
# once.

#: Records that are extracted. For each WARC record type, the table has the permitted HTTP statuses, or for
#: other schemes, the permitted kinds. A revisit record refers to an earlier record with the same content.
_KINDS_BY_TYPE = {"response": ("200",), "resource": ("document",), "revisit": ("200", "-")}


def list_archived_urls(
    path: str, at: str | None, report: Callable[[ResolveError], None], *, quiet: bool
) -> Iterator[str]:
    """Yield the URLs that were archived up to the time `at`, in the order of their first records.

    `report` is called for damaged records. The number of listings is printed, because listings are not
    extracted as files. Raises `LocalError` if the file is not an archive.
    """
    end = None if at is None else read_moment(at)
    digests: set[bytes] = set()
    listings = 0
    try:
        with open_archive(path) as archive:
            for record in list_records(archive):
                if isinstance(record, DamagedSpan):
                    report(IntegrityError(f"{path}: byte {record.offset}: {record.message}"))
                    continue
                is_later = end is not None and record.head.date is not None and record.head.date > end
                try:
                    digest = None if is_later else _digest_url(record)
                except IntegrityError as error:
                    report(IntegrityError(f"{path}: byte {record.offset}: {error.message}"))
                    continue
                if digest is None or digest in digests:
                    continue
                digests.add(digest)
                if record.kind in _KINDS_BY_TYPE[record.head.type]:
                    yield record.head.target or ""
                else:
                    listings += 1
    except LocalError as error:
        raise LocalError(f"{path}: {error.message}") from error
    if listings and not quiet:
        text = Masked("1 listing was" if listings == 1 else f"{listings} listings were")
        streams.complain(
            Masked(f"{own_text(path)}: {text} not extracted (show entries with resolve ls --from-warc)")
        )


def _digest_url(record: ListedRecord) -> bytes | None:
    """Return a digest of the normalized URL, or None if the record has no object to extract.

    Raises `IntegrityError` for a complete response that cannot be replayed.
    """
    head = record.head
    if head.is_complete_response and record.kind == "-":
        raise IntegrityError("the response has no valid head")
    is_listing = head.type == "resource"
    if head.target is None or not (is_listing or record.kind in _KINDS_BY_TYPE.get(head.type, ())):
        return None
    try:
        url = parse(head.target)
        row = registry.find(url.scheme)
        if row is None or not registry.can_resolve(row):
            return None
        return short_key(normalize_target(url))
    except (InvalidUrl, UnicodeError) as error:
        if head.is_complete_response:
            raise IntegrityError("the response has an invalid URL") from error
        return None
