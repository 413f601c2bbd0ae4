"""The rules of the architecture as functions: each checks a module and returns its violations.

`test_architecture` runs them over every source file, and over the modules of `planted`, each of which breaks
a rule. A rule returns a sentence per violation; an empty list means that the module complies.
"""
