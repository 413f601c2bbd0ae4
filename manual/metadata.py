"""The long description for the package index (PyPI), and the software bill of materials (SBOM) of a wheel."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

#: A Markdown link or image with a path relative to the checkout.
_RELATIVE_LINK = re.compile(r"(!?)\[([^]]+)\]\((?![a-z]+:|#)([^)]+)\)")
#: A requirement with a name, optional extras, and an optional lower bound.
_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[\w,]+\])?(?:>=([0-9.]+))?")

_NOTE = "\nThe source distribution contains the pages that this text names, below `docs/`.\n"


def long_description(readme: str, base: str | None) -> str:
    """Return the README for a package index, without relative links to files of the repository.

    Args:
        readme: The text of README.md.
        base: The base URL for relative links, with a slash at the end. If None, a relative link is replaced
            by its text.
    """
    if base is not None:
        return _RELATIVE_LINK.sub(lambda link: f"{link[1]}[{link[2]}]({base}{link[3]})", readme)
    return _RELATIVE_LINK.sub(r"\2", readme) + _NOTE


def sbom(name: str, version: str, dependencies: Iterable[str]) -> str:
    """Return the SBOM of a wheel as CycloneDX 1.7 JSON; the output is reproducible.

    The wheel does not bundle code of other projects. Therefore each run-time dependency is an external
    component with a version range, which the installer resolves.
    """
    package = {"type": "library", "name": name, "version": version, "licenses": [{"license": {"id": "MIT"}}]}
    root = _package_url(name) + f"@{version}"
    components = [_component(*_split_requirement(dependency)) for dependency in sorted(dependencies)]
    document: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.7.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.7",
        "version": 1,
        "metadata": {"component": {**package, "bom-ref": root, "purl": root}},
        "components": components,
        "dependencies": [{"ref": root, "dependsOn": [dependency["bom-ref"] for dependency in components]}],
    }
    return json.dumps(document, indent=2) + "\n"


def _split_requirement(requirement: str) -> tuple[str, str | None]:
    match = _REQUIREMENT.fullmatch(requirement)
    if match is None:
        raise ValueError(f"SBOM: expected a name and a lower bound, got {requirement!r}")
    return match[1], match[2]


def _component(name: str, bound: str | None) -> dict[str, Any]:
    url = _package_url(name)
    component = {"type": "library", "bom-ref": url, "name": name, "purl": url, "isExternal": True}
    return component if bound is None else {**component, "versionRange": f"vers:pypi/>={bound}"}


def _package_url(name: str) -> str:
    return "pkg:pypi/" + re.sub(r"[-_.]+", "-", name).lower()
