"""What is known of a place from this run: has it been heard from?

A port that refuses, a name that nobody has and a peer that never says a word will most likely be the same in
a minute (`NetworkError.lasting`), unless there was contact before: then what keeps the place from answering
may pass.
"""

from __future__ import annotations

from protocols.errors import NetworkError

#: Places kept at most: a crawl of very many hosts must not grow without end.
CAPACITY = 4096


class Contact:
    """With one place. `made`: an octet came from there."""

    __slots__ = ("made",)

    def __init__(self) -> None:
        self.made = False

    def judged(self, error: NetworkError) -> NetworkError:
        """Nothing that goes wrong is lasting once contact was made."""
        return error.passing() if self.made and error.lasting else error


class Contacts(dict[tuple[str, int], Contact]):
    """Those of a run, by host and port; one that is looked for is there."""

    def __missing__(self, place: tuple[str, int]) -> Contact:
        if len(self) >= CAPACITY:
            del self[next(iter(self))]
        contact = self[place] = Contact()
        return contact
