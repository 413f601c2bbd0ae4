"""Trees: the entries below a directory of any server, listed and returned as tasks for a batch.

`scope` defines the limits of a tree, the selection of files, the detection of loops and the local names.
Found entries wait in a `spool`, and `walk` visits the directories one by one.
"""
