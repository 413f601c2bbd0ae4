"""The long description of the package index, and the software bill of materials (SBOM) of a wheel."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

#: A Markdown link to a path of the checkout, or a picture there.
_RELATIVE_LINK = re.compile(r"(!?)\[([^]]+)\]\((?![a-z]+:|#)([^)]+)\)")
#: A requirement: a name, extras, one lower bound.
_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[\w,]+\])?(?:>=([0-9.]+))?")

_NOTE = "\nThe source distribution contains the pages that this text names, below `docs/`.\n"


def long_description(readme: str, base: str | None) -> str:
    """Return the README for a package index, which has no other file of the repository.

    Args:
        readme: The text of README.md.
        base: The URL of the checkout's files, with a slash at the end. With None a link becomes its text.
    """
    if base is not None:
        return _RELATIVE_LINK.sub(lambda link: f"{link[1]}[{link[2]}]({base}{link[3]})", readme)
    return _RELATIVE_LINK.sub(r"\2", readme) + _NOTE


def sbom(name: str, version: str, dependencies: Iterable[str]) -> str:
    """Return the SBOM of a wheel as CycloneDX 1.7 JSON, equal for equal arguments.

    The wheel contains no other project's code. Each run-time dependency is therefore an external component:
    a range of versions, which the installer resolves.
    """
    package = {"type": "library", "name": name, "version": version, "licenses": [{"license": {"id": "MIT"}}]}
    root = _package_url(name) + f"@{version}"
    components = [_component(*_parsed(each)) for each in sorted(dependencies)]
    document: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.7.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.7",
        "version": 1,
        "metadata": {"component": {**package, "bom-ref": root, "purl": root}},
        "components": components,
        "dependencies": [{"ref": root, "dependsOn": [each["bom-ref"] for each in components]}],
    }
    return json.dumps(document, indent=2) + "\n"


def _parsed(requirement: str) -> tuple[str, str | None]:
    found = _REQUIREMENT.fullmatch(requirement)
    if found is None:
        raise ValueError(f"SBOM: expected a name and a lower bound, got {requirement!r}")
    return found[1], found[2]


def _component(name: str, bound: str | None) -> dict[str, Any]:
    url = _package_url(name)
    component = {"type": "library", "bom-ref": url, "name": name, "purl": url, "isExternal": True}
    return component if bound is None else {**component, "versionRange": f"vers:pypi/>={bound}"}


def _package_url(name: str) -> str:
    return "pkg:pypi/" + re.sub(r"[-_.]+", "-", name).lower()
