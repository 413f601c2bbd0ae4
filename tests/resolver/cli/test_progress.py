"""Progress on a real pseudo-terminal, as a terminal emulator displays it."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import trio

from fixtures.faulty import Profile, serve
from resolver.cli import streams
from resolver.cli import streams as below
from tests.faults.command import resolve, size_of
from tests.faults.command import until as until_holds
from tests.hang import HANG, NEVER
from tests.resolver.cli.tap import Tap, open_tap
from tests.resolver.cli.terminal import CHECKOUT, Terminal, on_terminal, unsafe_bytes
from tests.sampled import sampled

#: A mebibyte, and half of it.
SIZE = 1_048_576
HALF = SIZE // 2
PATIENT = ("--idle-timeout", str(NEVER), "--connect-timeout", str(NEVER))

#: Names with terminal escapes, or with a width that differs from their number of characters.
NAMES = {
    "/bidi%E2%80%AEexe.txt": "\\u202e",
    "/%E4%B8%AD%E6%96%87%E6%96%87%E4%BB%B6.bin": "中",
    f"/zalgo{'%CC%81' * 300}": "zalg",
    f"/long-{'x' * 180}-end": "…",
    "/octets-%FF%C3": "\\xff",
    "/nothing%E2%80%8B%C2%AD": "\\u200b",
}


@pytest.fixture
async def tap(nursery: trio.Nursery) -> Tap:
    return await open_tap(nursery)


def options(tap: Tap) -> list[str]:
    return [*PATIENT, "--allow-port", str(tap.port), "--retry-delay", "0.01", "--per-host", "99"]


def bars(rows: list[str]) -> list[str]:
    """Return the progress lines, which stand below the messages."""
    return [row for row in rows if re.search(r"[▒█░]|running$|KiB/s|MiB/s|B/s|connecting| +[0-9]+%", row)]


def at_half(count: int) -> Callable[[list[str]], bool]:
    return lambda rows: sum(" 50%" in row for row in rows) == count


@pytest.mark.parametrize("columns", [40, 80, 200])
async def test_progress_has_line_per_transfer_and_total(columns: int, tap: Tap, tmp_path: Path) -> None:
    urls = [tap.add(f"/{name}.iso", SIZE) for name in ("first", "second", "third")]
    terminal = Terminal(columns)
    async with on_terminal(terminal, tmp_path, "get", *options(tap), *urls) as command:
        for name in ("first", "second"):
            tap.release(f"/{name}.iso", HALF)
        rows = await terminal.until(at_half(2))
        *lines, total = bars(rows)
        assert rows[-4:] == [*lines, total]
        assert [line.split()[0] for line in lines] == ["first.iso", "second.iso", "third.iso"]
        assert total.startswith("3 running")
        assert "1.0 MiB" in total
        if columns >= 80:
            assert "512/1024 KiB" in lines[0] or "0.5/1.0 MiB" in lines[0]
        assert max(map(len, rows[-4:])) < columns
        for name in ("first", "second", "third"):
            tap.release(f"/{name}.iso")
        assert await command.status() == 0
    assert bars(terminal.rows) == []
    text = "".join(row.ljust(columns) if len(row) == columns else f"{row}\n" for row in terminal.rows)
    assert text.count(" bytes)") == 3
    assert (terminal.screen.cursor.x, terminal.screen.cursor.y) == (0, len(terminal.rows))
    assert unsafe_bytes(terminal.octets) == b""


COLUMNS = sampled([24, 40, 80, 200], lambda columns: columns >= 80)


@pytest.mark.parametrize("columns", COLUMNS)
async def test_progress_hostile_name_uses_one_row(columns: int, tap: Tap, tmp_path: Path) -> None:
    """Each name has one row, for any characters."""
    urls = [tap.add(path, SIZE) for path in NAMES]
    terminal = Terminal(columns, 60)
    words = ["get", "-q", "--progress", "bar", "-j", "9", "-d", "here", *options(tap), *urls]
    async with on_terminal(terminal, tmp_path, *words) as command:
        for path in NAMES:
            tap.release(path, HALF)
        rows = await terminal.until(at_half(len(NAMES)))
        assert len(rows) == len(NAMES) + 1
        if columns >= 80:
            for row, part in zip(rows, NAMES.values(), strict=False):
                assert part in row
        command.process.send_signal(signal.SIGINT)
        assert await command.status() == 130
    assert terminal.rows == []
    assert unsafe_bytes(terminal.octets) == b""


#: The columns before and after, and whether the terminal wraps: each change in one of both modes.
CHANGES = sampled(
    product([(80, 40), (80, 31), (200, 50), (40, 120)], [False, True]), lambda change: change[0]
)


@pytest.mark.parametrize(("columns", "folds"), CHANGES)
async def test_progress_resize_redraws_bars(
    columns: tuple[int, int], folds: bool, tap: Tap, tmp_path: Path
) -> None:
    before, after = columns
    urls = [tap.add(f"/{name}", SIZE) for name in ("one", "two")]
    terminal = Terminal(before, 40, folds=folds)
    async with on_terminal(
        terminal, tmp_path, "get", *options(tap), "-q", "--progress", "bar", *urls
    ) as command:
        for name in ("one", "two"):
            tap.release(f"/{name}", HALF)
        await terminal.until(at_half(2))
        terminal.resize(after)
        tap.release("/one", HALF + SIZE // 4)
        rows = await terminal.until(lambda rows: any(" 75%" in row for row in rows))
        assert [row.split()[0] for row in rows] == ["one", "two", "2"]
        assert max(map(len, rows)) < after
        command.process.send_signal(signal.SIGTERM)
        assert await command.status() == 143
    assert terminal.rows == []


async def test_progress_messages_are_above_bars(tap: Tap, tmp_path: Path) -> None:
    """Messages about a failed and a finished transfer are above the bars, and so is standard output.

    Standard output is the same terminal.
    """
    urls = [tap.add(f"/{name}", SIZE) for name in ("slow", "fails", "done")]
    terminal = Terminal(100, 60)
    async with on_terminal(terminal, tmp_path, "get", "--json", "-t", "1", *options(tap), *urls) as command:
        for name in ("slow", "fails", "done"):
            tap.release(f"/{name}", HALF)
        await terminal.until(at_half(3))
        tap.close_connection("/fails")
        await terminal.until(lambda rows: any("fails" in row and "1048576 bytes" in row for row in rows))
        tap.release("/done")
        rows = await terminal.until(
            lambda rows: (
                b'"status": "done"' in terminal.octets
                and len(bars(rows)) == 2
                and "1 done, 1 failed, 1 running" in rows[-1]
            )
        )
        assert rows[-2].startswith("slow ")
        assert len(rows) > 4
        tap.release("/slow")
        assert await command.status() == 10
    assert bars(terminal.rows) == []
    shown = re.sub(rb"\x1b\[[^a-zA-Z]*[a-zA-Z]", b"", terminal.octets).decode()
    records = [json.loads(result) for result in re.findall(r'\{"url".*\}', shown)]
    assert sorted(record["status"] for record in records) == ["done", "done", "failed"]


async def test_progress_bytes_of_earlier_run_are_shaded(tap: Tap, tmp_path: Path) -> None:
    """Bytes of an earlier run are shaded; a retry within a run is the same transfer."""
    url = tap.add("/object", SIZE)
    first = Terminal(80)
    async with on_terminal(first, tmp_path, "get", *options(tap), url) as command:
        tap.release("/object", HALF)
        (line,) = bars(await first.until(at_half(1)))
        assert "█░" in line
        assert "▒" not in line
        command.process.send_signal(signal.SIGINT)
        assert await command.status() == 130
    second = Terminal(80)
    async with on_terminal(second, tmp_path, "get", *options(tap), url) as command:
        tap.release("/object", HALF + SIZE // 4)
        (line,) = bars(await second.until(lambda rows: any(" 75%" in row for row in rows)))
        resumed, octets, missing = (line.count(glyph) for glyph in "▒█░")
        assert abs(resumed - 2 * octets) <= 2
        assert abs(octets - missing) <= 2
        tap.release("/object")
        assert await command.status() == 0
    assert bars(second.rows) == []


async def test_progress_without_size_shows_bytes_and_rate(tap: Tap, tmp_path: Path) -> None:
    url = tap.add("/endless", SIZE, has_size=False)
    terminal = Terminal(80)
    async with on_terminal(
        terminal, tmp_path, "get", "-q", "--progress", "bar", *options(tap), url
    ) as command:
        tap.release("/endless", HALF)
        (line,) = await terminal.until(lambda rows: any("512 KiB" in row for row in rows))
        assert re.fullmatch(r"endless +512 KiB +[0-9.]+ [KM]?i?B/s", line)
        tap.close_connection("/endless")
        assert await command.status() == 0
    assert terminal.rows == []


async def test_progress_rows_fit_screen(tap: Tap, tmp_path: Path) -> None:
    """Transfers without a row are part of the total; no row scrolls out of reach."""
    urls = [tap.add(f"/{number}", SIZE) for number in range(12)]
    terminal = Terminal(60, 6)
    words = ["get", "-q", "--progress", "bar", "-j", "12", *options(tap), *urls]
    async with on_terminal(terminal, tmp_path, *words) as command:
        for number in range(12):
            tap.release(f"/{number}", HALF)
        rows = await terminal.until(lambda rows: at_half(4)(rows) and "12 running" in rows[-1])
        assert len(rows) == 5
        command.process.send_signal(signal.SIGINT)
        assert await command.status() == 130
    assert terminal.rows == []


@pytest.mark.parametrize("ending", ["fails", "SIGINT", "SIGTERM"])
async def test_progress_is_erased_at_end(ending: str, tap: Tap, tmp_path: Path) -> None:
    url = tap.add("/object", SIZE)
    terminal = Terminal(80)
    async with on_terminal(terminal, tmp_path, "get", "-t", "1", *options(tap), url) as command:
        tap.release("/object", HALF)
        await terminal.until(at_half(1))
        if ending == "fails":
            tap.close_connection("/object")
        else:
            command.process.send_signal(signal.Signals[ending])
        assert await command.status() == {"fails": 10, "SIGINT": 130, "SIGTERM": 143}[ending]
    assert bars(terminal.rows) == []
    assert ending != "fails" or terminal.rows[0].startswith("resolve: ")
    assert terminal.screen.cursor.x == 0


async def test_progress_is_cleared_before_password_prompt(
    tap: Tap, nursery: trio.Nursery, tmp_path: Path
) -> None:
    asking = await serve(nursery, "ftp", b"octets", Profile(login=True))
    url = tap.add("/slow", SIZE)
    terminal = Terminal(80)
    words = ["get", *options(tap), "--allow-port", str(asking.port), "-j", "1", url, asking.url("me@")]
    async with on_terminal(terminal, tmp_path, *words) as command:
        tap.release("/slow", HALF)
        await terminal.until(at_half(1))
        tap.release("/slow")
        rows = await terminal.until(lambda rows: "password of me at" in "".join(rows[-1:]))
        assert bars(rows) == []
        command.process.send_signal(signal.SIGINT)
        assert await command.status() == 130


async def test_progress_is_not_drawn_during_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, answers = Terminal(80), list[bool]()

    async def ask() -> None:
        answers.append(await streams.ask("remove it?"))

    monkeypatch.setattr(streams, "_terminal", lambda: os.dup(terminal.slave))
    with io.TextIOWrapper(io.FileIO(terminal.slave, "w")) as stderr, trio.fail_after(HANG):
        monkeypatch.setattr(sys, "stderr", stderr)
        below.draw(["a bar"])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await terminal.until(lambda rows: rows == ["remove it? [y/N]"])
            below.draw(["a bar"])
            terminal.type(b"y\n")
        below.draw(["a bar"])
        await terminal.until(lambda rows: rows == ["remove it? [y/N] y", "a bar"])
        below.clear()
        assert answers == [True]
    os.close(terminal.master)


@pytest.mark.parametrize(
    ("options_", "variables"),
    [(["-q"], {}), (["--progress", "none"], {}), ([], {"TERM": "dumb"}), (["-q", "--progress", "auto"], {})],
    ids=" ".join,
)
async def test_progress_is_off_if_quiet_or_dumb_terminal(
    options_: list[str], variables: dict[str, str], tap: Tap, tmp_path: Path
) -> None:
    url = tap.add("/object", SIZE)
    terminal = Terminal(80)
    async with on_terminal(
        terminal, tmp_path, "get", *options_, *options(tap), url, variables=variables
    ) as command:
        tap.release("/object", HALF)
        await until_holds(lambda: size_of(tmp_path / "object.part") == HALF)
        tap.release("/object")
        assert await command.status() == 0
    assert b"\x1b" not in terminal.octets


@pytest.mark.parametrize("progress", ["auto", "bar"])
async def test_progress_to_file_is_not_drawn(progress: str, tap: Tap, tmp_path: Path) -> None:
    """Standard error is a file."""
    url = tap.add("/object", SIZE)
    async with resolve(tmp_path, "get", "--progress", progress, *options(tap), url) as running:
        tap.release("/object", HALF)
        await until_holds(lambda: size_of(tmp_path / "object.part") == HALF)
        tap.release("/object")
        assert await running.status() == 0
    assert b"\x1b" not in running.err
    assert running.err.count(b"\n") == 1  # the line with the saved path


@pytest.mark.parametrize("where", ["terminal", "pipe", "file"])
async def test_progress_of_cat_depends_on_standard_output(where: str, tap: Tap, tmp_path: Path) -> None:
    """A bar is drawn only if the body goes to a file, or to a pipe and `--progress bar` was given."""
    url = tap.add("/object", SIZE)
    terminal = Terminal(80)
    reader, writer = os.pipe()
    with open(tmp_path / "out", "wb") as file:  # noqa: ASYNC230
        stdout = {"terminal": None, "pipe": writer, "file": file.fileno()}[where]
        words = ["--progress", "bar"] if where == "pipe" else ["--allow-raw"]
        async with on_terminal(
            terminal, tmp_path, "cat", *words, *options(tap), url, stdout=stdout
        ) as command:
            tap.release("/object", HALF // 16)
            if where == "terminal":
                await terminal.until(lambda rows: terminal.octets.count(b"\0") == HALF // 16)
            else:
                await terminal.until(lambda rows: any("  3%" in row for row in rows))
            command.process.send_signal(signal.SIGINT)
            assert await command.status() == 130
    os.close(reader)
    os.close(writer)
    assert bars(terminal.rows) == []
    assert (b"\x1b" in terminal.octets) == (where != "terminal")


async def test_progress_dots_and_json_are_written_to_pipe(tap: Tap, tmp_path: Path) -> None:
    url = tap.add("/object", SIZE)
    tap.release("/object")
    async with resolve(tmp_path, "get", "-q", "--progress", "dot", *options(tap), url) as running:
        assert await running.status() == 0
    lines = running.err.decode().splitlines()
    dots = [line.partition("B ")[2].rpartition(" ")[0] for line in lines]
    assert sum(line.count(".") for line in dots) == SIZE // 1024
    assert lines[-1].endswith("100%")
    assert all(line.startswith("object: ") for line in lines)
    os.unlink(tmp_path / "object")
    async with resolve(tmp_path, "get", "-q", "--progress", "json", *options(tap), url) as running:
        assert await running.status() == 0
    records = [json.loads(line) for line in running.err.splitlines()]
    assert {(record["transfer"], record["url"]) for record in records} == {(1, url)}
    assert [record["event"] for record in records[:1] + records[-2:]] == ["started", "progress", "finished"]
    assert records[-2]["received"] == records[-2]["expected"] == SIZE


def test_progress_modules_do_not_import_rich() -> None:
    code = "import sys, resolver.cli.retrieval_run, resolver.cli.progress; print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True)
    assert done.stdout == b"False\n"
