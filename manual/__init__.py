"""Generators of completions, the man page and reference pages, from the tables of the command line.

`hook` generates the shell completions and the man page of `resolver.cli.manual` during the build of a wheel.
`python -m manual DIR` generates the same files for other packagers. `reference` generates pages of
docs/reference.
"""
