"""The documentation pages agree with the code: their tables are checked, and their links exist."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import protocols.step
import resolver
from protocols import errors
from resolver import Kind
from resolver.cli.arguments import VERB_NAMES
from resolver.cli.config import list_configurable
from resolver.cli.show_config import EffectiveSetting
from resolver.cli.vocabulary import RULES, STATUSES
from resolver.url import registry
from resolver.web.egress import ProxyDecision
from tests.resolver.cli import contract
from tools.requirements import read_pyproject

CHECKOUT = Path(__file__).parents[1]
PAGES = [
    *("README.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"),
    *sorted(str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "docs").rglob("*.md")),
]


def page(name: str) -> str:
    return (CHECKOUT / name).read_text(encoding="utf-8")


def rows(text: str, heading: str) -> Iterator[list[str]]:
    """Yield the cells of the rows of the first table after a heading."""
    _, _, section = text.partition(f"\n## {heading}\n")
    assert section, f"there is no section {heading!r}"
    table = re.search(r"(?:^\|.*\|\n)+", section, re.MULTILINE)
    assert table is not None
    for line in table[0].splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_baseline_page_has_a_state_and_evidence() -> None:
    controls = re.findall(r"^\| (OSPS-\S+) \| [^|]+ \| ([^|]+) \| ([^|]*)\|$", page(BASELINE), re.MULTILINE)
    assert len({control for control, _, _ in controls}) == len(controls) == 24  # level 1 of 2026.08.28
    assert {state for _, state, _ in controls} <= {"holds", "partly", "does not hold", "open"}
    assert [
        control for control, state, evidence in controls if state != "open" and not evidence.strip()
    ] == []


BASELINE = "docs/explanation/openssf-baseline.md"
ARCHITECTURE = page("docs/explanation/architecture.md")
CONTRACT = page("docs/reference/contract.md")


def test_contract_lists_errors_with_exit_statuses() -> None:
    told = {
        names(row[0])[0]: (names(row[1])[0], row[3]) for row in rows(CONTRACT, "Errors and exit statuses")
    }
    classes = {
        name: kind
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.ResolveError) and kind is not errors.ResolveError
    }
    assert told.keys() == classes.keys()
    for name, kind in classes.items():
        under, status = told[name]
        assert kind.__mro__[1].__name__ == under
        if name not in ("Refused", "LimitExceeded"):  # their status depends on the rule or limit
            assert status == str(kind.exit_code)
    assert told["Refused"][1] == f"{refused('S04')}, with rule S10 {refused('S10')}"
    assert (
        told["LimitExceeded"][1] == f"{exceeded('line')}, for `body`, `ratio` and `quota` {exceeded('ratio')}"
    )


def refused(rule: str) -> int:
    return errors.Refused(rule, "").exit_code


def exceeded(limit: str) -> int:
    assert {errors.LimitExceeded(name, "").exit_code for name in ("body", "ratio", "quota")} == {14}
    return errors.LimitExceeded(limit, "").exit_code


def test_contract_lists_every_command() -> None:
    assert {names(row[0])[0] for row in rows(CONTRACT, "The command")} == set(VERB_NAMES)


def test_configuration_page_names_keys_that_differ_from_options() -> None:
    differing = {row.name for row in list_configurable() if row.name != row.long[2:].replace("-", "_")}
    text = page("docs/how-to/configuration.md")
    assert differing == {key for key in ("headers", "during") if f"`{key}` for `--" in text}


def test_readme_rules_equal_help() -> None:
    told = [
        (row[0], row[1].replace("`", ""), names(row[2]))
        for row in rows(page("docs/reference/policy.md"), "Rules")
    ]
    assert told == [(rule.name, rule.sentence, list(rule.options)) for rule in RULES]


def test_help_lists_every_exit_status() -> None:
    classes = {
        kind.exit_code
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if hasattr(kind, "exit_code")
    }
    assert set(STATUSES) == {0, 1, 9, 130, 141, 143} | {exceeded("ratio"), refused("S10")} | classes


MEMBERS = {
    "`ls`, `info` (an entry)": contract.ENTRY,
    "`ls`, `info`, of a URL that fails": contract.FAILURE,
    "`get`, `cat` (an outcome)": contract.OUTCOME,
    "`explain` (a plan)": contract.PLAN,
    "`parse`, of a text that is not a URL": ("url", "error", "message", "position"),
    "`extract`": ("url", "alternates"),
    "`schemes`": contract.SCHEME,
    "`config` (a setting)": EffectiveSetting._fields,
    "`proxy` (the first line)": ("url", "policy"),
    "`proxy` (a decision)": ProxyDecision._fields,
    "`bulk`": contract.BULK,
    "`bulk --dry-run`": contract.BULK_PLAN,
    "`bulk --progress json`, on standard error": contract.BULK_PROGRESS,
    "`ledger`": contract.LEDGER,
    "a failure of a ledger": contract.LEDGER_FAILURE,
    "`ledger --failed` (one that is left)": contract.LEFT,
    "`warc ls` (a record)": contract.RECORD,
    "`warc check` (a finding)": contract.RECORD_FINDING,
    **{f"a step `{name}`": members for name, members in contract.STEP.items()},
}


def test_contract_lists_members_of_records() -> None:
    """`tests/resolver/cli/test_contract.py` checks the command for the same members."""
    told = {row[0]: row[1] for row in rows(CONTRACT, "The JSON members")}
    parse = told.pop("`parse`, for every scheme")
    assert set(parse.partition(",")[0].split()) == contract.COMMON
    assert told.keys() == MEMBERS.keys()
    for record, members in MEMBERS.items():
        assert set(told[record].split()) == set(members), record


def test_contract_lists_values_of_records() -> None:
    _, _, section = CONTRACT.partition("## The JSON members")
    for kind in Kind:
        assert re.search(rf"\b{kind.value}\b", section), kind
    for proof in contract.PROOFS:
        assert proof in section


def test_contract_lists_every_public_name() -> None:
    told = {name for row in rows(CONTRACT, "The Python API") for name in names(row[1])}
    errors_told = {names(row[0])[0] for row in rows(CONTRACT, "Errors and exit statuses")} | {"ResolveError"}
    assert told | errors_told == set(resolver.__all__)


#: A test on a page: its file and its name.
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")


def test_tests_on_explanation_pages_exist() -> None:
    found = [
        each for name in PAGES if name.startswith("docs/explanation") for each in TEST.findall(page(name))
    ]
    assert len(found) > 40
    missing = [
        (path, test)
        for path, test in found
        if not (CHECKOUT / path).exists() or (test and f"def {test}(" not in page(path))
    ]
    assert missing == []


#: Texts that are paths of the checkout.
PATH = re.compile(r"(?!/)[\w<>./-]*(?:\w/|/\w+|\.(?:py|md|jsonl|toml|txt|sh))")
FOLDERS = sorted({row.partition(":")[0].rpartition(".")[2] for row in registry.SCHEMES.values()})


@pytest.mark.parametrize(
    "name",
    [
        *(
            "docs/explanation/architecture.md",
            "docs/explanation/security.md",
            "docs/explanation/openssf-baseline.md",
        ),
        *("docs/reference/contract.md", "CONTRIBUTING.md", "SECURITY.md"),
    ],
)
def test_paths_on_page_exist(name: str) -> None:
    """Paths are relative to the root of the checkout; `<scheme>` stands for each built-in scheme."""
    paths = [word for word in names(page(name)) if PATH.fullmatch(word)]
    for folder in FOLDERS:
        there = [CHECKOUT / path.replace("<scheme>", folder) for path in paths]
        assert [str(path) for path in there if not path.exists()] == []


def test_architecture_page_lists_every_folder() -> None:
    rooms = {path for row in rows(ARCHITECTURE, "The packages") for cell in row[1:] for path in names(cell)}
    folders = {str(path.parent.relative_to(CHECKOUT)) for path in CHECKOUT.glob("resolver/*/__init__.py")}
    folders |= {str(path.parent.relative_to(CHECKOUT)) for path in CHECKOUT.glob("protocols/*/__init__.py")}
    assert folders - {f"protocols/{folder}" for folder in FOLDERS} <= rooms


def test_floors_equal_layers_of_import_contract() -> None:
    contracts = read_pyproject()["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["id"] == "resolver-layers"]
    floor = {
        name.removeprefix("resolver/"): int(row[0])
        for row in rows(ARCHITECTURE, "The packages")
        for name in names(row[1])
    }
    levels = [{floor[room] for room in layer.split(" | ") if room in floor} for layer in layers[::-1]]
    found = [level.pop() for level in levels if level]
    assert not any(levels), "two rooms of one layer stand on different floors"
    assert found == sorted(set(found))
    assert max(found) <= 12


def test_life_of_a_url_shows_seven_existing_files() -> None:
    picture = re.search(r"## The life of a URL\n\n```\n(.*?)```", ARCHITECTURE, re.DOTALL)
    assert picture is not None
    boxes = re.findall(r"^ (\d)  (\S+)", picture[1], re.MULTILINE)
    assert [int(number) for number, _ in boxes] == [1, 2, 3, 4, 5, 6, 7]
    for _, path in boxes:
        assert (CHECKOUT / path.replace("<scheme>", "ftp")).is_file(), path
    steps = re.search(r"generator of steps: (.*)", picture[1])
    assert steps is not None
    assert all(hasattr(protocols.step, step) for step in steps[1].split(", "))


def test_architecture_page_has_line_count_of_scheme() -> None:
    lines = (CHECKOUT / "fixtures/plugins/more_schemes/finger.py").read_text(encoding="utf-8").splitlines()
    assert (
        f"`fixtures/plugins/more_schemes/finger.py` is a complete scheme in {len(lines)} lines"
        in ARCHITECTURE
    )


#: A row of the glossary: a term, its meaning, and its definition.
WORD = re.compile(r"^    (\w+) +\S.*?\(([\w.]+)\)$", re.MULTILINE | re.DOTALL)


def defined(word: str, place: str) -> bool:
    """Return whether the name is defined in a module, or as a class's annotated attribute or property."""
    place = place if place.startswith("resolver.") else f"protocols.{place}"
    if place.islower():
        found = getattr(importlib.import_module(place), word, None)
        return found is not None and (not inspect.isclass(found) or found.__module__ == place)
    module, _, owner = place.rpartition(".")
    named = getattr(importlib.import_module(module), owner)
    return hasattr(named, word) or word in inspect.get_annotations(named)


