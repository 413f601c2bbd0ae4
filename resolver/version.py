"""The version: a literal, because asking the installed metadata for it costs more than parsing a URL.
A test holds it to `pyproject.toml`."""

VERSION = "0.1.0"
