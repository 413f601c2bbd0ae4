"""The version of the package.

A literal: reading the installed metadata takes longer than parsing a URL. A test compares it with
`pyproject.toml`.
"""

VERSION = "0.1.0"
