"""The libraries of an extra that are missing, as messages name them.

A message names libraries, never `url-resolver` itself: until a release nobody owns that name in the package
index, and whoever registers it would own what users are told to run.
"""

from __future__ import annotations

import re

#: A requirement in the metadata of a distribution (PEP 508): its name, and the version that it begins with.
_REQUIREMENT = r"([\w.-]+)(?:\[[^]]*\])?(?:[~>]=([\w.]+?)(?:\.0)?(?=[;,\s]|\Z))?"
_EXTRA = r"""extra == ['"]([^'"]+)['"]"""


def missing_libraries(extra: str, distribution: str = "url-resolver") -> str:
    """Return the end of a message that begins with what needs the extra.

    Args:
        extra: Its name, or several with commas between.
        distribution: Whose extra it is: ours, or that of a plug-in.

    Returns:
        For example `lxml 6 or later (the extra html): pip install lxml`; all libraries of the extra where
        each is there, and so one is too old; the name of the extra where the metadata do not tell.
    """
    from importlib.metadata import PackageNotFoundError, requires  # 40 ms, and few messages need it
    from importlib.util import find_spec

    try:
        requirements = requires(distribution) or []
    except PackageNotFoundError:
        requirements = []
    libraries: dict[str, str] = {}
    for requirement in requirements:
        found, of = re.match(_REQUIREMENT, requirement), re.search(_EXTRA, requirement)
        if found is not None and of is not None and of[1] in extra.split(","):
            libraries[found[1]] = f"{found[1]} {found[2]} or later" if found[2] else found[1]
    if not libraries:
        return f"the extra {extra} of {distribution}, which is not installed"
    lacking = [name for name in libraries if find_spec(name.replace("-", "_")) is None] or [*libraries]
    named = ", ".join(libraries[name] for name in lacking)
    return f"{named} (the extra {extra}): pip install {' '.join(lacking)}"
