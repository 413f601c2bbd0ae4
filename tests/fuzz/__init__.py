"""Coverage-guided fuzzing of the parsers.

`harnesses` has a harness for each parser, with its first inputs. `found` has the inputs that failed once.
`python -m tests.fuzz NAME` runs one harness with atheris, and `make fuzz` runs all of them.
"""
