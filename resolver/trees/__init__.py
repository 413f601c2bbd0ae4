"""Trees: what is below a directory, listed and given out as tasks for a batch, wherever it is.

`scope` says what is below, `selection` which files are wanted, `loops` what was there before, `names` how the
files of a directory are called here. What is found waits in a `spool`, and `walk` goes from listing to
listing.
"""
