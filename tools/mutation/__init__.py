"""Mutation testing: one location in the sources is changed, and the tests that run this location must fail.

`make mutants` tries a random sample of changes. This command runs on demand and is not part of the test run.

The existing tools mutmut and cosmic-ray lack required features:

- mutmut 3 changes only the bodies of functions, and selects tests by function, from a separate run of the
  suite.
- cosmic-ray 8 runs one fixed command for every change, and does not select tests.
- Both tools cannot draw a seeded sample from the complete source tree, and cannot limit memory.

This runner selects tests by line, from the contexts of coverage, including lines that run at import.
"""
