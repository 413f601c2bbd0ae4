"""The files that are generated from the tables of the command.

`hook` generates the completions and the man page of `resolver.cli.manual` while a wheel is built.
`python -m manual DIR` generates them for other packagers. `reference` generates pages of docs/reference.
"""
