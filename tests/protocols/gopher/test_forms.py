"""Forms: questions from ASK lines, answers as the octets that real clients sent."""

from __future__ import annotations

import json

import pytest

from fixtures import recordings
from protocols.gopher.attributes import (
    FORM_LIMIT,
    Answer,
    AskForm,
    AskLine,
    AskQuestion,
    encode_answers,
    fill,
    parse_form,
    parse_records,
)
from protocols.gopher.reply import form_of
from protocols.gopher.request import encode_request
from resolver import GopherUrl, Refused, parse

CAPTURES = recordings.FOLDER / "gopher"

LINES: list[tuple[bytes, AskLine]] = [
    (b"Ask: Name?\tFrodo", AskLine(AskQuestion.ASK, "Ask", "Name?", (), "Frodo")),
    (b"ASK:Name?", AskLine(AskQuestion.ASK, "ASK", "Name?")),
    (b"AskP: Word?\t ", AskLine(AskQuestion.ASK_HIDDEN, "AskP", "Word?", (), " ")),
    (b"askl: Tell!", AskLine(AskQuestion.ASK_LINES, "askl", "Tell!")),
    (b"Choose: One\ta\tb\xff", AskLine(AskQuestion.CHOOSE, "Choose", "One", (b"a", b"b\xff"), "a")),
    (b"Choose: None", AskLine(AskQuestion.CHOOSE, "Choose", "None")),
    (b"Select: Sure?", AskLine(AskQuestion.SELECT, "Select", "Sure?")),
    (b"Select: Sure?\t1", AskLine(AskQuestion.SELECT, "Select", "Sure?", (), "1")),
    (b"Select: Sure?\tyes", AskLine(AskQuestion.SELECT, "Select", "Sure?", (), "0")),
    (
        b"Select: Red?:1",
        AskLine(AskQuestion.SELECT, "Select", "Red?", (), "1"),
    ),  # as Minnesota's clients read it
    (b"Select: Red?:0 ", AskLine(AskQuestion.SELECT, "Select", "Red?", (), "0")),
    (b"Select: Red?:1\t0", AskLine(AskQuestion.SELECT, "Select", "Red?", (), "0")),
    (b"Select: At 8:10", AskLine(AskQuestion.SELECT, "Select", "At 8:10")),
    (b"Select: Red:2", AskLine(AskQuestion.SELECT, "Select", "Red:2")),
    (b"Note: Hello\x1b[2J", AskLine(AskQuestion.NOTE, "Note", "Hello[2J")),
    (b"ChooseF: File?\t/etc/passwd", AskLine(AskQuestion.CHOOSE_FILE, "ChooseF", "File?")),
    (b"AskF: Save as\tanswer.txt", AskLine(AskQuestion.ASK_FILE, "AskF", "Save as", (), "answer.txt")),
    (b"AskF: Save as\t../answer.txt", AskLine(AskQuestion.ASK_FILE, "AskF", "Save as")),
    (b"AskF: Save as\tC:\\answer", AskLine(AskQuestion.ASK_FILE, "AskF", "Save as")),
    (b"AskF: Save as\t.profile", AskLine(AskQuestion.ASK_FILE, "AskF", "Save as")),
    (b"Guess: What?\tx", AskLine(AskQuestion.UNKNOWN, "Guess", "What?")),
    (b"no colon", AskLine(AskQuestion.UNKNOWN, "no colon", "no colon")),
    (b": nothing", AskLine(AskQuestion.UNKNOWN, "", "nothing")),
]


@pytest.mark.parametrize(("line", "read"), LINES)
def test_a_line_of_a_form(line: bytes, read: AskLine) -> None:
    assert parse_form([line]) == AskForm((read,))


def test_what_a_person_is_told_before_answering() -> None:
    form = parse_form([b"AskP: Word?", b"Guess: What?"])
    assert [finding.rule for finding in form.findings(in_clear=True)] == [
        "gopher:answer-in-clear",
        "gopher:unknown-question",
    ]
    assert [finding.rule for finding in form.findings(in_clear=False)] == ["gopher:unknown-question"]


POLL = [
    b"Note: A small poll",
    b"Ask: What is your name?\tFrodo",
    b"AskP: What is your password?",
    b"Choose: Which colour?\tred\tgreen\tblue",
    b"Select: Newsletter?",
    b"Select: Magazine?",
    b"Ask: Last question",
]

