"""Recursive retrieval of directory trees from any server, as tasks for a batch.

`scope` defines the limits of a tree, the selection of files, loop detection and local names. `spool` stores
the found entries, and `walk` visits the directories.
"""
