"""Run the test suites of other libraries with this project's adapters: `python -m tools.guests [NAME...]`.

`guests.toml` has a table for each test suite, with three settings: its source distribution, its budget, and
the tests that do not apply, with the reasons. The budget is the number of tests that must pass; it may only
rise. Each suite has a separate virtual environment below build/guests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
BUILD = CHECKOUT / "build" / "guests"
#: The timeout of one test in seconds.
_MAX_SECONDS = 60


@dataclass(frozen=True)
class Guest:
    """A test suite of another library.

    Attributes:
        name: The name of the suite and of its folder, which contains the virtual environment.
        source: The source distribution with the tests, as `name==version`. The value is empty if the tests
            are in this project and find the virtual environment by `RESOLVE_SERVERS_ROOT`.
        sha256: The SHA-256 digest of the source distribution.
        tests: The files and folders of the tests.
        budget: The number of tests that must pass.
        plugin: The pytest plugin in this folder that installs the adapter in the tested library.
        extra: The extras with which this project is installed; without extras, it is not installed.
        requires: The other requirements of the virtual environment.
        rename: The text replacements in the sources of the tests.
        not_applicable: The tests that are not run, grouped by the reason.
    """

    name: str
    tests: list[str]
    budget: int
    source: str = ""
    sha256: str = ""
    plugin: str = ""
    extra: str = ""
    requires: list[str] = field(default_factory=list)
    rename: Mapping[str, str] = field(default_factory=dict)
    not_applicable: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def deselected(self) -> list[str]:
        return [test for tests in self.not_applicable.values() for test in tests]

    def run(self) -> Counts:
        """Run the test suite in its virtual environment, and return the counts of its results."""
        folder = BUILD / self.name
        folder.mkdir(parents=True, exist_ok=True)
        python = (
            make_environment(folder, self.requires, self.extra) if self.requires else Path(sys.executable)
        )
        report, output = folder / "report.xml", folder / "output.txt"
        report.unlink(missing_ok=True)
        arguments = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        arguments += [f"--deselect={test}" for test in self.deselected]
        environment = {
            name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")
        }
        if self.source:
            directory = unpack(self.source, self.sha256, folder, python)
            replace_text(directory, self.rename)
            arguments += ["-p", self.plugin, f"--timeout={_MAX_SECONDS}"]
            environment["PYTHONPATH"] = str(HERE)
        else:
            directory, python = CHECKOUT, Path(sys.executable)
            if self.requires:
                environment["RESOLVE_SERVERS_ROOT"] = str(BUILD)
        command = [str(python), "-m", "pytest", *arguments, *self.tests]
        with output.open("w") as file:
            subprocess.run(command, cwd=directory, env=environment, stdout=file, check=False)
        if not report.exists():
            raise SystemExit(f"{self.name}: pytest wrote no report (see {output})")
        return Counts.read(report)


@dataclass(frozen=True)
class Counts:
    """The counts of passed and other tests of a suite; `broken` has the names of the failed tests."""

    passed: int
    skipped: int
    broken: list[str]

    @classmethod
    def read(cls, report: Path) -> Counts:
        """Read the counts from the JUnit XML report of pytest."""
        cases = list(ElementTree.parse(report).iter("testcase"))
        broken = [
            case for case in cases if case.find("failure") is not None or case.find("error") is not None
        ]
        skipped = sum(case.find("skipped") is not None for case in cases)
        names = [f"{case.get('classname')}.{case.get('name')}" for case in broken]
        return cls(len(cases) - skipped - len(broken), skipped, names)


def make_environment(folder: Path, requires: list[str], extra: str) -> Path:
    """Create a virtual environment with the requirements, and return the path of its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    packages = [] if not extra else ["-e", f"{CHECKOUT}[{extra}]", "pytest>=9", "pytest-timeout>=2.4"]
    install(python, *packages, *requires)
    return python


def install(python: Path, *arguments: str) -> None:
    """Install requirements with pip; `arguments` are the arguments of `pip install`."""
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *arguments],
        check=True,
    )


def unpack(source: str, sha256: str, folder: Path, python: Path) -> Path:
    """Download a source distribution, verify its SHA-256 digest, and return the unpacked folder."""
    name, _, version = source.partition("==")
    pinned = folder / "source.txt"
    pinned.write_text(f"{source} --hash=sha256:{sha256}\n")
    flags = ["--require-hashes", "--no-deps", "--no-binary", name, "-d", str(folder), "-r", str(pinned)]
    archive = folder / f"{name}-{version}.tar.gz"
    if not archive.exists():
        command = [str(python), "-m", "pip", "download", "-q", "--disable-pip-version-check", *flags]
        subprocess.run(command, check=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / f"{name}-{version}"


def replace_text(folder: Path, rename: Mapping[str, str]) -> None:
    """Replace texts in the source files of the tests."""
    for path in sorted((folder / "tests").rglob("*.py")) if rename else ():
        text = path.read_text("utf-8")
        for old, new in rename.items():
            text = text.replace(old, new)
        path.write_text(text, "utf-8")


def read_guests() -> Iterator[Guest]:
    """Yield the test suites in `guests.toml`."""
    for name, row in tomllib.loads((HERE / "guests.toml").read_text("utf-8")).items():
        yield Guest(name=name, **row)


def main(names: list[str]) -> int:
    """Run the test suites with these names, print the counts, and return the exit status."""
    guests = {guest.name: guest for guest in read_guests()}
    if unknown := set(names) - set(guests):
        print(f"no suite {min(unknown)}: expected one of {', '.join(guests)}", file=sys.stderr)
        return 2
    failures = []
    for guest in (guests[name] for name in names or guests):
        try:
            counts = guest.run()
        except subprocess.CalledProcessError as error:  # pip has already printed the error
            failures.append(f"{guest.name}: {' '.join(map(str, error.cmd))} failed")
            continue
        print(
            f"{guest.name}: {counts.passed} passed, {len(counts.broken)} failed,"
            f" {counts.skipped} skipped by the suite, {len(guest.deselected)} not run"
        )
        for reason, tests in guest.not_applicable.items():
            print(f"    {len(tests)} not run: {reason}")
        for test in counts.broken:
            print(f"    failed: {test}")
        if counts.passed > guest.budget:
            print(f"    raise the budget from {guest.budget} to {counts.passed} in guests.toml")
        sys.stdout.flush()
        if counts.passed < guest.budget:
            failures.append(f"{guest.name}: {counts.passed} tests passed, expected {guest.budget}")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
