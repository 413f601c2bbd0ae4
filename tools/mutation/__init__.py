"""What do the tests notice? The sources are changed in one place at a time, and the tests that run that place
have to fail. `make mutants` samples such changes; it is for whoever asks, and no part of the test run.

Neither mutmut nor cosmic-ray replaces this runner. mutmut 3 changes only the bodies of functions and chooses
tests by function, from its own run of the suite. cosmic-ray 8 runs one fixed command for every change and
chooses no tests. Neither draws a seeded sample of places over the whole tree, nor limits memory.
This runner chooses tests by line from coverage's contexts, lines that run at import included.
"""
