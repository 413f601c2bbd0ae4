"""The pictures of the page on benchmarks, drawn from its `sweeps.json` by matplotlib (group `plots`).

`python -m bench.plots [FOLDER]` writes the pictures as SVG. The output is reproducible, because dates and
random IDs are omitted. Each picture has a checksum of its data near the start, so that a test can detect a
stale picture without drawing it. Text is not converted to paths. The colors are CSS variables that follow the
light or dark mode of the reader.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.sweeps import Panel

SPEED = Path(__file__).parents[1] / "docs/explanation/benchmarks"
DATA = SPEED / "sweeps.json"

#: The names of the panels of each picture, by the name of the picture.
PICTURES: Mapping[str, Sequence[str]] = {
    "concurrency": ("http", "gopher"),
    "latency": ("http-far", "gopher-far", "ftp-far", "nntp-far"),
}

#: The style of each client: its colors in light and dark mode, and the marker of its points.
_STYLES: Mapping[str, tuple[str, str, str]] = {
    "resolver": ("#c2410c", "#fb923c", "o"),
    "resolver, one at a time": ("#c2410c", "#fb923c", "o"),
    "resolver, four at once": ("#a21caf", "#e879f9", "s"),
    "resolver, 32 at once": ("#a21caf", "#e879f9", "s"),
    "curl -Z": ("#1d4ed8", "#60a5fa", "^"),
    "curl, one connection": ("#1d4ed8", "#60a5fa", "^"),
    "aiohttp": ("#15803d", "#4ade80", "D"),
    "h11 on trio, bare": ("#57606a", "#a8b1bb", "x"),
    "trio, bare": ("#57606a", "#a8b1bb", "x"),
    "requests, in threads": ("#854d0e", "#facc15", "v"),
    "httpx on trio": ("#0f766e", "#2dd4bf", "P"),
    "nntplib": ("#15803d", "#4ade80", "D"),
}
#: The maximum length of a name in a legend with three columns, in characters.
_SHORT = 20
_INK, _PAPER, _FAINT = ("#1f2328", "#e6edf3"), ("#ffffff", "#0d1117"), ("#d8dee4", "#30363d")


def compute_checksum(octets: bytes, name: str) -> str:
    """Return the checksum of a picture's name and data."""
    return hashlib.sha256(name.encode() + b"\n" + octets).hexdigest()


def draw(octets: bytes, name: str) -> bytes:
    """Draw the data as an SVG picture."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    panels = {panel["name"]: panel for panel in json.loads(octets)["panels"]}
    selected = [panels[panel_name] for panel_name in PICTURES[name] if panels[panel_name]["lines"]]
    settings = {"svg.hashsalt": name, "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10}
    with matplotlib.rc_context(settings):
        rows = (len(selected) + 1) // 2
        figure = Figure(figsize=(11, 4.8 * rows), layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15))
        for number, panel in enumerate(selected):
            _draw_panel(figure.add_subplot(rows, 2, number + 1), panel)
        picture = io.BytesIO()
        figure.savefig(picture, format="svg", facecolor=_PAPER[0], metadata={"Date": None, "Creator": None})
    source = f"{compute_checksum(octets, name)} by matplotlib {matplotlib.__version__}"
    return _add_style(picture.getvalue(), source)


def _draw_panel(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import LogLocator

    for line in panel["lines"]:
        color, _, marker = _STYLES[line["name"]]
        is_resolver = line["name"].startswith("resolver")
        places = range(len(panel["places"]))
        points = [(place, value) for place, value in zip(places, line["values"], strict=True) if value]
        axes.plot(
            [place for place, _ in points],
            [value for _, value in points],
            color=color,
            marker=marker,
            linewidth=2.6 if is_resolver else 1.4,
            markersize=6 if is_resolver else 5,
            label=line["name"],
        )
    axes.set_facecolor(_PAPER[0])
    axes.set_yscale("log")
    axes.set_title(panel["title"], color=_INK[0], loc="left", fontsize=11, fontweight="bold")
    axes.set_xticks(range(len(panel["places"])), [str(place) for place in panel["places"]])
    label = "fetches at once" if panel["across"] == "at once" else "ms of a round trip to the server"
    axes.set_xlabel(label, color=_INK[0])
    axes.set_ylabel(panel["unit"], color=_INK[0])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.yaxis.set_minor_formatter(lambda value, _: "")
    axes.tick_params(colors=_INK[0], which="both")
    axes.grid(True, color=_FAINT[0], linewidth=0.8)
    for side in axes.spines.values():
        side.set_color(_FAINT[0])
    columns = 3 if all(len(line["name"]) <= _SHORT for line in panel["lines"]) else 2
    # below the panel, where the legend does not hide lines
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.15)}
    legend = axes.legend(fontsize=9, ncols=columns, frameon=False, **place)
    for text in legend.get_texts():
        text.set_color(_INK[0])


def _add_style(picture: bytes, source: str) -> bytes:
    """Replace colors by CSS variables, and add the checksum of the data."""
    pairs = sorted({_INK, _PAPER, _FAINT, *((light, dark) for light, dark, _ in _STYLES.values())})
    text = picture.decode()
    for number, (light, _) in enumerate(pairs):
        text = text.replace(light, f"var(--c{number})")
    light_css = "".join(f"--c{number}:{light};" for number, (light, _) in enumerate(pairs))
    dark_css = "".join(f"--c{number}:{dark};" for number, (_, dark) in enumerate(pairs))
    style = f"<style>:root{{{light_css}}}@media(prefers-color-scheme:dark){{:root{{{dark_css}}}}}</style>"
    head, separator, rest = text.partition(" <defs>")
    assert separator
    lines = f"{head} <!-- drawn from {source} -->\n {style}\n{separator}{rest}".splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines).encode()


def main(folder: Path = SPEED) -> None:
    octets = DATA.read_bytes()
    for name in PICTURES:
        (folder / f"{name}.svg").write_bytes(draw(octets, name))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
