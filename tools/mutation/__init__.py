"""Mutation testing: one place of the sources is changed, and the tests that run it must fail.

`make mutants` samples such changes. It runs on demand and is not part of the test run.

Neither mutmut nor cosmic-ray replaces this runner. mutmut 3 changes only the bodies of functions and chooses
tests by function, from its own run of the suite. cosmic-ray 8 runs one fixed command for every change and
chooses no tests. Neither draws a seeded sample of places over the complete tree, nor limits memory. This
runner chooses tests by line from coverage's contexts, including lines that run at import.
"""
