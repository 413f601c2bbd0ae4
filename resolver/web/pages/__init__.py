"""Page functions, which convert data to a `WebPage`. Each kind of URL has a module.

A page consists of a template and its values. The values may be untrusted data from a server. `render` escapes
all template values for HTML (XSS), and shows control characters and bidirectional characters as escape
sequences. So the functions of this package pass template values unchanged and do not generate HTML.
"""
