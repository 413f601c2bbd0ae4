"""Page functions convert data to a `WebPage`. Each kind of URL has a module.

A page consists of a template and its values. Values may be untrusted data from a server. `render` escapes all
values for HTML (XSS), and shows control characters and bidirectional characters as escape sequences. So the
functions of this package pass values unchanged and do not generate HTML.
"""
