"""The test suites of other libraries, run with the adapters of this project: `python -m tools.guests`."""
