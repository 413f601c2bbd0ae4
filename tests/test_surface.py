"""The stable surface before any fetch: the public names, the version, a quick start."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import resolver
from resolver.version import VERSION
from tests.fresh import environment

CHECKOUT = Path(__file__).parents[1]

#: Modules that these commands must not import: the network, other loops, and slow modules.
HEAVY = frozenset(
    [
        *("trio", "httpx", "httpx2", "httpcore", "h11", "anyio", "idna", "asyncio", "socket", "ssl"),
        *("email", "http", "urllib.request", "importlib.metadata", "logging", "subprocess", "threading"),
        *("rich", "secrets", "sqlite3"),
        *("bz2", "lzma", "random", "shutil", "tempfile"),
        *("resolver.transfer.batch", "resolver.ledger", "resolver.trees"),
    ]
)


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a fresh Python with warnings as errors, in the checkout."""
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(
        command,
        cwd=CHECKOUT,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
    )


def _imported_by(code: str) -> set[str]:
    """Return the modules that are loaded after the code has run."""
    done = _run("-c", f"{code}\nimport sys\nprint('\\n', *sys.modules)")
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def _command(*arguments: str) -> str:
    return (
        f"from resolver.cli import main\ntry: assert main({list(arguments)!r}) == 0\nexcept SystemExit: pass"
    )


@pytest.mark.parametrize(
    "code",
    [
        "import resolver",
        "import resolver; resolver.parse('prospero://h.example/a%00b;v=1')",
        "import resolver; resolver.extract('see <URL:ftp://h.example/a> and http://h.example/')",
        "import resolver; resolver.explain('gopher://h.example/1')",
        "import resolver; resolver.explain('file:///etc/hostname')",
        "import resolver; resolver.check('http://h.example:25/', policy=resolver.Policy.untrusted())",
        "import resolver; resolver.ResolveError, resolver.Response, resolver.Limits",
        _command("--version"),
        _command("--help"),
        _command("parse", "wais://h.example/db?words"),
        _command("parse", "--json", "telnet://h.example/"),
        _command("explain", "gopher://h.example/0a"),
        _command("explain", "--json", "nntp://h.example/g/1"),
    ],
)
def test_offline_commands_import_no_heavy_modules(code: str) -> None:
    assert _imported_by(code) & HEAVY == set()


def test_explain_of_gopher_imports_no_json_and_no_urllib() -> None:
    imported = _imported_by(_command("explain", "gopher://h.example/0a"))
    unused = {"protocols.gopher.attributes", "protocols.gopher.records", "datetime", "ipaddress", "signal"}
    assert imported & {"json", "textwrap", "urllib.parse", *unused} == set()


def test_explain_of_http_imports_no_login_and_no_cookies() -> None:
    unused = {"protocols.http.digest", "protocols.http.cookies", "ipaddress"}
    assert (
        _imported_by(_command("explain", "http://h.example/a")) & {"hashlib", "urllib.parse", *unused}
        == set()
    )


def test_version_loads_no_dataclasses_and_no_typing() -> None:
    unused = {"dataclasses", "datetime", "signal", "typing"}
    assert _imported_by(_command("--version")) & unused == set()


#: Number of our modules that a command line imports: they are most of its startup time. A test fails if there
#: are a tenth more; lower the number if it falls.
OURS: dict[str, int] = {
    "--version": 10,
    "--help": 36,
    "parse gopher://h.example/0a": 41,
    "explain gopher://h.example/0a": 61,
    "explain http://h.example/a": 64,
    "config": 37,
}


@pytest.mark.parametrize("line", OURS)
def test_command_imports_at_most_recorded_modules(line: str) -> None:
    assert len(_ours(_command(*line.split()))) <= OURS[line] * 1.1 + 1


#: Code that prints the number of patterns that our loaded modules compiled during the import.
_COUNT_PATTERNS = """
import re
ours = [vars(module) for name, module in sys.modules.items() if name.startswith(("protocols", "resolver"))]
print("\\n", sum(isinstance(value, re.Pattern) for names in ours for value in names.values()))
"""


def test_explain_compiles_few_patterns_at_import() -> None:
    """A pattern costs 0.02 to 0.2 ms; a pattern of a rare case is compiled when it is first used."""
    done = _run("-c", f"import sys\n{_command('explain', 'gopher://h.example/0a')}{_COUNT_PATTERNS}")
    assert int(done.stdout.splitlines()[-1]) <= 31


