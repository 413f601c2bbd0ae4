"""What would be sent for a prospero URL, as a plan: the questions of its resolution, each with its packets.

`handler` puts the same questions over ARDP. Here each is answered as a willing server would, one that
gives the contents itself; what other answers lead to is told in notes.
"""

from __future__ import annotations

from collections.abc import Generator

from protocols.options import Limits, Wanted
from protocols.prospero.ardp import Timing
from protocols.prospero.packet import MOST_TEXT, encode_piece
from protocols.prospero.reply import Answer, parse_reply
from protocols.prospero.resolution import MOST_MOVES, Ask, ask_for_links, resolve
from protocols.prospero.target import Target, target_of
from protocols.prospero.url import ProsperoUrl
from protocols.step import Connect, Dialogue, Note, Say, hear
from protocols.wire import Buffer, split_message


def converse(url: ProsperoUrl, want: Wanted = "content") -> Dialogue[None]:
    """The steps. Raises `Declined` for a URL that nothing can be asked for, `Refused` (S02)."""
    target = target_of(url)
    resolution = resolve(target, want)
    try:
        ask = next(resolution)
        while True:
            ask = resolution.send((yield from _put(ask)))
    except StopIteration:
        yield from _branches(target)


def _put(ask: Ask) -> Dialogue[Answer]:
    """One question: a socket of its own, its packets, its answer."""
    yield Connect()
    yield Note("the connection id, octets 2 and 3 of each packet, is drawn at random; here it is 0")
    pieces = split_message(ask.message, MOST_TEXT)
    for number, piece in enumerate(pieces, 1):
        yield Say((encode_piece(0, number, len(pieces), 0, piece, acknowledge=False),))
    return (yield from hear(_read_answer, ask.what, ask.ideal))


def _read_answer(buffer: Buffer) -> Generator[None, None, Answer]:
    """The text of a whole reply."""
    while not buffer.at_end:
        yield
    return parse_reply(buffer.take(), Limits())


def _branches(target: Target) -> Dialogue[None]:
    timing = Timing()
    pauses = ", ".join(f"{timing.first * 2**time:g}" for time in range(timing.retries + 1))
    yield Note(f"without an answer a packet is sent again, with pauses of {pauses} seconds")
    yield Note(
        f"an object that has moved is asked for where it is now, at most {MOST_MOVES} times; "
        "each place is judged first, as one that no person chose"
    )
    yield Note(
        "access methods are gone in the server's order: one of another scheme is a URL that is followed "
        "as far as S10 and S08 let it; where it fails, the next one"
    )
    lines = ask_for_links(target).message.shown.decode("latin-1").splitlines()[-2:]
    yield Note(f"an object without access methods is listed: {' / '.join(lines)}")
