"""Dialogues on pages: the events of one retrieval as a sequence diagram, a table and JSON.

A `Recording` hears what `-v` and `--trace` show, and gives an `Exchange`; `planned` makes one of what
`explain` says, so that a plan stands beside what became of it. `panel` makes markup of both.
"""