#: The capture of a real client's submission, the form it had seen, and its answers.
SUBMITTED: list[tuple[str, list[bytes], list[Answer], bytes]] = [
    ("client-umn-ask-submit", POLL, [b"Frodo", b"secret", b"red", True, False, b"bye"], b"Text/plain En_US"),
    ("ask-form-submit-scripted-umn23", POLL, [b"Frodo", b"secret", b"green", True, False, b"bye"], b""),
    (
        "client-umn-ask-submit-askl",
        [b"Ask: Title", b"AskL: Text"],
        [b"A title", (b"line one", b"line two", b"")],
        b"Text/plain En_US",
    ),
    (
        "client-umn-ask-submit-choosef",
        [b"Note: n", b"Ask: Title", b"ChooseF: File"],
        [b"A title", None],
        b"Text/plain En_US",
    ),
    ("client-umn-ask-submit-askf", [b"AskF: Save as\tanswer.txt"], [b"answer.txt"], b"Text/plain En_US"),
]


@pytest.mark.parametrize(
    ("capture", "lines", "answers", "view"), SUBMITTED, ids=[row[0] for row in SUBMITTED]
)
def test_the_octets_of_real_clients(
    capture: str, lines: list[bytes], answers: list[Answer], view: bytes
) -> None:
    exchanges = json.loads((CAPTURES / f"{capture}.json").read_text())["exchanges"]
    sent = bytes.fromhex(exchanges[0]["hex"])
    url = parse(f"gopher://h.dom/0{sent.partition(chr(9).encode())[0].decode()}")
    assert isinstance(url, GopherUrl)
    filled = fill(url, parse_form(lines), answers, view)
    assert encode_request(filled).octets == sent
    assert parse(built(filled)) == filled


def built(url: GopherUrl) -> str:
    from protocols.gopher import GOPHER

    return GOPHER.build(url)


def test_the_form_of_a_capture() -> None:
    exchanges = json.loads((CAPTURES / "ask-form-fetch-umn23.json").read_text())["exchanges"]
    reply = bytes.fromhex(exchanges[1]["hex"]).removeprefix(b"+-1\r\n").removesuffix(b".\r\n")
    form = form_of(parse_records(reply)[0])
    assert form is not None
    assert [line.word for line in form.lines] == [
        "Note",
        "Ask",
        "AskP",
        "AskL",
        "Choose",
        "Select",
        "Select",
        "Ask",
    ]
    assert [line.default for line in form.asked] == ["Frodo", None, None, "red", None, None, None]


def test_a_file_goes_last_whatever_its_place() -> None:
    form = parse_form([b"ChooseF: File", b"Ask: Title"])
    octets = encode_answers(form, [b"one\ntwo\r\n\r\nthree", b"A title"])
    assert octets == b"+\t1\r\n+-1\r\nA title\r\none\r\ntwo\r\n\r\nthree\r\n.\r\n"


#: What a dot-terminated block cannot hold.
REFUSED: list[tuple[bytes, Answer, str]] = [
    (b"Ask: x", b".", "S03"),
    (b"AskL: x", (b"a", b".", b"b"), "S03"),
    (b"Ask: x", b"a\r\nb", "S02"),
    (b"Ask: x", b"a\nb", "S02"),
    (b"Ask: x", b"a\0b", "S02"),
    (b"AskL: x", (b"a\r",), "S02"),
    (b"ChooseF: x", b"a\0b", "S03"),
    (b"ChooseF: x", b"a\rb", "S03"),
    (b"ChooseF: x", b"a\n.\nb\n", "S03"),
    (b"Ask: x", b"y" * FORM_LIMIT, "S03"),
    (b"Choose: x\t.", b".", "S03"),
]


@pytest.mark.parametrize(("line", "answer", "rule"), REFUSED)
def test_what_cannot_be_sent_is_refused(line: bytes, answer: Answer, rule: str) -> None:
    with pytest.raises(Refused) as caught:
        encode_answers(parse_form([line]), [answer])
    assert caught.value.rule == rule
    assert ("few servers take" in caught.value.message) == line.startswith(b"ChooseF")


#: Answers that do not fit their questions.
MISFITS: list[tuple[list[bytes], list[Answer]]] = [
    ([b"Ask: x"], []),
    ([b"Ask: x"], [b"a", b"b"]),
    ([b"Note: x"], [b"a"]),
    ([b"Ask: x"], [True]),
    ([b"Ask: x"], [None]),
    ([b"Ask: x"], [(b"a",)]),
    ([b"Select: x"], [b"1"]),
    ([b"AskL: x"], [b"a"]),
    ([b"Choose: x\ta\tb"], [b"c"]),
    ([b"ChooseF: x"], [True]),
    ([b"ChooseF: x", b"ChooseF: y"], [b"a", b"b"]),
]


@pytest.mark.parametrize(("lines", "answers"), MISFITS)
def test_an_answer_that_does_not_fit_is_a_mistake(lines: list[bytes], answers: list[Answer]) -> None:
    with pytest.raises(ValueError, match=r"."):
        encode_answers(parse_form(lines), answers)


def test_a_form_without_questions_is_sent_empty() -> None:
    assert encode_answers(parse_form([b"Note: x"]), []) == b"+\t1\r\n+-1\r\n.\r\n"
