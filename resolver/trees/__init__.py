"""Recursive retrieval of directory trees from any server, as tasks for a batch.

The module `scope` limits a tree, selects files, detects loops, and assigns local names. The module `spool`
stores the found entries. The module `walk` visits the directories.
"""
