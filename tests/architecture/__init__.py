"""The rules of the house as functions: each looks at one module and says what breaks it.

`test_architecture` runs them over every source file, and over the modules of `planted`, which break them one
by one. A rule returns sentences, one a violation; none means that the module keeps it.
"""
