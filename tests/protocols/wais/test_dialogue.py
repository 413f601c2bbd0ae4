"""Requests of wais URLs and their order."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from fixtures.wais import Init, Request, Search
from fixtures.wais.request import read_request
from fixtures.wais.strictness import find_head_violations, find_violations
from protocols.conversation.rehearsal import rehearse
from protocols.step import Connect, EmitBody, PlanNote, Receive, Send, StartBody, Step
from protocols.wais.apdu import WaisDocument
from protocols.wais.dialogue import choose_max_documents, converse, make_document
from resolver import InvalidUrl, Options, Refused, WaisUrl
from tests.protocols.typed_url import parse_as


def wais(text: str) -> WaisUrl:
    return parse_as(WaisUrl, text)


def plan(text: str) -> list[Step]:
    return rehearse(converse(wais(text)))


def requests(steps: Iterable[Step]) -> list[Request]:
    """Return the sent requests; each must satisfy a strict server."""
    found: list[Request] = []
    for step in steps:
        if isinstance(step, Send):
            (line,) = step.lines
            assert line.shown == line.octets
            request = read_request(line.octets[25:])
            assert list(find_head_violations(line.octets[:25])) == []
            assert list(find_violations(request, number=len(found))) == []
            found.append(request)
    return found


PLANS: list[tuple[str, list[type[Step]]]] = [
    (
        "wais://h/db?two words".replace(" ", "%20"),
        [Connect, Send, Receive, Send, Receive, StartBody, EmitBody],
    ),
    ("wais://h/db?", [Connect, Send, Receive, Send, Receive, StartBody, EmitBody]),
    ("wais://h/db/TEXT/%02%01x", [Connect, Send, Receive, PlanNote, Send, Receive, StartBody, EmitBody]),
    (
        "wais://h/db",
        [
            Connect,
            Send,
            Receive,
            Send,
            Receive,
            StartBody,
            EmitBody,
            PlanNote,
            PlanNote,
            Send,
            Receive,
            EmitBody,
        ],
    ),
]


@pytest.mark.parametrize(("text", "steps"), PLANS)
def test_plan_has_expected_steps(text: str, steps: list[type[Step]]) -> None:
    assert [type(step) for step in plan(text)] == steps


@pytest.mark.parametrize(("text", "steps"), PLANS)
def test_requests_are_not_pipelined(text: str, steps: list[type[Step]]) -> None:
    """No pipelining: the real server drops requests sent ahead of its answer, and closes the connection."""
    said = [step for step in plan(text) if isinstance(step, Send | Receive)]
    assert [type(step) for step in said] == [Send, Receive] * (len(said) // 2)
    assert all(len(step.lines) == 1 for step in said if isinstance(step, Send))
    init, *rest = requests(said)
    assert isinstance(init, Init)
    assert (init.maximum_size, init.authentication) == (100_000, None)
    assert all(isinstance(request, Search) for request in rest)


def test_word_search_request() -> None:
    (_, search) = requests(plan("wais://h/a%20b?ferries%2Bfog+x%00"))
    assert isinstance(search, Search)
    assert (search.database, search.words, search.max_hits) == (b"a b", b"ferries+fog+x\0", 40)


def test_retrieval_request() -> None:
    (_, search) = requests(plan("wais://h/db/T%20X/%02%04demo%00"))
    assert isinstance(search, Search)
    assert [item.value for use in (b"un", b"wt", b"wb") for item in search.terms(use)] == [
        *(b"\x02\x04demo\0", b"T X"),
        *(b"0", b"10000"),
    ]


def test_database_requests() -> None:
    (_, search, retrieval) = requests(plan("wais://h/db"))
    assert isinstance(search, Search)
    assert isinstance(retrieval, Search)
    assert (search.database, search.words) == (b"db", b"")
    assert (retrieval.database, retrieval.terms(b"wt")[0].value) == (b"db", b"WSRC")


DOCUMENTS = [
    ("TEXT/%02%01x", b"\x02\x01x", b"TEXT"),
    ("TEXT,GIF/%02%01x", b"\x02\x01x", b"TEXT,GIF"),
    ("TEXT,GIF/9/2=x;", b"\x02\x01x", b"TEXT"),  # browsers listed the available types
    ("/", b"", b""),
]


@pytest.mark.parametrize(("path", "document_id", "wtype"), DOCUMENTS)
def test_document_of_parses_path(path: str, document_id: bytes, wtype: bytes) -> None:
    assert make_document(wais(f"wais://h/db/{path}")) == WaisDocument(b"db", document_id, wtype)


@pytest.mark.parametrize(("hits", "most"), [(None, 40), (1, 1), (200, 200), (0, 1_000), (5_000, 1_000)])
def test_entries_option_sets_number_of_hits(hits: int | None, most: int) -> None:
    assert choose_max_documents(hits) == most
    (_, search) = requests(rehearse(converse(wais("wais://h/db?x"), Options(entries=hits))))
    assert isinstance(search, Search)
    assert search.max_hits == most


def test_relevant_option_adds_documents() -> None:
    marked = [wais(f"wais://h/db/{path}") for path, *_ in DOCUMENTS[:3]]
    options = Options(relevant=tuple(marked * 6))
    (_, search) = requests(rehearse(converse(wais("wais://h/db?x"), options)))
    assert isinstance(search, Search)
    assert search.relevant == tuple(document_id for _, document_id, _ in DOCUMENTS[:3] * 6)[:16]


@pytest.mark.parametrize("url", [wais("wais://h/db"), wais("wais://h/db/T/")])
def test_relevant_url_without_document_plans_only_note(url: WaisUrl) -> None:
    (said,) = rehearse(converse(wais("wais://h/db?x"), Options(relevant=(url,))))
    assert isinstance(said, PlanNote)


@pytest.mark.parametrize(
    "path",
    [
        "d%40other",  # the server would ask another server
        "d%1Fother?x",
        "d%00/TEXT/x",
        "d" * 256,
        "d?" + "x" * 4_001,
        "d/" + "T" * 65 + "/x",
        "d/TEXT/" + "x" * 2_049,
        "d/TEXT/1/2=" + "x" * 2_047 + ";",
    ],
    ids=lambda path: path[:12],
)
def test_invalid_url_is_refused_before_connecting(path: str) -> None:
    with pytest.raises(Refused) as caught:
        next(converse(wais(f"wais://h/{path}")))
    assert caught.value.rule == "S02"


@pytest.mark.parametrize("path", ["db/TEXT/", "db//", "/TEXT/"])
def test_document_without_id_is_refused_before_connecting(path: str) -> None:
    """The grammar allows an empty id; the real server closes the connection (wais page, section 6)."""
    text = f"wais://h/{path}"
    with pytest.raises(InvalidUrl) as caught:
        next(converse(wais(text)))
    assert (caught.value.kind, caught.value.position, caught.value.exit_code) == (
        "missing-path",
        len(text),
        12,
    )


def test_plan_describes_received_messages() -> None:
    assert [step.what for step in plan("wais://h/db/TEXT/x") if isinstance(step, Receive | EmitBody)] == [
        "Init-Response: the maximum message size",
        "Search-Response: bytes 0 to 9999 of the document",
        "the document from byte 0 on",
    ]
