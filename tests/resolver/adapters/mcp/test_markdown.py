"""HTML pages as Markdown: the preserved content, the removed content, and the limits for hostile pages."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
import trio

from resolver.adapters.mcp import markdown
from resolver.adapters.mcp.markdown import ConversionLimit, MarkdownPage, convert_html, is_html
from resolver.adapters.mcp.markdown_worker import convert
from tests.hang import HANG

URL = "http://h.example/dir/page.html"


async def converted(source: str, url: str) -> MarkdownPage | None:
    return await convert_html(source, url, ConversionLimit())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<h1>Tea</h1><h2>Green &amp; black</h2>", "# Tea\n\n## Green & black"),
        ('<p>a <a href="x?y=1&amp;z=2">b</a></p>', "a [b](http://h.example/dir/x?y=1&z=2)"),
        ('<base href="/b/"><a href="c">d</a>', "[d](http://h.example/b/c)"),
        ('<img src="/i.png" alt="pic">', "![pic](http://h.example/i.png)"),
        ("<ul><li>a<ul><li>b</ul></ul><ol start=3><li>c</ol>", "- a\n  - b\n\n3. c"),
        ("<table><tr><th>a<th>b<tr><td>1|2<td>3</table>", "| a | b |\n| --- | --- |\n| 1\\|2 | 3 |"),
        (
            "<table><tr><td><h1>T</h1><td><p>a<table><tr><th>b<th>c<tr><td>1<td>2</table></table>",
            "# T\n\na\n\n| b | c |\n| --- | --- |\n| 1 | 2 |",
        ),
        ('<pre><code class="language-py">a  = 1\n</code></pre>', "```py\na  = 1\n```"),
        ("<p>use <code>x</code>, <b>not</b> <i>y</i></p>", "use `x`, **not** *y*"),
        ("<p>a</p><script>alert(1)</script><style>b{}</style><template>c</template>", "a"),
        ("<p>a</p><p hidden>b</p><p aria-hidden=true>c</p><svg><text>d</text></svg>", "a"),
        ("<p>a</p><p style='Display : none'>b<p style='color:red;visibility:hidden'>c", "a"),
        ("<p style='display:block'>a</p>", "a"),
        ('<a href=" javascript:alert(1)">a</a> <a href="data:text/html,x">b</a>', "a b"),
        ("<nav>menu</nav><main><p>text</p></main><footer>foot</footer>", "text\n\n---\n\nmenu\n\nfoot"),
        ("<nav>menu</nav><div role=main>text</div>", "text\n\n---\n\nmenu"),
        ("", ""),
    ],
)
def test_convert_keeps_content_and_drops_hidden_elements(source: str, expected: str) -> None:
    assert convert(source, URL)["text"] == expected


def test_convert_without_main_element_finds_main_text() -> None:
    text = "Loose-leaf tea steeps best just off the boil, and never for more than five minutes. " * 3
    links = "<a href=/a>Home</a> <a href=/b>About</a>"
    page = (
        f"<title> A\n page </title><div class=nav>{links}</div><article><h1>Tea</h1><p>{text}</p></article>"
    )
    found = convert(page, URL)
    assert found["title"] == "A page"
    assert str(found["text"]).startswith("# Tea\n\nLoose-leaf")
    assert "[About](http://h.example/b)" in str(found["text"])


@pytest.mark.parametrize("url", ["", "page.html", f"http://h.example/{'x' * 5_000}/"])
def test_convert_without_usable_url_keeps_relative_links(url: str) -> None:
    assert convert("<a href=x>b</a>", url)["text"] == "[b](x)"


@pytest.mark.parametrize(
    ("media_type", "expected"),
    [
        ("text/html", True),
        ("Text/HTML; charset=utf-8", True),
        ("application/xhtml+xml", True),
        ("text/plain", False),
        (None, False),
    ],
)
def test_is_html_reads_type_without_parameters(media_type: str | None, expected: bool) -> None:
    assert is_html(media_type) is expected


@pytest.mark.parametrize("loop", ["trio", "asyncio"])
def test_convert_html_in_process_returns_page(loop: str) -> None:
    page = anyio.run(converted, "<title>T</title><p>\ud800é</p>", URL, backend=loop)
    assert page is not None
    assert (page.title, page.text) == ("T", "?é")


#: Pages whose conversion takes a long time or much memory in other converters.
HOSTILE: dict[str, Callable[[], str]] = {
    "deep": lambda: "<div>x" * 870_000,
    "formatting": lambda: "<a><b><i><p>" * 100_000,
    "tables": lambda: "<table><tr><td>x" * 100_000,
    "spans": lambda: "<table>" + "<tr><td colspan=1000 rowspan=65534>x" * 100_000,
    "attributes": lambda: "<a " + " ".join(f"a{number}=1" for number in range(400_000)) + ">x",
    "comments": lambda: "<!--" * 1_300_000,
    "hidden": lambda: "<div hidden>" * 400_000,
    "quotes": lambda: "<blockquote>" * 400 + "<p>x" * 1_200_000,
    "marks": lambda: "<" * 5_242_880,
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_convert_html_of_hostile_page_is_bounded(name: str) -> None:
    """The worker process ends within its limits for memory, processor time and output size."""
    page = await converted(HOSTILE[name](), URL)
    assert page is None or len(page.text) <= 8_388_608


def make_worker(tmp_path: Path, body: str) -> str:
    """Write a worker program that sets the limits of the real worker, and then runs `body`."""
    path = tmp_path / "worker.py"
    path.write_text(f"import os, sys, resource\n{body}\n")
    return str(path)


@pytest.mark.parametrize(
    "body",
    ["sys.exit(1)", "os.kill(os.getpid(), 9)", "sys.stdin.close(); os._exit(3)", "raise MemoryError"],
)
async def test_convert_html_after_crash_returns_none(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(markdown, "_WORKER", make_worker(tmp_path, body))
    assert await converted("<p>a" * 100_000, URL) is None
    capfd.readouterr()


async def test_convert_html_without_interpreter_returns_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert await converted("<p>a", URL) is None


async def test_convert_html_cancelled_ends_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    body = (
        f"file = open({str(pipe)!r}, 'w'); file.write('x'); file.flush(); sys.stdin.read(); os.pause() "
        "if hasattr(os, 'pause') else __import__('signal').pause()"
    )
    monkeypatch.setattr(markdown, "_WORKER", make_worker(tmp_path, body))

    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(converted, "<p>a", URL)
            file = await trio.to_thread.run_sync(pipe.open, "rb", 0)
            with file:
                assert await trio.to_thread.run_sync(file.read, 1) == b"x"
                nursery.cancel_scope.cancel()
                with trio.CancelScope(shield=True):  # the pipe ends when the worker has ended
                    assert await trio.to_thread.run_sync(file.read) == b""


async def test_convert_html_runs_two_processes_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    body = (
        f"file = open({str(pipe)!r}, 'wb', 0); file.write(b'x'); sys.stdin.read(); os.kill(os.getpid(), 19)"
    )
    monkeypatch.setattr(markdown, "_WORKER", make_worker(tmp_path, body))
    limit = ConversionLimit()
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(convert_html, "<p>a", URL, limit)
            file = await trio.to_thread.run_sync(pipe.open, "rb", 0)
            with file:
                started = b""
                while len(started) < 2:
                    started += await trio.to_thread.run_sync(file.read, 1)
                statistics = limit.turns.statistics()
                assert (statistics.borrowed_tokens, statistics.tasks_waiting) == (2, 1)
                nursery.cancel_scope.cancel()
