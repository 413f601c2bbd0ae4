"""What do the tests notice? The sources are changed in one place at a time, and the tests that run that place
have to fail. `make mutants` samples such changes; it is for whoever asks, and no part of the test run."""
