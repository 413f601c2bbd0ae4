"""Texts for people contain no Python literals: no `b'…'`, no `{'…'`, no `None` and no `True`.

Each command runs with URLs of each scheme, valid and invalid, against good servers and servers that send
garbage. The test checks the text output, not the bytes of a document and not `--json`. A plug-in of mypy
checks other texts; it is tested here, too.
"""

from __future__ import annotations

import re
from pathlib import Path

import mypy.api
import pytest

from tests import octets_in_text
from tests.resolver.cli import contract
from tests.resolver.cli.command import resolve
from tests.sampled import sampled

PYTHONS_WAY = re.compile(
    r"""(?:^|(?<=[\s(\[{,]))b['"]  # octets
    | [\[{(]b?(['"])[^'"\n]*\1[,:\])}]  # texts or octets in something
    | \b(?:None|True|False)\b
    | <\w+[ ]object""",
    re.VERBOSE | re.MULTILINE,
)

#: URLs by scheme that no row of the contract has, for their messages.
ODD = (
    *(
        "{ftp_garbage}/a",
        "{ftp_unasked}/a",
        "{ftp}/pub/;type=d",
        "{ftp}/%FF%FE;type=i",
        "ftp://h.example/;type=i",
    ),
    *("{gopher_odd}/1", "{gopher_refusal}/0x%09%09+", "{gopher}/00/story%09%09!", "{gopher}/11/sub%09%09$"),
    *("{gopher}/00/poll%09%09?", "{gopher}/00/story%09%09!+SMELL", "gopher://h.example/hURL:x:y"),
    *("gopher://h.example/0a%09%09+%091%0D%0A", "gopher://h.example/0%FF%09%09!+A%0D"),
    *("{wais_garbage}/db", "{wais_armored}/db", "{wais_other}/db?x", "{wais}/demo", "{wais}/nowhere?x"),
    *("{wais}/demo/TEXT/%02%01x%FF", "{wais}/demo/TEXT/", "{wais}/d%40b", "{wais}/demo/%FF/%FF"),
    *(
        "{nntp_garbage}/a.b/1",
        "{nntp}/comp.misc/1234",
        "{nntp}/a%FFb/1",
        "news:%FF@h",
        "news:a@@b",
        "news:b%00@h",
    ),
    *(
        "{prospero}/x;HOST-TYPE=X%FF",
        "{prospero}/x;OBJECT-VERSION=%FF",
        "{prospero}//example",
        "{prospero}/%FF",
    ),
    *(
        "{prospero}/AFTP/pub/hello.txt;a=b;c",
        "{http}/%FF",
        "{http}/about.txt?%FF",
        "mailto:%FF@h",
        "mailto:a%00@b",
    ),
    *(
        "file:///%FF%FE",
        "file:///a%00b",
        "{file}/",
        "telnet://%FF@h.example/",
        "x-foo:%FF",
        "mid:%FF",
        "\udcff",
    ),
    *("http://[::1%FF]/", "http://%FF/", "http://xn--\xff/", "//h/", "", "ftp://h.example/a;type=x"),
)
ALL = sorted(
    {*ODD, *contract.DOCUMENTS, *contract.LISTINGS, *contract.SHOWN, *(end.url for end in contract.ENDS)}
)
#: Some URLs of each server or scheme.
URLS = sampled(ALL, lambda url: url.partition("/")[0].partition(":")[0], 2)
PATIENT = ("-t", "1", "--idle-timeout", "0.2")


@pytest.mark.parametrize("url", URLS, ids=ascii)
def test_text_output_contains_no_python_literals(url: str, at: dict[str, str], folder: Path) -> None:
    address = url.format_map(at)
    for verb in ("info", "ls", "explain", "parse", "get"):
        more = () if verb in ("explain", "parse") else PATIENT
        done = resolve(verb, *more, address, folder=folder)
        # A saved document belongs to the peer.
        read = done.err if verb == "get" else done.out + done.err
        text = read.decode("utf-8", "replace").replace(address, "")
        assert PYTHONS_WAY.search(text) is None, (verb, text)


