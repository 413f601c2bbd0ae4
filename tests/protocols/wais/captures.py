"""Recorded exchanges with a real WAIS server: parsed, and converted to databases for the mock server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from fixtures import recordings
from fixtures.wais import Database, Document, Implementation, Search, World
from fixtures.wais.coding import HEADER_LENGTH
from fixtures.wais.request import read_request
from protocols.wais.apdu import parse_search_response
from protocols.wais.record import DocumentHeader, WaisRecords, sort_records
from protocols.wais.url import parse_fields
from protocols.wire import run_reader

FOLDER = recordings.FOLDER / "wais"

#: The recorded server's own name.
RECORDED = Implementation(b"LS6", b"University of Dortmund Informatik VI", b"2.0 PL 65 string")


@dataclass(frozen=True)
class Capture:
    """A recording.

    - `exchanges`: complete requests with their answers
    - `document`: length and SHA-256 of the retrieved document
    """

    name: str
    exchanges: tuple[tuple[bytes, bytes], ...]
    document: tuple[int, str] | None

    @property
    def searches(self) -> Iterator[tuple[Search, WaisRecords]]:
        """Yield searches of both kinds with their records, except those with an answer of length 0."""
        for request, answer in self.exchanges:
            asked = read_request(request[HEADER_LENGTH:])
            if isinstance(asked, Search) and len(answer) > HEADER_LENGTH:
                yield asked, records_in(answer)


def parse_records(group: bytes) -> WaisRecords:
    return run_reader(lambda buffer: sort_records(group))


def records_in(answer: bytes) -> WaisRecords:
    return parse_records(parse_search_response(answer[HEADER_LENGTH:]))


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


@cache
def capture(name: str) -> Capture:
    found = json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))
    sides = [(each["dir"], bytes.fromhex(each["hex"])) for each in found["exchanges"]]
    assert [side for side, _ in sides] == ["client", "server"] * (len(sides) // 2)
    octets = [each for _, each in sides]
    document = found.get("document")
    return Capture(
        name,
        tuple(zip(octets[::2], octets[1::2], strict=True)),
        None if document is None else (document["length"], document["sha256"]),
    )


def world_of(name: str) -> World:
    """Return the recorded server's databases, as of the recording `name`."""
    world = recorded_world()
    if name != "access-denied":
        return world
    return replace(world, databases={**world.databases, b"demo": Database(b"/srv/wais/db/demo", closed=True)})


@cache
def recorded_world() -> World:
    builder = _Builder()
    for name in names():
        for search, records in capture(name).searches:
            builder.learn(search, records)
    return World(builder.databases(), place=b"wais.example:8210")


def field(document_id: bytes, tag: int) -> bytes:
    fields = parse_fields(document_id)
    assert fields is not None
    return next(each.content for each in fields if each.tag == tag)


class _Builder:
    """A collector of hits, rankings and texts from answers."""

    def __init__(self) -> None:
        self._hits: dict[bytes, dict[bytes, DocumentHeader]] = {}
        self._descriptions: dict[bytes, dict[bytes, DocumentHeader]] = {}
        self._rankings: dict[bytes, dict[bytes, tuple[tuple[bytes, int], ...]]] = {}
        self._texts: dict[tuple[bytes, bytes], bytearray] = {}

    def learn(self, search: Search, records: WaisRecords) -> None:
        if any(diagnostic.code in ("S1", "T2") for diagnostic in records.diagnostics) and not records.headers:
            return
        if search.query_type == b"3":
            self._learn_hits(search, records)
        elif records.texts and search.terms(b"wb"):
            self._learn_text(search, records.texts[0])

    def _learn_text(self, search: Search, octets: bytes) -> None:
        document_id, wtype = search.terms(b"un")[0].value, search.terms(b"wt")[0].value
        local_id = field(document_id, 3)
        text = self._texts.setdefault((local_id, wtype), bytearray())
        start = int(search.terms(b"wb")[0].value)
        text[start : start + len(octets)] = octets
        if not local_id.startswith(b"0 0 "):  # a document that no recorded search found
            unseen = DocumentHeader(octets=b"", document_id=document_id, types=(wtype,), length=len(text))
            self._hits.setdefault(search.database, {}).setdefault(local_id, unseen)

    def _learn_hits(self, search: Search, records: WaisRecords) -> None:
        ranking = []
        for header in records.headers:
            local_id = field(header.document_id, 3)
            if local_id.startswith(b"0 0 "):
                self._descriptions.setdefault(search.database, {})[local_id] = header
            else:
                known = self._hits.setdefault(search.database, {})
                if header.types:  # headers of message version 1 have no types
                    known[local_id] = header
                ranking.append((local_id, header.score or 0))
        rankings = self._rankings.setdefault(search.database, {})
        if len(ranking) > len(rankings.get(search.words, ())):
            rankings[search.words] = tuple(ranking)

    def databases(self) -> dict[bytes, Database]:
        return {name: self._database(name) for name in self._rankings}

    def _database(self, name: bytes) -> Database:
        described = self._descriptions.get(name, {})
        path = b"/srv/wais/db/" + name
        source, catalog = described.get(b"0 0 " + path + b".src"), described.get(b"0 0 " + path + b".cat")
        return Database(
            path=path,
            documents=tuple(self._document(hit) for hit in self._hits.get(name, {}).values()),
            source=None if source is None else self._text(source, b"WSRC"),
            source_lines=None if source is None else source.lines,
            catalog=None if catalog is None else self._text(catalog, b"TEXT"),
            catalog_lines=None if catalog is None else catalog.lines,
            rankings=self._rankings[name],
        )

    def _document(self, hit: DocumentHeader) -> Document:
        return Document(
            local_id=field(hit.document_id, 3),
            forms={wtype: self._text(hit, wtype) for wtype in hit.types},
            headline=hit.headline or b"",
            date=hit.date or b"",
            length=hit.length,
            lines=hit.lines,
        )

    def _text(self, hit: DocumentHeader, wtype: bytes) -> bytes:
        """Return the retrieved text of a hit; parts that were not retrieved are zero bytes."""
        found = self._texts.get((field(hit.document_id, 3), wtype))
        return bytes(hit.length or 0) if found is None else bytes(found)
