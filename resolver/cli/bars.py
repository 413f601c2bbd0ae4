"""Progress bars: one line per transfer and one line for the total, as wide as the terminal.

The library rich calculates the width of characters and detects the colors of a terminal. This module is
imported only before the first bar, because short runs do not need rich. The module `streams` draws the lines.
"""

from __future__ import annotations

from io import StringIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from resolver.cli.streams import can_encode
from resolver.cli.transfers import TransferProgress, TransferTracker, countdown, format_sizes, octets
from resolver.terminal.text import cut_to_width

#: The time in seconds before a transfer gets a progress bar. A user could not read the bar of a shorter
#: transfer.
_MIN_AGE = 0.3

#: The minimum number of columns for the file name and the bar together. Other figures, such as the transfer
#: rate, are shown only if this minimum remains.
_MIN_WIDTH = 25
_MIN_BAR = 6

#: The characters of a progress bar: for the bytes of an earlier run, for the received bytes, and for the
#: missing bytes. `_ASCII_GLYPHS` is for terminals that cannot show block characters.
_GLYPHS = ("▒", "█", "░")
_ASCII_GLYPHS = ("+", "=", ".")
_STYLES = ("cyan", "green", "bright_black")


class Bars:
    """A formatter of transfers as progress bars; `encoding` is the encoding of standard error."""

    def __init__(self, encoding: str) -> None:
        self._console = Console(file=StringIO(), force_terminal=True, highlight=False, emoji=False)
        self._glyphs = _GLYPHS if can_encode("".join(_GLYPHS) + "…", encoding) else _ASCII_GLYPHS

    @property
    def is_dumb(self) -> bool:
        """Return whether the terminal cannot draw lines (TERM=dumb)."""
        return self._console.is_dumb_terminal

    def lines(self, transfers: TransferTracker, size: tuple[int, int], now: float) -> list[str]:
        """Return one line per transfer.

        The number of lines is limited by the height of the terminal.

        If the run has several transfers, the last line is the total. Lines are one column narrower than the
        terminal, because the terminal may show a name wider than calculated.
        """
        columns, rows = max(1, size[0] - 1), max(1, size[1] - 1)
        shown = [transfer for transfer in transfers.under_way() if now - transfer.started >= _MIN_AGE]
        longest = max((cell_len(transfer.name) for transfer in shown), default=0)
        texts = [self._line(transfer, columns, longest, now) for transfer in shown]
        if transfers.count > 1:
            texts = [*texts[: rows - 1], self._total(transfers, columns, now)]
        return [self._draw_text(text, columns) for text in texts[:rows]]

    def _draw_text(self, text: Text, columns: int) -> str:
        with self._console.capture() as drawn:
            self._console.print(text, end="", width=columns, no_wrap=True, overflow="crop")
        return drawn.get()

    def _line(self, transfer: TransferProgress, columns: int, longest: int, now: float) -> Text:
        figures = _figures(transfer, now, columns - _MIN_WIDTH)
        room = columns - len(figures)
        name = min(longest, room // 2)
        bar = room - name - 1
        if bar < _MIN_BAR:
            return Text.assemble(self._fit(transfer.name, room), figures)
        return Text.assemble(self._fit(transfer.name, name), " ", self._bar(transfer, bar, now), figures)

    def _bar(self, transfer: TransferProgress, width: int, now: float) -> Text:
        if transfer.state == "connecting":
            return Text(self._fit("connecting", width), style="dim")
        if transfer.state == "waiting":
            return Text(self._fit(f"retry in {countdown(transfer.until - now)}", width), style="yellow")
        if transfer.expected is None:
            return Text(" " * width)
        resumed = _scale(transfer.start or 0, transfer.expected, width)
        received = _scale(transfer.received, transfer.expected, width) - resumed
        parts = (resumed, received, width - resumed - received)
        return Text.assemble(
            *((glyph * part, style) for glyph, part, style in zip(self._glyphs, parts, _STYLES, strict=True))
        )

    def _total(self, transfers: TransferTracker, columns: int, now: float) -> Text:
        under_way = transfers.under_way()
        counts = [f"{transfers.done} done", f"{transfers.failed} failed", f"{len(under_way)} running"]
        words = ", ".join(count for count in counts if not count.startswith("0 "))
        rate = sum(filter(None, (transfer.rate(now) for transfer in under_way)))
        figures = f"  {octets(transfers.brought)}  {octets(int(rate))}/s"
        return Text.assemble((self._fit(words, columns - len(figures)), "bold"), figures)

    def _fit(self, text: str, width: int) -> str:
        """Pad a text, or shorten it in the middle, because similar names often differ at the end."""
        if cell_len(text) <= width:
            return set_cell_size(text, width)
        if width < 5:
            return set_cell_size(text, max(0, width))
        ellipsis = "…" if self._glyphs is _GLYPHS else "~"
        tail = cut_to_width(text[::-1], (width - 1) // 2, cell_len)[::-1]
        return set_cell_size(text, width - 1 - cell_len(tail)) + ellipsis + tail


def _figures(transfer: TransferProgress, now: float, room: int) -> str:
    """Format the figures of a transfer, right-aligned in `room` columns.

    The percentage is always shown. Time left, rate and bytes are added in this order if they fit.
    """
    rate, remaining, total = transfer.rate(now), transfer.estimate_remaining(now), transfer.expected
    percent = "" if not total else f"{min(100, transfer.received * 100 // total)}%"
    amount = octets(transfer.received) if total is None else format_sizes(transfer.received, total)
    columns = [
        ("percent", f" {percent:>4}"),
        ("left", f" {'' if remaining is None else countdown(remaining):>8}"),
        ("rate", f" {'' if rate is None else octets(int(rate)) + '/s':>10}"),
        ("amount", f" {'' if transfer.state == 'connecting' else amount:>13}"),
    ]
    shown: dict[str, str] = {}
    for name, text in columns:
        room -= len(text)
        if shown and room < 0:
            break
        shown[name] = text
    return "".join(shown.get(name, "") for name in ("percent", "amount", "rate", "left"))


def _scale(octets: int, total: int, width: int) -> int:
    return width if octets >= total else octets * width // total