def test_pattern_matches_python_literals() -> None:
    values = (
        b"a",
        b"it's",
        {"a": 1},
        {b"a": 1},
        ["a"],
        [b"a"],
        ("a", 1),
        (b"a", 1),
        None,
        True,
        False,
        object(),
    )
    for value in values:
        assert PYTHONS_WAY.search(f"it was {value!r} then"), value
    for text in ("'USER me'", "b", "web's", "{a}", "[::1]", "(try later)", "None-such", "job 'x'"):
        assert text == "None-such" or PYTHONS_WAY.search(f"it was {text} then") is None, text


#: Expressions in a module, and whether the plug-in accepts them.
OUTPUTS = [
    ('f"{a!r}"', False),
    ('f"a {a}"', False),
    ('f"{d} b"', False),
    ('f"a {e!r:>4}"', False),
    ("repr(a)", False),
    ('f"{f!r} b"', False),
    ('f"{a[0]} {len(a)}"', True),
    ('f"{a.decode()!r}"', True),
    ("str(a, 'ascii')", True),
    ('" ".join(e)', True),
    ("repr(e[0])", True),
]


#: The same for texts that are claimed to contain no secret: `m` is masked, `u` and `o` are of unknown origin.
CLAIMED = [
    ("Masked('none')", True),
    ("Masked(f'{m}: {n} of {k.A} {m!r:>9}')", True),
    ("Masked(m[:3] + ' or ' + (m if n else ''))", True),
    ("Masked(', '.join(ms))", True),
    ("Masked(f'{m.strip()}')", True),
    ("Masked(u)", False),
    ("Masked(f'{m}: {u}')", False),
    ("Masked(m + u)", False),
    ("Masked(m if n else u)", False),
    ("Masked(', '.join(us))", False),
    ("Masked(m.replace('a', u))", False),
    ("Masked(u.strip())", False),
    ("Masked(str(o))", False),
    ("Masked(o)", False),
]


def test_mypy_plugin_reports_unmasked_text(tmp_path: Path) -> None:
    head = (
        "import enum\nfrom protocols.text import Masked\nclass K(enum.Enum):\n    A = 1\n"
        "def say(m: Masked, ms: list[Masked], u: str, us: list[str], o: object, n: int, k: type[K]) -> None:"
        "\n"
    )
    (tmp_path / "protocols").mkdir()
    (tmp_path / "protocols/text.py").write_text("class Masked(str): ...\n")
    assert _reported(tmp_path, head, CLAIMED, "unmasked") == {text for text, good in CLAIMED if not good}


def test_mypy_plugin_reports_bytes_in_text(tmp_path: Path) -> None:
    """The type may be inferred: names without annotations are checked, too."""
    head = "def say(a: bytes, d: dict[str, int], e: list[str], f: bytes | None) -> None:\n"
    assert _reported(tmp_path, head, OUTPUTS, "octets-in-text") == {
        text for text, good in OUTPUTS if not good
    }


def _reported(folder: Path, head: str, rows: list[tuple[str, bool]], code: str) -> set[str]:
    """Return the expressions for which mypy reports the error in a module of the package `protocols`."""
    package = folder / "protocols"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "said.py").write_text(head + "".join(f"    print({text})\n" for text, _ in rows))
    settings = folder / "mypy.ini"
    settings.write_text(f"[mypy]\nplugins = {octets_in_text.__file__}\n")
    words, trouble, _ = mypy.api.run(
        ["--config-file", str(settings), "--cache-dir", str(folder / "cache"), str(package)]
    )
    assert trouble == ""
    first = head.count("\n") + 1
    return {rows[int(line.split(":")[1]) - first][0] for line in words.splitlines() if f"[{code}]" in line}
