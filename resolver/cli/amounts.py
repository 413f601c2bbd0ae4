"""Octets and seconds in the few characters that a person reads at a glance: 12.3 MiB, 3:25, 3 min."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def octets(count: int) -> str:
    """`12.3 MiB`; at most 8 characters below 1024 EiB."""
    factor, unit = _unit_of(count)
    return f"{_figures(count, factor)} {unit}"


def octets_of(count: int, whole: int) -> str:
    """`1.2/45.6 MiB`, in the unit of the whole; at most 13 characters."""
    factor, unit = _unit_of(whole)
    return f"{_figures(count, factor)}/{_figures(whole, factor)} {unit}"


def _unit_of(count: int) -> tuple[int, str]:
    steps = min(max(0, count.bit_length() - 1) // 10, len(_UNITS) - 1)
    return 1024**steps, _UNITS[steps]


def _figures(count: int, factor: int) -> str:
    """Rounded down: what is not all there does not read as if it were."""
    if factor == 1 or count >= 100 * factor:
        return str(count // factor)
    tenths = count * 10 // factor
    return f"{tenths // 10}.{tenths % 10}"


def countdown(seconds: float) -> str:
    """`0:07`, `1:02:03`; `days` beyond what a clock shows. At most 8 characters."""
    left = int(seconds + 0.999)
    if left >= 360_000:
        return "days"
    minutes, rest = divmod(left, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min`, `2 h 5 min`: what is over and done."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