def test_cat_of_file_imports_no_saving_modules(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one line\n")
    imported = _ours(_command("cat", file.as_uri()))
    assert len(imported) <= 105
    many = {"resolver.trees.lists", "resolver.trees.walk", "resolver.ledger.book", "resolver.warc"}
    assert imported & {"resolver.transfer.saving", "resolver.transfer.segmented", *many} == set()


#: A server that answers one request with a text, and a client for it.
_OF_ONE_TEXT = """
import socket, threading
listener = socket.create_server(("127.0.0.1", 0))
def answer():
    with listener.accept()[0] as peer, peer.makefile("rb") as request:
        request.readline()
        peer.sendall(b"one line\\r\\n")
threading.Thread(target=answer, daemon=True).start()
from resolver.cli import main
assert main(["cat", f"gopher://127.0.0.1:{listener.getsockname()[1]}/0a"]) == 0
"""


def test_cat_of_text_imports_only_its_modules() -> None:
    """No other schemes, loops, content codings, saved files, plans, trees, lists, archives."""
    imported = _imported_by(_OF_ONE_TEXT)
    assert len({name for name in imported if name.startswith(("protocols", "resolver"))}) <= 110
    others = {"resolver.network.datagrams", "resolver.files.local", "resolver.transfer.saving"}
    many = {"resolver.trees.lists", "resolver.trees.walk", "resolver.ledger.book", "resolver.warc"}
    unused = {"protocols.http", "resolver.files.part_state", "resolver.transfer.plan", "resolver.cli.hints"}
    unused |= {"resolver.transfer.many"}
    http = {"httpx", "httpx2", "httpcore", "h11", "h2", "brotli", "zstandard", "publicsuffixlist"}
    slow = {"anyio", "asyncio", "difflib", "email", "importlib.metadata", "json", "netrc", "rich", "zoneinfo"}
    assert imported & {*others, *many, *unused, *http, *slow} == set()


def _ours(code: str) -> set[str]:
    return {name for name in _imported_by(code) if name.partition(".")[0] in ("protocols", "resolver")}


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h.example/a",
        "gopher://h.example/0a",
        "http://h.example/a",
        "nntp://h.example/group/1",
        "news:id@h.example",
        "file:///etc/hostname",
        "prospero://h.example/a.txt",
    ],
)
def test_explain_imports_no_retrieval_modules(url: str) -> None:
    imported = _imported_by(f"import resolver; resolver.explain({url!r})")
    assert "protocols.step" in imported
    of_a_retrieval = {"protocols.conversation.driver", "resolver.network.connector", "h11"}
    assert imported & of_a_retrieval == set()


def test_parse_imports_no_dialogue_and_no_policy() -> None:
    imported = _imported_by("import resolver; resolver.parse('ftp://h.example/a')")
    assert "protocols.ftp.url" in imported
    assert (
        imported & {"protocols.step", "protocols.wire", "protocols.other", "resolver.policy.judgment"}
        == set()
    )
    assert "resolver.policy.judgment" not in _imported_by(_command("parse", "ftp://h.example/a"))


def test_heavy_import_is_detected() -> None:
    assert {"ssl", "socket"} <= _imported_by("import ssl") & HEAVY


def test_cat_of_file_imports_no_httpx(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one line\n")
    imported = _imported_by(_command("cat", file.as_uri()))
    assert "trio" in imported
    assert imported & {"httpx", "httpcore", "h11", "rich"} == set()


def test_public_names_are_the_visible_names() -> None:
    assert dir(resolver) == sorted(resolver.__all__)
    assert len(set(resolver.__all__)) == len(resolver.__all__)
    for name in resolver.__all__:
        value = getattr(resolver, name)
        if inspect.ismodule(value):
            assert value.__name__ == f"resolver.{name}"
            continue
        for each in getattr(value, "__args__", (value,)):  # of a union, its members
            assert each.__module__.startswith(("resolver", "protocols")), name


def test_types_of_settings_are_public() -> None:
    named = " ".join(each.__forward_arg__ for each in resolver.Settings.__annotations__.values())
    values = {"Policy", "Limits", "Options", "RetryPolicy"}
    assert values <= set(re.findall(r"\w+", named))
    assert {*values, "Credentials", "Referrer"} <= set(resolver.__all__)


def test_public_names_are_those_that_type_checkers_see() -> None:
    tree = ast.parse(Path(resolver.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = {
        alias.asname or alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(homes) == sorted(resolver.__all__)
    for name, home in homes.items():
        assert getattr(importlib.import_module(home or ""), name) is getattr(resolver, name)


def test_no_module_hides_a_public_name() -> None:
    """An import of `resolver.x` sets the attribute x of the package, and replaces its old value."""
    folder = Path(resolver.__file__).parent
    hidden = {path.stem for path in folder.iterdir()} & set(resolver.__all__)
    assert {name for name in hidden if not inspect.ismodule(getattr(resolver, name))} == set()


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = resolver.no_such_name  # type: ignore[attr-defined]


def test_version_equals_pyproject() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == VERSION == resolver.__version__
    done = _run("-c", "from resolver.cli import run; import sys; sys.argv[1:] = ['--version']; run()")
    assert (done.returncode, done.stdout.split()) == (0, ["resolve", VERSION])
