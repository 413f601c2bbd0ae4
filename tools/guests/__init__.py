"""Tests of this project's adapters with the test suites of other libraries: `python -m tools.guests`."""
