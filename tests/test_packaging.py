"""The files of packaging/: dependencies equal to pyproject.toml, a Debian package, an action of GitHub."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from tools.requirements import read_pyproject

CHECKOUT = Path(__file__).parents[1]
PACKAGING = CHECKOUT / "packaging"
PYPROJECT = read_pyproject()
PYBUILD = Path("/usr/share/perl5/Debian/Debhelper/Buildsystem/pybuild.pm")
#: The packages that hatchling needs, all of them in pure Python.
HATCHLING = ("hatchling", "packaging", "pathspec", "pluggy", "tomlkit", "trove_classifiers")


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("debian/control", r"python3-([\w-]+) \(>= ([0-9.]+)\)"),
        ("conda/recipe.yaml", r"^ +- ((?!python )[\w-]+) >=([0-9.]+)$"),
    ],
)
def test_dependencies_equal_pyproject(path: str, pattern: str) -> None:
    found = re.findall(pattern, (PACKAGING / path).read_text("utf-8"), re.MULTILINE)
    wanted = [*PYPROJECT["build-system"]["requires"], *PYPROJECT["project"]["dependencies"]]
    assert sorted(f"{name}>={bound}" for name, bound in found) == sorted(wanted)


@pytest.mark.skipif(not PYBUILD.exists(), reason="needs debhelper, pybuild-plugin-pyproject and python3-all")
def test_debian_package_has_command_and_completions(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True)
    (sdist,) = tmp_path.glob("*.tar.gz")
    orig = sdist.rename(tmp_path / f"url-resolver_{PYPROJECT['project']['version']}.orig.tar.gz")
    source, library = tmp_path / "source", tmp_path / "library"
    source.mkdir()
    library.mkdir()
    subprocess.run(["tar", "-xf", str(orig), "-C", str(source), "--strip-components=1"], check=True)
    shutil.copytree(source / "packaging/debian", source / "debian")
    for name in HATCHLING:  # Debian's hatchling may be older than the required one
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.submodule_search_locations is not None
        (library / name).symlink_to(found.submodule_search_locations[0])
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(library), "HOME": str(tmp_path)}
    build = ["dpkg-buildpackage", "--no-sign", "--no-check-builddeps"]
    subprocess.run(build, cwd=source, env=environment, check=True, capture_output=True)
    (package,) = tmp_path.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", str(package), str(tmp_path / "root")], check=True)
    share = tmp_path / "root/usr/share"
    for path in (
        "bash-completion/completions/resolve",
        "fish/vendor_completions.d/resolve.fish",
        "man/man1/resolve.1.gz",
        "zsh/vendor-completions/_resolve",
    ):
        assert (share / path).is_file(), path
    modules = environment | {"PYTHONPATH": str(tmp_path / "root/usr/lib/python3/dist-packages")}
    started = [str(tmp_path / "root/usr/bin/resolve"), "--version"]
    shown = subprocess.run(started, env=modules, check=True, capture_output=True, text=True)
    assert shown.stdout == f"resolve {PYPROJECT['project']['version']}\n"


def test_action_passes_inputs_as_data(tmp_path: Path) -> None:
    """An input is an environment variable, so that the shell does not expand its content."""
    text = (PACKAGING / "action/action.yml").read_text("utf-8")
    install, get = re.findall(r"^ +run: (.*)$", text, re.MULTILINE)
    assert "${{" not in install + get
    assert '"$GITHUB_ACTION_PATH/../.."' in install
    command = tmp_path / "resolve/bin/resolve"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m resolver "$@"\n')
    command.chmod(0o755)
    urls = []
    for name in ("a $(touch injected).txt", "b;`touch injected`.txt"):
        (tmp_path / name).write_text(name)
        urls.append(f"file://{quote(str(tmp_path / name))}")
    saved = tmp_path / "saved $(touch injected)"
    saved.mkdir()
    inputs = {"URLS": "\n".join(urls), "DIRECTORY": str(saved), "POLICY": "default"}
    environment = os.environ | {"RUNNER_TEMP": str(tmp_path), "PYTHONPATH": str(CHECKOUT)} | inputs
    subprocess.run(["bash", "-e", "-o", "pipefail", "-c", get], cwd=tmp_path, env=environment, check=True)
    assert sorted(path.read_text() for path in saved.iterdir()) == sorted(
        path.read_text() for path in tmp_path.glob("*.txt")
    )
    assert not (tmp_path / "injected").exists()


def test_image_copies_every_file_of_a_wheel(tmp_path: Path) -> None:
    """No Docker is needed: a wheel of the copied files equals a wheel of the checkout."""
    source = tmp_path / "source"
    source.mkdir()
    for line in re.findall(
        r"^COPY (?!--)(.*) \S+$", (PACKAGING / "Dockerfile").read_text("utf-8"), re.MULTILINE
    ):
        for name in line.split():
            path = CHECKOUT / name
            if path.is_dir():
                shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(path, source)
    wheels: list[bytes] = []
    for folder in (CHECKOUT, source):
        target = tmp_path / f"wheel{len(wheels)}"
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        wheels += [path.read_bytes() for path in target.iterdir()]
    assert wheels[0] == wheels[1]
