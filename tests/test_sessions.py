"""Sessions at a terminal match the pages of schemes, with the servers of `python -m fixtures`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trio

from fixtures.__main__ import server_tls
from tests.hang import HANG
from tests.resolver.cli.terminal import Terminal, on_terminal
from tests.test_recipes import start_servers, with_ports

CHECKOUT = Path(__file__).parents[1]
PAGES = "".join(page.read_text("utf-8") for page in sorted((CHECKOUT / "docs/schemes").glob("*.md")))
#: The command of a session, and the final content of the terminal, as far as a page shows it.
SESSION = re.compile(r"^```console\n\$ resolve (.*)\n((?:.*\n)*?)```\n", re.MULTILINE)
SHOWN = {words.split()[-1].partition(":")[0]: (words, text) for words, text in SESSION.findall(PAGES)}
#: By scheme: the end of the last row, and the input typed then.
TYPED = {
    "gopher": (
        ("What is your name? [Frodo]", "Sam\r"),
        ("What is your password?", "sesame\r"),
        (">", ".\r"),
        ("1 to 3 [1]", "2\r"),
        ("Subscribe? [Y/n]", "n\r"),
        ("[y/N]", "y\r"),
    ),
    "telnet": (
        ("login:", "guest\r"),
        ("$", "\x1d"),
        ("telnet>", "status\r"),
        ("(this client)", "size\r"),
        ("$", "bye\r"),
    ),
}

#: The telnet service prints the number of lines.
LINES = {"gopher": 48, "telnet": 24}


def test_sessions_of_pages_are_all_tested() -> None:
    assert SHOWN.keys() == TYPED.keys()
    assert len(SHOWN) == len(SESSION.findall(PAGES)) == PAGES.count("```console")


@pytest.mark.parametrize("scheme", TYPED)
async def test_session_output_equals_page(scheme: str, nursery: trio.Nursery, tmp_path: Path) -> None:
    ports = await start_servers(nursery, server_tls(tmp_path)[0])
    words, text = (with_ports(each, ports) for each in SHOWN[scheme])
    terminal = Terminal(80, LINES[scheme])
    with trio.fail_after(HANG):
        async with on_terminal(terminal, tmp_path, *words.split(), typed=True) as command:
            for end, typed in TYPED[scheme]:
                await terminal.until(lambda rows, end=end: bool(rows) and rows[-1].rstrip().endswith(end))  # type: ignore[misc]
                terminal.type(typed.encode())
            assert await command.status() == 0
    shown = [line.removesuffix(" ^]") for line in text.splitlines()]
    expected = [line[at : at + 80].rstrip() for line in shown for at in range(0, len(line), 80)]
    assert terminal.rows[: len(expected)] == expected
