"""The questions of a form, put to the person at the terminal one by one (Gopher+ memo 2.4).

All that is shown of them is a stranger's text, and escaped (S15). A default is taken by an empty line; a file
is the person's own choice, and what is a secret is not shown while it is typed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from protocols.errors import LocalError, ProtocolError, Refused
from resolver.cli import streams
from resolver.retrieval.form import Answer, AskForm, AskLine, AskQuestion

#: Octets of a file that is sent along with a form.
_MOST_FILE = 1_048_576
_YES, _NO = (b"y", b"yes"), (b"n", b"no")


async def answers_to(form: AskForm) -> list[Answer]:
    """One for each of `form.asked`. Raises `Refused` (S05) where the person ends the input."""
    answers: list[Answer] = []
    for line in form.lines:
        if line.question.is_asked:
            answers.append(await _ASKING[line.question](line))
        else:
            streams.note(line.prompt)
    return answers


async def agree(place: str, answers: list[Answer]) -> None:
    """Does the person want that to be sent? Raises `Refused` (S05)."""
    what = "1 answer" if len(answers) == 1 else f"{len(answers)} answers"
    if not await streams.ask(f"Send {what} to {place}?"):
        raise _unsent()


def _unsent() -> Refused:
    return Refused("S05", "nothing was sent: nobody said yes to it")


async def _typed(prompt: str, *, hidden: bool = False) -> bytes:
    typed = await streams.request_line(prompt, hidden=hidden)
    if typed is None:
        raise _unsent()
    return typed


async def _line(line: AskLine) -> bytes:
    """One that is a lone period would end the form, so it is asked for again."""
    default = "" if line.default is None else f" [{line.default}]"
    hidden = line.question is AskQuestion.ASK_HIDDEN
    while (typed := await _typed(f"{line.prompt}{default} ", hidden=hidden)) == b".":
        streams.note("a lone period is no answer: it would end the form")
    return typed or (line.default or "").encode()


async def _lines(line: AskLine) -> tuple[bytes, ...]:
    default = "" if line.default is None else f" [{line.default}]"
    streams.note(f"{line.prompt}{default} (lines, and a period alone behind the last)")
    found: list[bytes] = []
    while (typed := await _typed("> ")) != b".":
        found.append(typed)
    return tuple(found) if found or line.default is None else (line.default.encode(),)


async def _choice(line: AskLine) -> bytes:
    """By its number or as it stands."""
    if not line.choices:
        raise ProtocolError(f"the form has nothing to choose from at {line.prompt!r}")
    streams.note(line.prompt)
    for number, choice in enumerate(line.choices, 1):
        streams.note(f"{number:>4}  {choice.decode('utf-8', 'replace')}")
    numbered = {b"%d" % number: choice for number, choice in enumerate(line.choices, 1)}
    while True:
        typed = await _typed(f"1 to {len(line.choices)} [1] ") or b"1"
        if typed in line.choices:
            return typed
        if typed in numbered:
            return numbered[typed]


async def _selection(line: AskLine) -> bool:
    by_default = line.default == "1"
    while True:
        typed = (await _typed(f"{line.prompt} [{'Y/n' if by_default else 'y/N'}] ")).strip().lower()
        if not typed or typed in (*_YES, *_NO):
            return typed in _YES if typed else by_default


async def _file(line: AskLine) -> bytes | None:
    while typed := await _typed(f"{line.prompt} (the path of a file here; none: an empty line) "):
        try:
            return streams.read_file(typed.decode("utf-8", "surrogateescape"), _MOST_FILE)
        except LocalError as error:
            streams.note(error.message)
    return None


_ASKING: Mapping[AskQuestion, Callable[[AskLine], Awaitable[Answer]]] = {
    AskQuestion.ASK: _line,
    AskQuestion.ASK_HIDDEN: _line,
    AskQuestion.ASK_FILE: _line,
    AskQuestion.ASK_LINES: _lines,
    AskQuestion.CHOOSE: _choice,
    AskQuestion.SELECT: _selection,
    AskQuestion.CHOOSE_FILE: _file,
}