def test_glossary_terms_are_defined_in_code() -> None:
    found = WORD.findall(protocols.__doc__ or "")
    assert len(found) == len(re.findall(r"^    \w", protocols.__doc__ or "", re.MULTILINE)) > 40
    assert [(word, place) for word, place in found if not defined(word, place)] == []
    words = [word for word, _ in found]
    assert len(words) == len(set(words))


#: Environment variables that the tests read.
READ = re.compile(r"environ(?:\.get\(|\[)\"((?:RESOLVE|[A-Z]+_FUZZ)[A-Z_]*)|\$\{?(RESOLVE_[A-Z_]+)")


def test_environment_variables_are_documented() -> None:
    texts = [*(CHECKOUT / "tests").rglob("*.py"), *(CHECKOUT / "tests").rglob("*.sh"), CHECKOUT / "Makefile"]
    found = {
        name for path in texts for pair in READ.findall(path.read_text(encoding="utf-8")) for name in pair
    }
    told = {
        name.partition("=")[0]
        for row in rows(page("CONTRIBUTING.md"), "Skipped tests")
        for name in names(row[0])
    }
    assert told == found - {""}


def test_make_targets_are_documented() -> None:
    makefile = page("Makefile")
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert targets is not None
    explained = re.findall(r"^#   make ([a-z-]+)  ", makefile, re.MULTILINE)
    assert sorted(explained) == sorted(targets[1].split())


@pytest.mark.parametrize("name", PAGES)
def test_links_of_page_exist(name: str) -> None:
    text = page(name)
    for place in re.findall(r"\]\(([^)]+)\)", text):
        if "://" in place:
            continue
        path, _, heading = place.partition("#")
        there = CHECKOUT / name if not path else (CHECKOUT / name).parent / path
        assert there.exists(), place
        if heading:
            headings = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {
                re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in headings
            }
