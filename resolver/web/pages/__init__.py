"""Pages by the kind of a URL: functions from data to a `WebPage`, one module for each kind.

A page consists of a template and its values. Values may come from any server and are passed unchanged. Only
`render` escapes HTML, and shows control and bidirectional characters as escapes. Functions here therefore
neither escape nor write HTML.
"""
