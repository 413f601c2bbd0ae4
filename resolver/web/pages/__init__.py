"""Pages by the kind of a URL: functions from facts to a `WebPage`, a module a kind.

A page is a template and its values. A value is text as it came, from whoever it came: what would drive a
terminal or turn a line around is shown as an escape, and what would be markup is escaped, in one place for
all (`render`). So no function here escapes, and none writes markup.
"""
