"""Coverage-guided fuzzing of the parsers.

`harnesses` has a fuzz harness and a seed corpus for each parser. `found` has inputs that failed in the past.
`python -m tests.fuzz NAME` runs one harness with atheris, and `make fuzz` runs all of them.
"""
