"""The wheel and the source distribution: files, metadata, SBOM, dependencies, equal builds."""

from __future__ import annotations

import email
import email.policy
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from manual.metadata import long_description
from tests.everywhere import interpreters
from tools.requirements import in_group, read_pyproject, requirements

CHECKOUT = Path(__file__).parents[1]


def build(source: Path, folder: Path, **environment: str) -> tuple[Path, Path]:
    """Build a wheel and a source distribution of a checkout in a folder, and return their paths."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    values = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", **environment}
    subprocess.run(command, cwd=source, env=values, capture_output=True, check=True)
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(name="built", scope="module")
def _built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(CHECKOUT, tmp_path_factory.mktemp("built"))


@pytest.fixture(name="info", scope="module")
def _info(built: tuple[Path, Path]) -> Mapping[str, str]:
    """Return the files of the wheel's .dist-info folder, by path."""
    with zipfile.ZipFile(built[0]) as wheel:
        return {
            name.partition(".dist-info/")[2]: wheel.read(name).decode()
            for name in wheel.namelist()
            if ".dist-info/" in name
        }


def test_sdist_has_every_file_of_repository(built: tuple[Path, Path]) -> None:
    if not (CHECKOUT / ".git").exists():
        pytest.skip("this is no repository")
    trusting = ["git", "-c", f"safe.directory={CHECKOUT}"]
    listed = subprocess.run([*trusting, "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, check=True)
    with tarfile.open(built[1]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert set(listed.stdout.decode().split("\0")) - {""} <= held
    assert not {name for name in held if re.search(r"(^|/)(\.git|\.venvs?|\.servers|__pycache__)/", name)}


def test_builds_of_equal_files_are_equal(built: tuple[Path, Path], tmp_path: Path) -> None:
    """Built again from the source distribution: in another folder, with other file times and environment."""
    other = tmp_path / "other folder"
    other.mkdir()
    subprocess.run(["tar", "-xf", built[1], "-C", other], check=True)
    (source,) = other.iterdir()
    for path in source.rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    again = build(source, tmp_path / "dist", PYTHONHASHSEED="7", TZ="Asia/Tokyo", LC_ALL="C")
    assert [path.name for path in again] == [path.name for path in built]
    digests = [[hashlib.sha256(path.read_bytes()).hexdigest() for path in pair] for pair in (built, again)]
    assert digests[0] == digests[1]


def test_long_description_has_no_relative_link(info: Mapping[str, str]) -> None:
    metadata = email.message_from_string(info["METADATA"], policy=email.policy.default)
    assert metadata["Description-Content-Type"] == "text/markdown"
    _, _, text = info["METADATA"].partition("\n\n")
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    links = [
        str(token.attrs["href" if token.type == "link_open" else "src"])
        for block in tokens
        for token in block.children or ()
        if token.type in ("link_open", "image")
    ]
    assert [link for link in links if not re.match("https?://", link)] == []
    assert sum(block.type == "table_open" for block in tokens) >= 3


def test_long_description_with_base_has_absolute_links() -> None:
    readme = "[a](docs/a.md#b) ![p](docs/p.png) [c](https://h.example/) [d](#e)"
    absolute = "[a](https://r.example/v1/docs/a.md#b) ![p](https://r.example/v1/docs/p.png) "
    absolute += "[c](https://h.example/) [d](#e)"
    assert long_description(readme, "https://r.example/v1/") == absolute
    assert long_description(readme, None).startswith("a p [c](https://h.example/) [d](#e)\n")


def test_wheel_has_sbom_of_dependencies(info: Mapping[str, str]) -> None:
    bill = json.loads(info["sboms/url-resolver.cdx.json"])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.7")
    package = bill["metadata"]["component"]
    assert package["purl"] == f"pkg:pypi/{PROJECT['name']}@{PROJECT['version']}"
    assert package["licenses"] == [{"license": {"id": PROJECT["license"]}}]
    ranges = [
        f"{each['name']}{each['versionRange'].removeprefix('vers:pypi/')}" for each in bill["components"]
    ]
    assert ranges == sorted(PROJECT["dependencies"])
    references = [each["bom-ref"] for each in bill["components"]]
    assert bill["dependencies"] == [{"ref": package["bom-ref"], "dependsOn": references}]


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("CITATION.cff", r"^version: (.*)$"),
        ("packaging/conda/recipe.yaml", r'^  version: "(.*)"$'),
        ("packaging/debian/changelog", r"\A\S+ \((.*)-\d+\)"),
        ("packaging/snakemake/pyproject.toml", r'^version = "(.*)"$'),
    ],
)
def test_version_equals_pyproject(path: str, pattern: str) -> None:
    found = re.search(pattern, (CHECKOUT / path).read_text("utf-8"), re.MULTILINE)
    assert found is not None
    assert found[1] == PROJECT["version"]


def test_release_workflow_installs_the_required_hatchling() -> None:
    workflow = (CHECKOUT / ".github/workflows/release.yml").read_text("utf-8")
    assert re.findall(r'pip install "(.*)"', workflow) == read_pyproject()["build-system"]["requires"]


def test_release_workflow_has_one_permission_per_job() -> None:
    """A job that runs code of the repository cannot publish."""
    workflow = (CHECKOUT / ".github/workflows/release.yml").read_text("utf-8")
    assert re.findall(r"^permissions: (.*)$", workflow, re.MULTILINE) == ["{}"]
    assert re.findall(r"^    permissions:\n((?: {6}.*\n)+)", workflow, re.MULTILINE) == [
        "      contents: read\n",
        "      id-token: write\n",
    ]


def test_paths_stay_inside_repository() -> None:
    """No file refers to a path above the top of the checkout."""
    for path in (path for folder in ("tests", "fixtures") for path in (CHECKOUT / folder).rglob("*.py")):
        depth = len(path.relative_to(CHECKOUT).parts)
        upwards = re.findall(r"\bparents\[(\d+)\]", path.read_text(encoding="utf-8"))
        assert all(int(steps) < depth for steps in upwards), path


#: A valid requirement: one lower bound, or a compatible release.
BOUND = re.compile(r"[\w-]+(\[\w+\])?(>=|~=)[0-9.]+")
PROJECT = read_pyproject()["project"]
EXTRAS = set(chain.from_iterable(PROJECT["optional-dependencies"].values()))
GROUPS = sorted(read_pyproject()["dependency-groups"])


def test_dependencies_have_lower_bounds() -> None:
    wanted = {*PROJECT["dependencies"], *EXTRAS, *chain.from_iterable(map(in_group, GROUPS))}
    assert {text for text in wanted if not BOUND.fullmatch(text)} == {"httpx[http2]"}


def test_group_full_includes_extras_with_equal_bounds() -> None:
    assert EXTRAS - {"httpx[http2]"} <= set(in_group("full"))


def test_requirements_lowest_pins_the_package_and_the_groups() -> None:
    plain = requirements(["lint", "test"])
    assert set(in_group("test")) < set(plain)
    pinned = requirements(["lint", "test"], lowest=True)
    assert set(pinned) == {text.replace(">=", "==") for text in (*PROJECT["dependencies"], *plain)}
    assert not [text for text in pinned if ">=" in text]


def test_no_group_is_published_as_an_extra() -> None:
    assert PROJECT["optional-dependencies"].keys().isdisjoint(GROUPS)


def test_interpreters_finds_pythons_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found on PATH and in the user's usual folders; virtual environments and other programs are not."""
    real = os.path.join(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    (tmp_path / "python3.99").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3.99").chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{Path(sys.executable).parent}:{Path(real).parent}")
    assert sys.version_info[:3] in [found.version for found in interpreters()]
    assert str(tmp_path / "python3.99") not in [found.path for found in interpreters()]


def test_metadata_names_supported_pythons() -> None:
    metadata = PROJECT
    pattern = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    named = [found[1] for each in metadata["classifiers"] if (found := pattern.fullmatch(each))]
    assert named == [f"3.{minor}" for minor in range(11, 14)]  # the versions that tests have run with
    assert metadata["requires-python"] == f">={named[0]}"
    owner = re.search(r"^Copyright \(c\) \d+ (.*)$", (CHECKOUT / "LICENSE").read_text("utf-8"), re.MULTILINE)
    assert owner is not None
    assert metadata["authors"][0]["name"].lower() == owner[1].lower()
