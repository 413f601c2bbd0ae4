"""Examples in docstrings run unchanged against the bundled servers, and print the shown output.

They may await, as a program under trio does. Their URLs are those of `python -m fixtures`.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from operator import attrgetter
from pathlib import Path
from types import FunctionType
from typing import Any, get_args

import pytest
import trio

import resolver
from fixtures.__main__ import server_tls
from resolver import ResolveError
from tests.test_recipes import start_servers, with_ports

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
#: Parameters with the same meaning everywhere, described at `Settings` and `fetch`.
GENERAL = {"settings", "url", "text", "policy", "origin", "referrer", "gateways", "strict", "options"}
CHECKER = doctest.OutputChecker()


def texts() -> Iterator[tuple[str, str]]:
    """Yield every public name, and every public method of the main classes, with its docstring."""
    public = {name: getattr(resolver, name) for name in resolver.__all__}
    public |= {f"blocking.{name}": getattr(resolver.blocking, name) for name in resolver.blocking.__all__}
    for name, value in public.items():
        yield name, inspect.getdoc(value) or ""
        if value in (resolver.Resolver, resolver.HttpxTransport, resolver.blocking.Resolver):
            for each, method in vars(value).items():
                if inspect.isfunction(method) and not each.startswith("_"):
                    yield f"{name}.{each}", inspect.getdoc(method) or ""


TEXTS = dict(texts())
EXAMPLES = {
    name: found for name, text in TEXTS.items() if (found := doctest.DocTestParser().get_examples(text))
}


@pytest.mark.parametrize("name", TEXTS)
def test_public_name_has_docstring(name: str) -> None:
    assert TEXTS[name].strip()


@pytest.mark.parametrize("name", [name for name in TEXTS if inspect.isroutine(getattr(resolver, name, None))])
def test_public_function_documents_parameters_and_errors(name: str) -> None:
    text = TEXTS[name]
    assert name in EXAMPLES
    for parameter in inspect.signature(getattr(resolver, name)).parameters:
        said = f"    {parameter}:" in text or f"`{parameter}`" in text or parameter in GENERAL
        assert said, f"nothing is said of {parameter}"
    assert "Raises:\n" in text or "never raises" in text.lower()


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if "\nArgs:\n" in text])
def test_docstring_describes_only_parameters_of_signature(name: str) -> None:
    section = TEXTS[name].partition("\nArgs:\n")[2].partition("\n\n")[0]
    described = re.findall(r"^    \W*(\w+):", section, re.MULTILINE)
    assert described
    assert set(described) <= inspect.signature(attrgetter(name)(resolver)).parameters.keys()


def is_error_or_event(name: str) -> bool:
    """Return whether the class is an error or event: the examples of functions show it."""
    value = getattr(resolver, name)
    return inspect.isclass(value) and issubclass(value, (ResolveError, *get_args(resolver.Event)))


@pytest.mark.parametrize("name", [name for name in resolver.__all__ if name != "Event"])
def test_public_name_has_example(name: str) -> None:
    assert name in EXAMPLES or is_error_or_event(name)


def test_session_classes_have_examples() -> None:
    assert {
        "Resolver",
        "HttpxTransport",
        "blocking",
        "Policy",
        "Limits",
        "RetryPolicy",
        "Credentials",
    } <= EXAMPLES.keys()


def test_blocking_docstrings_do_not_await() -> None:
    waiting = {name: text for name, text in TEXTS.items() if name.startswith("blocking.")}
    assert {"blocking.fetch", "blocking.stream", "blocking.open"} <= waiting.keys() & EXAMPLES.keys()
    for name, text in waiting.items():
        assert not {"await", "async"} & set(text.split()), name


@pytest.mark.parametrize("name", EXAMPLES)
async def test_example_prints_shown_output(
    name: str, nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = await start_servers(nursery, server_tls(tmp_path)[0])
    shown = {there: here for here, there in ports.items()}
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"resolver": resolver, "trio": trio}
    for example in EXAMPLES[name]:
        said = await run(with_ports(example.source, ports), names)
        wanted = example.want if example.exc_msg is None else example.exc_msg
        assert CHECKER.check_output(wanted, with_ports(said, shown), FLAGS), f"{example.source}{said}"


async def run(source: str, names: dict[str, Any]) -> str:
    """Return the output of an interactive session; of an error the last line."""
    code = compile(source, "<example>", "single", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    with redirect_stdout(StringIO()) as out:
        try:
            statement = FunctionType(code, names)
            if code.co_flags & inspect.CO_COROUTINE:
                await statement()
            else:  # the statement may wait for a server of this thread
                await trio.to_thread.run_sync(statement)
        except (ResolveError, ValueError) as error:
            return "".join(traceback.format_exception_only(error))
    return out.getvalue()
