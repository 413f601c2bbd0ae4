"""Protocol exchanges on pages: the events of one retrieval as a sequence diagram, a table and JSON.

`ExchangeRecording` receives the events that `-v` and `--trace` show, and produces a `RecordedExchange`.
`make_planned_exchange` makes another `RecordedExchange` from a plan of `explain`, so that the page shows plan
and outcome together. `panel` makes HTML of both.
"""
